"""Log-probabilities of a sampler that keeps some tokens only: top_k, top_p, min_p.

TRL 1.16 samples from what these leave of softmax(logits / T) and computes log-probabilities of the
whole of it, so that ratios are of another policy than the one that sampled
(https://github.com/huggingface/trl/issues/6789, 6944). Here they are renormalised over the tokens
that are kept,

    log π(y) = z_y - log Σ_{v kept} exp z_v,   z = logits / T,

of the old policy as of the new one, each with the tokens that it keeps itself; the sampled token is
always among them, so that a policy that has moved away from it has a small probability and not
none. The same numbers as vLLM's ``processed_logprobs``. They need the whole logits of a forward
pass, which TRL does not hold otherwise: B x T x V numbers of 4 bytes. Beside a KL term they stay
those of the whole distribution, as TRL's: between policies that keep different tokens there is no
finite KL.

Shapes: N tokens, V words of the vocabulary.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mcbench.grpo.config import MicroCoderGRPOConfig

Filter = Any  # of transformers: ``filter(None, scores)`` is -inf where a token is not kept


def filters(args: MicroCoderGRPOConfig) -> list[Filter]:
    """What log-probabilities keep of (N, V) scores: what the sampler of these arguments keeps, in
    its order; everything (empty) where it samples from all, or beside a KL term.
    """
    return [] if args.beta else sampled_from(args)


def sampled_from(args: MicroCoderGRPOConfig) -> list[Filter]:
    """What the sampler of these arguments keeps; empty where it samples from all."""
    top_k, top_p, min_p = truncating(args).values()
    found: list[Filter] = []
    if top_k and top_k > 0:
        found.append(TopKLogitsWarper(top_k))
    if top_p is not None and top_p < 1:
        found.append(TopPLogitsWarper(top_p))
    if min_p:  # which vLLM looks at before the others
        found.insert(0 if args.use_vllm else len(found), MinPLogitsWarper(min_p))
    return found


def truncating(args: MicroCoderGRPOConfig) -> dict[str, Any]:
    """top_k, top_p and min_p that responses are sampled with."""
    given: Any = args.generation_kwargs or {}
    return {name: given.get(name, getattr(args, name)) for name in ("top_k", "top_p", "min_p")}


def kept_log_probs(
    scores: Tensor, tokens: Tensor, kept_by: Sequence[Filter]
) -> tuple[Tensor, Tensor]:
    """(N,) log-probabilities of the (N,) tokens, and entropies (nats), over what is kept of the
    (N, V) scores, logits / T.
    """
    kept = scores.detach()
    for one in kept_by:
        kept = one(None, kept)
    if kept_by:
        dropped = kept.isinf().scatter(1, tokens[:, None], False)
        log_probs = scores.masked_fill(dropped, -torch.inf).log_softmax(dim=-1)
        finite = log_probs.masked_fill(dropped, 0.0)
    else:
        finite = log_probs = scores.log_softmax(dim=-1)
    return log_probs.gather(1, tokens[:, None]).squeeze(1), -(log_probs.exp() * finite).sum(dim=-1)


def in_their_places(
    each: tuple[Tensor, Tensor], places: Tensor, aux_loss: Any = None
) -> SimpleNamespace:
    """What TRL reads of a model: (N,) log-probabilities and entropies at the N true of the (B, T)
    bool ``places``, and 0 elsewhere.
    """
    log_probs, entropy = (one.new_zeros(places.shape).masked_scatter(places, one) for one in each)
    return SimpleNamespace(log_probs=log_probs, entropy=entropy, aux_loss=aux_loss)


class TruncatedHead:
    """A model called as TRL calls it for log-probabilities, which gives those of what is kept."""

    def __init__(self, model: Any, temperature: float, kept_by: Sequence[Filter]) -> None:
        self.model, self.temperature, self.kept_by = model, temperature, kept_by

    def __call__(self, labels: Tensor, fused_lm_head: bool, **inputs: Any) -> SimpleNamespace:
        """``labels`` are (B, W + T) tokens, -100 for what is not scored."""
        found = self.model(**inputs)
        labels = labels[:, 1:]
        scored = labels != -100
        scores = found.logits[:, :-1][scored].float() / self.temperature
        each = kept_log_probs(scores, labels[scored], self.kept_by)
        return in_their_places(each, scored, getattr(found, "aux_loss", None))
