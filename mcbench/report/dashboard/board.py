"""What a live view says of followed runs: their table, who is ahead, what is drawn at first.

One board serves a dashboard in a notebook and any number of browsers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcbench.report.dashboard.follower import RunFollower, StoreFollower
from mcbench.report.dashboard.progress import Progress, progress_of, span, speed
from mcbench.report.series import group_runs, passes, seed_of
from mcbench.report.style import ArmStyle, arm_styles

FIRST_SECTIONS = ("Learning", "Truncation and mask")
MOST_CHOSEN = 12  # runs of a folder that are drawn before anybody chose
DECIDING_SEEDS = 5  # of each arm; with fewer the order of two means says nothing
_FIRST = {"running": 0, "starting": 0, "planned": 1}


@dataclass(frozen=True)
class Seen:
    """The runs of one model as they were seen last: arm -> its runs, and the table's rows with the
    progress that they tell.
    """

    arms: Mapping[str, Sequence[RunFollower]]
    rows: Sequence[dict[str, Any]]
    lines: Sequence[Progress]

    @property
    def named(self) -> dict[str, tuple[ArmStyle, RunFollower]]:
        """Name -> look and run."""
        styles = arm_styles(self.arms)
        return {
            _name(styles[arm], run): (styles[arm], run)
            for arm, runs in self.arms.items()
            for run in runs
        }

    def stored_nearest(
        self, arm: str, step: float, chosen: Sequence[str]
    ) -> tuple[str, int] | None:
        """Run and update of the responses that an arm stored nearest to a step: of the chosen run
        that has any, the first. None where there are none.
        """
        runs = [run for run in self.arms.get(arm, ()) if run.completion_steps()]
        if not runs:
            return None
        run = min(runs, key=lambda run: run.run_id not in chosen)
        return run.run_id, min(run.completion_steps(), key=lambda one: abs(one - step))


class Board:
    """The runs of a folder, by model and arm; arms keep their colours and rows their order.

    ``sizes`` is what was seen last, by model; ``first`` are the ids of the runs that are drawn
    unless a reader takes them out.
    """

    def __init__(self, store: StoreFollower) -> None:
        self.store = store
        self.sizes: dict[str, Seen] = {}
        self.first: list[str] = []
        self._arm_order: list[str] = []
        self._row_order: list[str] = []
        self._begun = False

    def look(self) -> bool:
        """Read what is new; whether anything was."""
        changed = self.store.poll()
        self._begun = bool(self._row_order)  # of every model, which come one after another
        grouped = group_runs((run.arm, run) for run in self.store.runs.values() if run.meta)
        self.sizes = {model: self._seen(arms) for model, arms in grouped.items()}
        return changed

    def newest_model(self) -> str | None:
        """That of the run which began last; None without runs."""
        newest = {
            model: max(started(run) for runs in seen.arms.values() for run in runs)
            for model, seen in self.sizes.items()
        }
        return max(newest, key=lambda model: newest[model], default=None)

    def _seen(self, found: Mapping[str, Sequence[RunFollower]]) -> Seen:
        """A new arm comes last, so that the others keep their colours. Runs that were not there
        before come first, those under way on top; after that no row moves.
        """
        unknown = [arm for arm in found if arm not in self._arm_order]
        self._arm_order += sorted(unknown, key=lambda arm: min(map(started, found[arm])))
        arms = {arm: found[arm] for arm in self._arm_order if arm in found}
        styles = arm_styles(arms)
        entries = {
            run.run_id: (progress_of(run), arm, run) for arm, runs in arms.items() for run in runs
        }
        newest = {arm: max(map(started, runs)) for arm, runs in arms.items()}
        new = [entry for run_id, entry in entries.items() if run_id not in self._row_order]
        # Stable: an arm's runs stay together.
        new.sort(key=lambda entry: (_FIRST.get(entry[0].state, 2), -newest[entry[1]]))
        self._draw_first([(run.run_id, arm) for _, arm, run in new])
        self._row_order = [run.run_id for _, _, run in new] + self._row_order
        ordered = [entries[run_id] for run_id in self._row_order if run_id in entries]
        rows = [_row(run, styles[arm], progress) for progress, arm, run in ordered]
        return Seen(arms, rows, [progress for progress, _, _ in ordered])

    def _draw_first(self, new: Sequence[tuple[str, str]]) -> None:
        """Of runs that nobody could choose yet (id, arm), those to draw: all that come later; of
        many that were there before, the first arms.
        """
        by_arm: dict[str, list[str]] = {}
        for run_id, arm in new:
            by_arm.setdefault(arm, []).append(run_id)
        drawn: list[str] = []
        for ids in by_arm.values():
            few = not drawn or len(drawn + ids) <= MOST_CHOSEN
            if self._begun or not self.store.all or few:
                drawn += ids
        self.first += drawn


def started(run: Any) -> float:
    """When the run began, seconds since 1970; 0 of one that did not."""
    return float(run.meta.get("started", 0.0))


def _name(style: ArmStyle, run: RunFollower) -> str:
    return f"{style.label}, seed {run.meta['seed']}"


def _row(run: RunFollower, style: ArmStyle, progress: Progress) -> dict[str, Any]:
    """One line of the table; everything in it is shown as text."""
    return {
        "id": run.run_id,
        "name": _name(style, run),
        "arm": style.label,
        "color": style.color,
        "dash": style.dash,
        "state": progress.state,
        "note": progress.note,
        "step": progress.step,
        "steps": progress.steps,
        "share": round(progress.share, 4),
        "count": f"{progress.step}/{progress.steps}" if progress.steps else "",
        "speed": speed(progress.rate) if progress.rate and progress.state == "running" else "",
        "left": span(progress.left_s) if progress.left_s is not None else "",
        "reward": _reward(progress.reward, run),
        "accuracy": _percent(progress.accuracy),
    }


def _reward(reward: float | None, run: RunFollower) -> str:
    """A share where tests alone reward, else a number."""
    if reward is None or passes({"": [run]}):
        return _percent(reward)
    return f"{reward:.3g}"


def _percent(share: float | None) -> str:
    """``38.3 %``, or nothing."""
    return "" if share is None else f"{100 * share:.1f} %"


def ahead(arms: Mapping[str, Sequence[RunFollower]]) -> str:
    """Who is ahead by pass@1 in a sentence, and what that is worth; empty where no two arms can be
    compared.

    All arms are looked at where the last of their runs is: at the last update that all of them were
    evaluated after, over the seeds that all of them have.
    """
    measured = {
        arm: {seed_of(run): found for run in runs if (found := run.accuracy)}
        for arm, runs in arms.items()
    }
    measured = {arm: by_seed for arm, by_seed in measured.items() if by_seed}
    if len(measured) < 2:
        return ""
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in measured.values())))
    if not seeds:
        return "No arm is ahead yet: they have no seed in common."
    steps = set.intersection(
        *(set(by_seed[seed]) for by_seed in measured.values() for seed in seeds)
    )
    if not (steps := {step for step in steps if step > 0}):
        return ""
    step, styles = max(steps), arm_styles(arms)
    means = {
        arm: 100 * float(np.mean([by_seed[seed][step] for seed in seeds]))
        for arm, by_seed in measured.items()
    }
    first, second, *_ = sorted(means, key=lambda arm: -means[arm])
    gap, count = means[first] - means[second], len(seeds)
    by = f"by {gap:.1f} points of pass@1 before {styles[second].label}"
    told = f"{styles[first].label} is ahead at step {step}, {by}"
    if gap == 0:
        told = f"{styles[first].label} and {styles[second].label} are level at step {step}"
    told += f" ({'one seed' if count == 1 else f'{count} seeds'} of each)"
    if count < DECIDING_SEEDS:
        return f"{told}; under {DECIDING_SEEDS} seeds that decides nothing."
    return f"{told}; claims decide by intervals, not by this order."
