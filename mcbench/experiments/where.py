"""Where does it hold? The effect of a rule against none in every cell of a grid of conditions.

A cell is what all arms of a comparison have in common: a learning rate and a limit, with one model.
Its runs are a scope of :mod:`mcbench.experiments.match`. In every cell each rule is compared with
no rule, by pass@1 over the last window, with an interval from the seeds; states are the parts' of
:mod:`mcbench.claims.rules`, after Holm's correction over the cells of a map (one rule, one length,
one model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mcbench.claims.contrast import Contrast
from mcbench.claims.curves import run_curves
from mcbench.claims.evidence import Evidence, Part
from mcbench.claims.rules import ALPHA, HIGHER, INCONCLUSIVE, LOWER, NO_EFFECT, answer_state
from mcbench.claims.statistics import estimate, holm, last_window
from mcbench.errors import UserError
from mcbench.experiments.arms import Arms
from mcbench.experiments.experiments import EXPERIMENTS, PlannedRun, grid, planned_runs
from mcbench.experiments.plan import Runs, finished
from mcbench.experiments.training import train_missing
from mcbench.runs.place import committed_records, in_project
from mcbench.runs.store import RunRecord

NAME, NONE = "where_it_holds", "none"
UNDECIDED = "undecided"
COLUMNS = (
    "model", "learning_rate", "limit", "rule", "length", "effect", "low", "high", "seeds", "state"
)  # fmt: skip


class Cell(NamedTuple):
    """A model, a learning rate, and a limit in tokens."""

    model: str
    learning_rate: float
    limit: int

    @property
    def id(self) -> str:
        """Of its curves on a page."""
        rate = f"{self.learning_rate:g}".replace(".", "-").replace("+", "")
        return f"cell-{Path(self.model).name}-{rate}-{self.limit}"

    @property
    def told(self) -> str:
        """For people, without the model."""
        return f"learning rate {self.learning_rate:g}, {self.limit} tokens"


@dataclass(frozen=True)
class Where:
    """The runs of every cell, by arm and seed."""

    cells: Mapping[Cell, Runs]

    @property
    def rules(self) -> list[str]:
        """The arms that are compared with none, in order."""
        found = dict.fromkeys(arm for runs in self.cells.values() for arm in runs)
        return [arm for arm in found if arm != NONE]

    @cached_property
    def effects(self) -> pd.DataFrame:
        """One row per model, cell, rule and evaluated length: the rule minus none.

        Columns: ``model``, ``learning_rate``, ``limit`` (tokens, in training), ``rule``, ``length``
        (tokens, evaluated), ``effect`` in points of pass@1 over the last window with ``low`` and
        ``high`` (95 %), ``seeds``, ``state``: higher, lower, no effect or undecided, after Holm's
        correction over the rows of one model, rule and length. A cell without runs of both arms, or
        with too few evaluations, has no effect (NaN) and is undecided.
        """
        rows = [
            {**cell._asdict(), "rule": rule, **one}
            for cell, runs in self.cells.items()
            for rule in self.rules
            for one in _effects(runs, rule)
        ]
        frame = pd.DataFrame(rows, columns=[*COLUMNS, "p"])
        for _, places in frame.groupby(["model", "rule", "length"], sort=False).groups.items():
            corrected = holm(frame.loc[places, "p"].to_numpy())
            frame.loc[places[corrected > ALPHA], "state"] = UNDECIDED
        return frame[list(COLUMNS)]

    def pooled(self, model: str, rule: str, length: int) -> Part | None:
        """The mean effect over a model's cells: one value a seed; None without common seeds."""
        per_cell = [
            found
            for cell, runs in self.cells.items()
            if cell.model == model and (found := _by_seed(runs, rule, length))
        ]
        seeds = sorted(set.intersection(*map(set, per_cell))) if per_cell else []
        if not seeds:
            return None
        values = np.array([np.mean([one[seed] for one in per_cell]) for seed in seeds])
        return Part("", estimate(values), "points")

    @cached_property
    def means(self) -> pd.DataFrame:
        """One row per model, rule and evaluated length: its cells by state, and their mean effect.

        Columns: ``model``, ``rule``, ``length``, ``cells`` and of them ``higher``, ``lower``,
        ``no effect``, ``undecided``; ``mean`` over the cells in points, with ``low`` and ``high``
        (95 %, from one value a seed; NaN without common seeds).
        """
        states = (HIGHER, LOWER, NO_EFFECT, UNDECIDED)
        found = []
        maps: Any = self.effects.groupby(["model", "rule", "length"], sort=False)
        for (model, rule, length), rows in maps:
            counts = {state: int((rows["state"] == state).sum()) for state in states}
            pooled = self.pooled(model, rule, length)
            mean = ([getattr(pooled.estimate, name) for name in ("value", "low", "high")]
                    if pooled else [np.nan] * 3)  # fmt: skip
            found.append([model, rule, length, len(rows), *counts.values(), *mean])
        columns = ["model", "rule", "length", "cells", *states, "mean", "low", "high"]
        return pd.DataFrame(found, columns=columns)

    @property
    def finding(self) -> str:
        """What is decided, in a sentence."""
        rows, states = self.effects, [HIGHER, LOWER, NO_EFFECT]
        seeds = " or ".join(map(str, sorted(set(rows["seeds"]))))
        counts = self.means[states].sum().items()
        told = [f"{state} in {count}" for state, count in counts if count]
        if not told:
            return f"No cell decided: {seeds} seeds a cell are too few for any of them."
        return (
            f"A rule against none, by cell and evaluated length: {', '.join(told)} of {len(rows)}, "
            f"the others undecided, with {seeds} seeds a cell."
        )

    def sentences(self, labels: Mapping[str, str] = MappingProxyType({})) -> list[str]:
        """Under which conditions a rule is right here, from the cells alone: one sentence a model
        and rule, which is called by its label where there is one.
        """
        found = []
        maps: Any = self.means.groupby(["model", "rule"], sort=False)
        for (model, rule), rows in maps:
            means = [
                f"{row.mean:+.1f} points ({row.low:+.1f} to {row.high:+.1f}) at {row.length} tokens"
                for row in rows.itertuples()
                if not np.isnan(row.mean)
            ]
            told = [f"on average {' and '.join(means)}"] if means else []
            decided = [self._decided(model, rule, length) for length in rows["length"]]
            told += [one for one in decided if one] or ["no cell decided"]
            found.append(f"{labels.get(rule, rule)}, {Path(model).name}: {'; '.join(told)}.")
        return found

    def _decided(self, model: str, rule: str, length: int) -> str:
        """The cells of a map that are decided, by state; empty without any."""
        rows = self.effects
        own = (rows["model"] == model) & (rows["rule"] == rule) & (rows["length"] == length)
        rows, parts = rows[own], []
        for state in (HIGHER, LOWER, NO_EFFECT):
            there = rows[rows["state"] == state]
            if len(there):
                named = [
                    Cell(model, rate, limit).told
                    for rate, limit in zip(there["learning_rate"], there["limit"], strict=True)
                ]
                parts.append(f"{state} in {len(there)} of {len(rows)} ({'; '.join(named)})")
        return f"at {length} tokens {', '.join(parts)}" if parts else ""


