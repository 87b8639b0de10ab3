"""Log-probabilities of a pass in one sequence that has each of its prompts once.

The responses to a prompt share it, and so its keys and values (Liu et al. 2025, Prefix Grouper,
arXiv 2506.05433; verl's ``use_prefix_grouper``). All B rows of a pass lie in one sequence without
padding, first the prompts that differ, then the responses,

    x_1 .. x_{P-1}  |  x_P y_1 .. y_{T-1}  |  x_P y'_1 .. y'_{T'-1}

each token at the position that it has in its own row, under a mask in which a response sees its
prompt and itself. A prompt's last token, from which the first of a response is predicted, stands
before each response, so that the head is computed for the tokens of responses and nothing else.
Loss and gradients are those of one padded pass up to rounding. The logits of all of them are held:
N x V numbers of 4 bytes for N tokens of responses and V words of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mcbench.errors import UserError
from mcbench.grpo.truncation import Filter, in_their_places, kept_log_probs

if TYPE_CHECKING:
    from mcbench.grpo.trl_compat import RepairedGRPOTrainer

Batch = dict[str, Any]  # tensors with a row of each response, beside numbers of the whole


class SharedPrefix:
    """A model called as TRL calls it for log-probabilities, which reads equal prompts once.

    Args:
        kept: T, the last columns of a row, which are its response.
    """

    def __init__(
        self, model: Any, kept: int, temperature: float, kept_by: Sequence[Filter]
    ) -> None:
        self.model, self.kept = model, kept
        self.temperature, self.kept_by = temperature, kept_by

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor, fused_lm_head: bool
    ) -> SimpleNamespace:
        """(B, W) prompts padded on the left, then responses padded on the right."""
        seen, scored = attention_mask.bool(), attention_mask[:, -self.kept :].bool()
        # A hole in a response is read, as in a row of its own. One without tokens has its first.
        inside = scored.flip(1).cummax(dim=1).values.flip(1)
        inside[:, 0] = True
        last = input_ids.shape[1] - self.kept - 1  # column of the prompts' last tokens
        prefixes, which = input_ids.masked_fill(~seen, -1)[:, :last].unique(
            dim=0, return_inverse=True
        )
        prompt, column = (prefixes >= 0).nonzero(as_tuple=True)
        row, place = inside.nonzero(as_tuple=True)
        ids = torch.cat([prefixes[prompt, column], input_ids[row, last + place]])
        position = torch.cat([column, last + place])
        group = torch.cat([prompt, which[row]])
        response = torch.cat([torch.full_like(prompt, -1), row])
        is_key = torch.cat([torch.ones_like(prompt, dtype=torch.bool), seen[row, last + place]])
        mask = (group[:, None] == group) & (position[:, None] >= position) & is_key
        mask &= (response == -1) | (response[:, None] == response)
        logits = self.model(
            input_ids=ids[None],
            attention_mask=mask[None, None],
            position_ids=position[None],
            logits_to_keep=len(row),
            use_cache=False,
        ).logits[0]
        targets = input_ids[row, last + 1 + place]
        each = kept_log_probs(logits.float() / self.temperature, targets, self.kept_by)
        log_probs, entropies = (one[scored[row, place]] for one in each)
        return in_their_places((log_probs, entropies), scored)


def refuse_others(trainer: RepairedGRPOTrainer) -> None:
    """Refuses ``shared_prefix`` where a model cannot read several responses in one sequence."""
    model, args = trainer.model, trainer.args
    config = model.config.get_text_config()
    windows = "sliding" if getattr(config, "sliding_window", None) else "full_attention"
    layers = {*(getattr(config, "layer_types", None) or [windows])}
    adapters = getattr(model, "peft_config", {}).values()
    reasons = {
        f"its attention is {config._attn_implementation!r}, not 'sdpa'": (
            config._attn_implementation != "sdpa"
        ),
        "not all of its layers see the whole sequence, by a mask that they are given": (
            layers != {"full_attention"}
            or model._is_stateful
            or not model._supports_attention_backend
        ),
        "its adapter puts tokens before the prompt": any(a.is_prompt_learning for a in adapters),
        "it reads images": trainer._is_vlm,
        "the loss of its experts counts all tokens": trainer.aux_loss_enabled,
        "cast_lm_head_to_fp32 is TRL's own head": args.cast_lm_head_to_fp32,
    }
    for reason in (text for text, holds in reasons.items() if holds):
        raise UserError(f"shared_prefix is not for this model, set it to False: {reason}")


def arranged(trainer: RepairedGRPOTrainer) -> list[Batch]:
    """The passes of a batch, with the rows of those that one update takes in the order of their
    prompts, so that a pass has fewer of them; as they are where TRL or an option takes a mean, a
    quantile or a share over the tokens of a pass.
    """
    args, slices = trainer.args, trainer._buffered_inputs
    of_pass = args.loss_type == "bnpo" or args.top_entropy_quantile < 1
    of_pass |= bool(args.entropy_coef) or args.use_adaptive_entropy
    if of_pass or args.token_rule != "none" or args.imitate != "none":
        return list(slices)
    found: list[Batch] = []
    size = math.gcd(args.gradient_accumulation_steps, len(slices))
    for start in range(0, len(slices), size):
        passes = slices[start : start + size]
        whole = {
            name: torch.cat([one[name] for one in passes])
            for name, first in passes[0].items()
            if first is not None and first.ndim
        }
        order = whole["prompt_ids"].unique(dim=0, return_inverse=True)[1].argsort(stable=True)
        found += [
            {**one, **{name: rows[part.to(rows.device)] for name, rows in whole.items()}}
            for one, part in zip(passes, order.chunk(size), strict=True)
        ]
    return found
