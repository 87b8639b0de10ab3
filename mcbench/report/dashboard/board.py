"""What a live view says of followed runs: their table, who is ahead, what is drawn at first.

One board serves a dashboard in a notebook and any number of browsers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcbench.report.dashboard.follower import RunFollower, StoreFollower
from mcbench.report.dashboard.progress import Progress, progress_of, span, speed
from mcbench.report.series import group_runs, seed_of
from mcbench.report.style import ArmStyle, arm_styles

FIRST_SECTIONS = ("Learning", "Truncation and mask")
MOST_CHOSEN = 12  # runs of a folder that are drawn before anybody chose
DECIDING_SEEDS = 5  # of each arm; with fewer the order of two means says nothing
_FIRST = {"running": 0, "starting": 0, "planned": 1}


class Board:
    """The runs of a folder, by model and arm; arms keep their colours and rows their order."""

    def __init__(self, store: StoreFollower) -> None:
        self.store = store
        self._arm_order: list[str] = []
        self._row_order: list[str] = []
        self._known: set[str] = set()

    @property
    def sizes(self) -> dict[str, dict[str, list[RunFollower]]]:
        """model -> arm -> all runs there are."""
        return group_runs((run.arm, run) for run in self.store.runs.values() if run.meta)

    def arms(self, model: str | None) -> dict[str, list[RunFollower]]:
        """The arms of a model, with all their runs. A new one comes last, so that the others keep
        their colours.
        """
        return self._in_order(self.sizes.get(model or "", {}))

    def _in_order(self, found: dict[str, list[RunFollower]]) -> dict[str, list[RunFollower]]:
        new = [arm for arm in found if arm not in self._arm_order]
        self._arm_order += sorted(new, key=lambda arm: min(map(started, found[arm])))
        return {arm: found[arm] for arm in self._arm_order if arm in found}

    def newest_model(self) -> str | None:
        """That of the run which began last; None without runs."""
        newest = {
            size: max(started(run) for runs in arms.values() for run in runs)
            for size, arms in self.sizes.items()
        }
        return max(newest, key=lambda size: newest[size], default=None)

    def named(self, model: str | None) -> dict[str, tuple[ArmStyle, RunFollower]]:
        """Name -> look and run, those that can be chosen now."""
        arms = self.arms(model)
        styles = arm_styles(arms)
        return {
            f"{styles[arm].label}, seed {run.meta['seed']}": (styles[arm], run)
            for arm, runs in arms.items()
            for run in runs
        }

    def rows(self, model: str | None) -> tuple[list[dict[str, Any]], list[Progress]]:
        """The table of a model's runs. Runs that were not there before come first, those under way
        on top; after that no row moves.
        """
        arms = self.arms(model)
        styles = arm_styles(arms)
        found = {
            run.run_id: (progress_of(run), arm, run) for arm, runs in arms.items() for run in runs
        }
        newest = {arm: max(map(started, runs)) for arm, runs in arms.items()}
        new = [entry for run_id, entry in found.items() if run_id not in self._row_order]
        # Stable: an arm's runs stay together.
        new.sort(key=lambda entry: (_FIRST.get(entry[0].state, 2), -newest[entry[1]]))
        self._row_order = [run.run_id for _, _, run in new] + self._row_order
        ordered = [found[run_id] for run_id in self._row_order if run_id in found]
        rows = [
            _row(
                run.run_id,
                f"{styles[arm].label}, seed {run.meta['seed']}",
                styles[arm].label,
                styles[arm],
                progress,
            )
            for progress, arm, run in ordered
        ]
        return rows, [progress for progress, _, _ in ordered]

    def stored_nearest(
        self, model: str | None, arm: str, step: float, chosen: Sequence[str]
    ) -> tuple[str, int] | None:
        """Run and update of the responses that an arm stored nearest to a step: of the chosen run
        that has any, the first. None where there are none.
        """
        runs = [run for run in self.arms(model).get(arm, ()) if run.completion_steps()]
        runs.sort(key=lambda run: run.run_id not in chosen)
        if not runs:
            return None
        return runs[0].run_id, min(runs[0].completion_steps(), key=lambda one: abs(one - step))

    def newly_drawn(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Of runs that nobody could choose yet, those to draw: all that come later; of many that
        were there before, the first arms.
        """
        new: dict[str, list[str]] = {}
        for one in rows:
            if one["id"] not in self._known:
                new.setdefault(one["arm"], []).append(one["id"])
        drawn: list[str] = []
        for ids in new.values():
            if self._known or not self.store.all or not drawn or len(drawn + ids) <= MOST_CHOSEN:
                drawn += ids
        self._known.update(*new.values())
        return drawn


def started(run: Any) -> float:
    """When the run began, seconds since 1970; 0 of one that did not."""
    return float(run.meta.get("started", 0.0))


def _row(run_id: str, name: str, arm: str, style: ArmStyle, progress: Progress) -> dict[str, Any]:
    """One line of the table; everything in it is shown as text."""
    return {
        "id": run_id,
        "name": name,
        "arm": arm,
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
        "reward": _percent(progress.reward),
        "accuracy": _percent(progress.accuracy),
    }


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
