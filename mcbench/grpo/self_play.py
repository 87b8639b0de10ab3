"""Self-play (``self_play``): some groups of a batch pose the problems that the others solve.

Self-play SWE-RL (Wei et al. 2025, arXiv 2512.18552), at second hand: one policy injects bugs and
fixes them, and both roles train together. With s the share of right ones among the attempts at a
bug, who injected it has the reward

    -1 where the bug is not valid,  -α where s is 0 or 1,  else 1 - (1 + α) s,   α = 0.8,

which is highest for bugs that are just solved; the solver is right or wrong.

A batch of P groups of G has k = P / (1 + G) groups that pose, so that each posed problem has one of
the other P - k groups of attempts, of the same policy: s is of the attempts that train. Who poses
is shown G different problems in a group, one for each of those that TRL drew, and has the group's
mean for its baseline, so that as many programs are trained on as without self-play; the last k of
the problems drawn are left out. A group whose problem is not valid solves another posed one of the
batch, and its own where there is none.

``self_play`` is "trained"; "unrewarded", where who poses has no reward, and so no gradient; or
"idle", where all groups solve their own problems as well, which leaves as many attempts, and as
many tokens in the loss, to fixed problems.

Shapes: B = P·G responses of the one process, in dataset order; those that pose come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from mcbench.errors import UserError
from mcbench.grpo import early
from mcbench.grpo.batch_plan import posing_groups
from mcbench.grpo.generation import completion_text
from mcbench.grpo.metrics import known_means

if TYPE_CHECKING:
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer

ALPHA = 0.8
INVALID = -1.0


def set_up(trainer: MicroCoderGRPOTrainer) -> None:
    """Refuses a reward function that knows nothing of posing."""
    told: Any = trainer.reward_funcs[0]
    if len(trainer.reward_funcs) > 1 or not getattr(told, "can_pose", False):
        raise UserError(
            "self_play needs one reward function, of a task whose problems a model can pose "
            "(train_set=self-play:train)"
        )


def posing_reward(valid: bool | None, solved: float | None) -> float:
    """Of a response that poses a problem, of whose attempts a share ``solved`` is right; NaN where
    nobody knows, because our own infrastructure failed.
    """
    if valid is None or (valid and solved is None):
        return float("nan")
    if not valid:
        return INVALID
    assert solved is not None
    return -ALPHA if solved in (0.0, 1.0) else 1 - (1 + ALPHA) * solved


def taken(valid: Sequence[bool]) -> list[int | None]:
    """Of each place the posed problem that is solved there: its own where that is valid, else one
    of the valid ones in turn; None where there is none.
    """
    good = [place for place, one in enumerate(valid) if one]
    if not good:
        return [None] * len(valid)
    others = iter(range(len(valid)))
    return [n if one else good[next(others) % len(good)] for n, one in enumerate(valid)]


def batch(trainer: MicroCoderGRPOTrainer, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a batch in the place of those that TRL drew; their responses are the trainer's
    ``replay``.
    """
    size, how = int(trainer.num_generations), trainer.args.self_play
    told: Any = trainer.reward_funcs[0]
    solving = len(rows) // size - posing_groups(len(rows) // size, size)
    own = rows[: solving * size : size]
    posers = early.responses(trainer, [told.asked(row) for row in own])
    seconds = trainer.seconds.get("generate_s", 0.0)
    made = told.posed(own, [completion_text(one.completion) for one in posers])
    places = taken([row is not None for row, _ in made]) if how != "idle" else [None] * solving
    shown = [own[n] if place is None else made[place][0] for n, place in enumerate(places)]
    solvers = early.scored(trainer, [dict(row) for row in shown for _ in range(size)])
    shares = _shares(trainer, places)
    rewards = [
        posing_reward(judged.passed, shares.get(place)) for place, (_, judged) in enumerate(made)
    ]
    _log(trainer, [judged.passed for _, judged in made], shares, rewards, how == "idle")
    for one, (_, judged) in zip(posers, made, strict=True):
        one.logged = {"verdicts": judged.verdict}
    scores = torch.tensor(rewards, device=trainer.rewards.device).unsqueeze(1)
    if how != "trained":
        scores = torch.full_like(scores, float("nan"))
    took = dict(trainer.seconds)
    took["generate_s"] = took.get("generate_s", 0.0) + seconds
    return early.put(trainer, [*posers, *solvers], torch.cat([scores, trainer.rewards]), took)


def _shares(trainer: MicroCoderGRPOTrainer, places: Sequence[int | None]) -> dict[int, float]:
    """By posed problem the share of right ones among its scored attempts, of all its groups."""
    size, right = int(trainer.num_generations), trainer.args.correct_threshold
    groups = trainer.correctness_rewards().view(-1, size).tolist()
    found: dict[int, list[bool]] = {}
    for place, rewards in zip(places, groups, strict=True):
        if place is not None:
            of = found.setdefault(place, [])
            of += [one >= right for one in rewards if one == one]
    return {place: sum(of) / len(of) for place, of in found.items() if of}


def _log(
    trainer: MicroCoderGRPOTrainer,
    valid: Sequence[bool | None],
    shares: dict[int, float],
    rewards: Sequence[float],
    idle: bool,
) -> None:
    """What became of the attempts, and of the posed problems."""
    attempts = trainer.correctness_rewards()
    passed = attempts[~attempts.isnan()] >= trainer.args.correct_threshold
    told: dict[str, Sequence[float]] = {
        "task/posed_valid": list(map(bool, valid)),
        "task/passed": [passed.float().mean().item()],
        "task/posing_reward": [] if idle else rewards,
        "task/posed_solved": list(shares.values()),
        "task/posed_mixed": [0 < share < 1 for share in shares.values()],
    }
    trainer.log_of_batch(known_means(told))