def _compared(runs: Runs, rule: str) -> Evidence | None:
    """The finished runs of a rule and of none; None without a seed of both."""
    done = finished({arm: runs[arm] for arm in (NONE, rule) if arm in runs})
    curves = {arm: {s: run_curves(one) for s, one in seeds.items()} for arm, seeds in done.items()}
    evidence = Evidence(curves)
    return evidence if len(done) == 2 and evidence.seeds else None


def _ends(runs: Runs) -> list[int]:
    """The shortest and the longest evaluated length of a cell."""
    configs = [one.config for seeds in runs.values() for one in seeds.values()]
    lengths = {length for config in configs for length in config.eval_lengths}
    return sorted({min(lengths), max(lengths)})


def _effects(runs: Runs, rule: str) -> list[dict[str, Any]]:
    """One row a length; without a number where there is nothing to compare, or too few
    evaluations.
    """
    lengths, evidence, parts = _ends(runs), _compared(runs, rule), list[Part]()
    if evidence is not None:
        with suppress(UserError):
            ends = Contrast("pass@1 at both lengths", "", f"end({rule}) - end({NONE})")
            parts = ends.parts(evidence)
    seeds = len(evidence.seeds) if evidence is not None else 0
    if len(parts) == 1:  # no answer fares differently at the longest
        parts *= len(lengths)
    told = [_told(one) for one in parts] or [{"state": UNDECIDED, "p": 1.0} for _ in lengths]
    return [{"length": n, "seeds": seeds, **one} for n, one in zip(lengths, told, strict=True)]


