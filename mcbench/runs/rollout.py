"""Episodes of several turns in training, as TRL's ``rollout_func``, and in evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.worlds.multi_turn import Environment, Episode, Sampled, play

if TYPE_CHECKING:
    from mcbench.runs.sampling import Policy


def training_rollout(
    environment: Environment, problems: Mapping[str, Problem]
) -> Callable[[list[Any], Any], dict[str, Any]]:
    """What TRL calls for the responses to its prompts; the trainer's rows name the ``problem_id``.

    Each turn is one call of the trainer's sampler and one of the environment. Old log-probabilities
    and entropies are those of sampling, token by token, as for responses of one turn.
    """
    import torch  # heavy: evaluations import this file, too, and so does who reads records

    from mcbench.grpo.decode import Trace

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        def sample(contexts: Sequence[list[int]], limit: int) -> list[Sampled]:
            ids = trainer.respond(list(contexts), limit, trainer.temperature)
            trace = trainer.trace
            if trace is None:
                raise UserError("feedback needs whole weights in each process: no fsdp2")
            known = (one.tolist() for one in trace.log_probs), (e.tolist() for e in trace.entropies)
            return list(zip(ids, *known, strict=True))

        asked = [problems[row["problem_id"]] for row in trainer.batch_rows]
        limit = trainer.max_completion_length
        ends = trainer.eos_token_ids
        played = play(environment, asked, sample, trainer.processing_class, limit, ends)
        episodes = played.episodes
        trainer.trace = Trace(
            [torch.tensor(one.log_probs) for one in episodes],
            [torch.tensor(one.entropies) for one in episodes],
        )
        trainer.log_of_batch({f"time/rollout_{n}_s": s for n, s in played.seconds.items()})
        return {
            "prompt_ids": [one.prompt for one in episodes],
            "completion_ids": [one.ids for one in episodes],
            "logprobs": None,
            "env_mask": [one.own for one in episodes],
            "episode": episodes,
        }

    return rollout


def evaluation_episodes(
    policy: Policy,
    environment: Environment,
    problems: Sequence[Problem],
    budget: int,
    temperature: float,
    seed: int,
) -> list[Episode]:
    """The same rollout with a policy that is evaluated; every turn has a seed of its own."""
    turn = 0

    def sample(contexts: Sequence[list[int]], limit: int) -> list[Sampled]:
        nonlocal turn
        turn += 1
        found = policy.sampler(contexts, limit, temperature, seed * 1009 + turn)
        return [(ids, [], []) for ids in found]

    return play(environment, problems, sample, policy.tokenizer, budget, policy.ends).episodes