def _told(one: Part) -> dict[str, Any]:
    found, (state, p) = one.estimate, answer_state(one)
    return {
        "effect": found.value,
        "low": found.low,
        "high": found.high,
        "state": UNDECIDED if state == INCONCLUSIVE else state,
        "p": p,
    }


def _by_seed(runs: Runs, rule: str, length: int) -> dict[int, float]:
    """The effect in each seed; empty where there is nothing to compare."""
    evidence = _compared(runs, rule)
    if evidence is None:
        return {}
    longest = length == max(_ends(runs))
    try:
        ours, other = (evidence.accuracy(arm, longest=longest) for arm in (rule, NONE))
    except UserError:
        return {}
    gaps = last_window(ours.x, ours.y) - last_window(other.x, other.y)
    return dict(zip(evidence.seeds, gaps.tolist(), strict=True))


# Found and trained -------------------------------------------------------------------------------


def cells_of(planned: Iterable[PlannedRun], records: Iterable[RunRecord]) -> Where:
    """The cells of planned runs that have records, by model, then limit, then learning rate."""
    known = {one.run_id: one for one in records}
    found: dict[Cell, Runs] = {}
    models: dict[str, None] = {}
    for one in planned:
        if (record := known.get(one.config.run_id)) is not None:
            cell = Cell(
                one.config.model, one.config.learning_rate, one.config.max_completion_length
            )
            models[one.config.model] = None
            found.setdefault(cell, {}).setdefault(one.arm, {})[record.seed] = record
    order = list(models)
    return Where(dict(sorted(found.items(), key=lambda item: _place(item[0], order))))


def _place(cell: Cell, models: Sequence[str]) -> tuple[int, int, float]:
    return models.index(cell.model), cell.limit, cell.learning_rate


def recorded(records: Sequence[RunRecord]) -> Where | None:
    """The cells of the protocol among records; None without any."""
    seeds = EXPERIMENTS[NAME].seeds
    if not any(record.seed in seeds for record in records):
        return None
    found = cells_of(planned_runs(NAME), records)
    return found if found.cells else None


def where_it_holds(
    arms: Arms | None = None,
    rates: Sequence[float] = (),
    limits: Sequence[int | str] = (),
    diagonal: str | None = None,
    profile: str | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    runs_dir: str | Path = "runs",
    use_records: bool = True,
    workers: int = 1,
    fresh: bool = False,
    train: bool = True,
) -> Where:
    """Find or train the runs of a grid of cells.

    Args:
        arms: with ``none``, which the others are compared with; the experiment's where None.
        rates, limits: of the grid, shares of the profile's limit as ``"50%"``.
        diagonal: a further model, on the diagonal of the grid alone.
        profile, seeds: the experiment's where None; other arguments as for ``compare``.

    Raises:
        UserError: no arm ``none``, settings that do not fit, or a run failed.
    """
    arms = arms or EXPERIMENTS[NAME].arms
    if NONE not in arms:
        raise UserError(f"the arms need one named {NONE!r}, which the others are compared with")
    if not rates or not limits:
        raise UserError("rates and limits need at least one value each")
    planned = planned_runs(
        NAME, profile, seeds, steps, arms, settings, cells=grid(rates, limits, diagonal)
    )
    committed = committed_records() if use_records and not fresh else []
    folder = in_project(runs_dir)
    found = train_missing(
        NAME, planned, folder, None, workers, fresh, committed, train=train
    )  # fmt: skip
    return cells_of(planned, found)
