"""Difficulty: predict from features, calibrate on measured pass rates, select a distribution.

Predict: a weighted mean of the dimensions of `mcbench.data.features`. Calibrate: a monotone fit
(isotonic regression) of measured pass rates of a reference model on the prediction; a problem that
was itself measured keeps its own. Labels of the sources hold where nothing was measured. The
prediction labels the rest, where it agrees with the sources' labels more often than their most
frequent one does; if it does not, the rest has no label. Select: as many problems as the target
distribution over easy, medium and hard allows.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator
from scipy.optimize import isotonic_regression

from mcbench.data.audit import Action, Ledger, apply_rules
from mcbench.data.features import DIMENSIONS, dimensions, weighted
from mcbench.data.pipeline import BatchStage, Decision, GlobalStage, Outcome
from mcbench.data.schema import DIFFICULTIES, Problem
from mcbench.errors import UserError, unknown
from mcbench.settings import Settings, Share, ordered

_MIN_MEASURED = 10
_MIN_LABELLED = 30


class DifficultyConfig(Settings):
    """How difficulty is predicted, calibrated and selected.

    Args:
        weights: of the five dimensions; what is not named weighs nothing. They are a choice: no
            published weights exist.
        pass_rates: JSON lines {"id", "pass_rate"} measured on a reference model; empty: none, and
            labels are thirds of the predicted score, with provenance "predicted".
        easy_from, hard_below: pass rates from which a problem is easy, below which it is hard.
        min_pass_rate, max_pass_rate: problems outside are dropped, where the rate is known: nothing
            is learned from what always or never succeeds.
        keep_source_labels: whether a label from the source is kept where nothing was measured, and
            the prediction is held against such labels.
        target: shares of easy, medium and hard to select; empty: all are kept.
        size: how many to select at most; None: as many as the target allows.
        seed: of the choice among problems of one label.

    Raises:
        UserError: an unknown dimension or label, a value out of range, shares that do not sum to 1.
    """

    weights: dict[str, NonNegativeFloat] = dict.fromkeys(DIMENSIONS, 1.0)
    pass_rates: str = ""
    easy_from: Share = 2 / 3
    hard_below: Share = 1 / 3
    min_pass_rate: Share = 0.0
    max_pass_rate: Share = 1.0
    keep_source_labels: bool = True
    target: dict[str, Share] = Field(default_factory=dict)
    size: PositiveInt | None = None
    seed: int = 0

    _in_order = ordered(("hard_below", "easy_from"), ("min_pass_rate", "max_pass_rate"))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if extra := sorted(self.weights.keys() - set(DIMENSIONS)):
            raise unknown("difficulty dimension", extra[0], DIMENSIONS)
        if extra := sorted(self.target.keys() - set(DIFFICULTIES)):
            raise unknown("difficulty", extra[0], DIFFICULTIES)
        if sum(self.weights.values()) <= 0:
            raise UserError("at least one weight must be positive")
        if self.target and abs(sum(self.target.values()) - 1) > 1e-6:
            raise UserError(f"the shares of target must sum to 1: {self.target}")
        return self


# Predict -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predict(BatchStage):
    """Stores ``dimensions`` and ``difficulty_score`` in every record."""

    config: DifficultyConfig = field(default_factory=DifficultyConfig)

    name: ClassVar[str] = "predict"

    def configuration(self) -> Any:
        """Only what the prediction depends on."""
        return self.config.weights

    def run(self, batch: list[Problem]) -> Outcome:
        """Predict every record's difficulty."""
        return apply_rules(self.name, batch, [("predicted", self._predict)])

    def _predict(self, record: Problem, ledger: Ledger) -> Problem:
        values = dimensions(record)
        score = round(weighted(values, self.config.weights), 6)
        shown = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        if len(values) < len(DIMENSIONS):
            record = ledger.flag(record, "unseen_solution", "no reference: the text alone is rated")
        return ledger.change(
            record, "predicted", f"{score:.3f} ({shown})", dimensions=values, difficulty_score=score
        )


# Calibrate and select ----------------------------------------------------------------------------


def read_pass_rates(path: Path) -> dict[str, float]:
    """Measured pass rates by record id.

    Raises:
        UserError: the file cannot be read, or a line is no {"id", "pass_rate"} with a rate in 0..1.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"pass rates {path} cannot be read: {error}") from None
    rates: dict[str, float] = {}
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            name, rate = str(row["id"]), float(row["pass_rate"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f'line {number} of {path} is no {{"id", "pass_rate"}}') from None
        if not 0 <= rate <= 1:
            raise UserError(f"line {number} of {path}: pass_rate must lie between 0 and 1")
        rates[name] = rate
    return rates


@dataclass(frozen=True)
class Calibration:
    """A falling step function from predicted score to pass rate, as knots."""

    scores: tuple[float, ...]
    pass_rates: tuple[float, ...]
    measured: int

    @classmethod
    def fit(cls, scores: list[float], rates: list[float]) -> Calibration:
        """Isotonic regression, falling; between its knots the estimate is linear.

        Raises:
            UserError: fewer than 10 measured problems.
        """
        if len(scores) < _MIN_MEASURED:
            raise UserError(
                f"{len(scores)} problems of the set have a measured pass rate; calibration needs "
                f"at least {_MIN_MEASURED}"
            )
        x, inverse, count = np.unique(scores, return_inverse=True, return_counts=True)
        mean = np.bincount(inverse, weights=rates) / count
        y = isotonic_regression(mean, weights=count, increasing=False).x
        step = np.flatnonzero(np.diff(y))  # a knot at both ends of what is level
        knots = sorted({0, *step.tolist(), *(step + 1).tolist(), len(x) - 1})
        at, rate = (tuple(np.round(values[knots], 6).tolist()) for values in (x, y))
        return cls(at, rate, len(scores))

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Estimated pass rates; constant beyond the measured range."""
        return np.interp(scores, self.scores, self.pass_rates)


@dataclass(frozen=True)
class Difficulty(GlobalStage):
    """Labels every record, and selects; ``measured`` are pass rates by record id."""

    config: DifficultyConfig = field(default_factory=DifficultyConfig)
    measured: Mapping[str, float] = field(default_factory=dict, repr=False)

    name: ClassVar[str] = "difficulty"

    def configuration(self) -> Any:
        """The pass rates count with their content, not the file's name; weights have decided."""
        config = self.config.model_dump(exclude={"weights", "pass_rates"})
        return [config, sorted(self.measured.items())]

    def summarise(self, batch: list[Problem]) -> pa.Table:
        """Id, prediction, and what the source says."""
        rows = [{"id": r.id, "score": r.difficulty_score, "source": r.difficulty} for r in batch]
        return pa.Table.from_pylist(rows, schema=_SUMMARY)

    def decide(self, summary: pa.Table) -> dict[str, Decision]:
        """A label for every record; a reason for every one that is not selected."""
        labels = self.label(summary)
        low, high = self.config.min_pass_rate, self.config.max_pass_rate
        labels["outside"] = labels.pass_rate.notna() & ~labels.pass_rate.between(low, high)
        reasons = self._select(labels[~labels.outside])
        decisions = {}
        for row in labels.to_dict("records"):
            label = row["difficulty"] or "no label"
            told = f"{label} ({row['provenance'] or 'prediction not used'}, {row['score']:.3f}"
            rate = None if np.isnan(row["pass_rate"]) else row["pass_rate"]
            told += ")" if rate is None else f", pass rate {rate:.2f})"
            notes: list[tuple[Action, str, str]] = [("change", "labelled", told)]
            if row["outside"]:
                detail = f"pass rate {rate:.2f} ({row['provenance']}) outside {low:g}..{high:g}"
                notes.append(("drop", "pass_rate", detail))
            elif row["id"] in reasons:
                notes.append(("drop", "target", reasons[row["id"]]))
            changes = {
                "difficulty": row["difficulty"],
                "difficulty_provenance": row["provenance"],
                "pass_rate": rate,
            }
            decisions[row["id"]] = Decision(tuple(notes), changes)
        return decisions

    def label(self, summary: pa.Table) -> pd.DataFrame:
        """Columns id, score, source, pass_rate (NaN without calibration), difficulty, provenance.

        ``source`` is the label that the source gives.
        """
        rows = summary.to_pandas()
        measured = rows.id.map(self.measured).astype(float)
        if calibration := self.calibrate(rows):
            rates = measured.fillna(pd.Series(calibration(rows.score)))
            rows["pass_rate"] = rates.round(6)
            rows["provenance"] = np.where(measured.notna(), "measured", "calibrated")
            easy, hard = rates >= self.config.easy_from, rates < self.config.hard_below
        else:
            rows["pass_rate"], rows["provenance"] = np.nan, "predicted"
            easy = rows.score <= rows.score.quantile(1 / 3)
            hard = rows.score > rows.score.quantile(2 / 3)
        rows["difficulty"] = np.select([easy, hard], ["easy", "hard"], "medium")
        if self.config.keep_source_labels:
            if not calibration and not self.agreement(rows)["used"]:
                rows["difficulty"] = rows["provenance"] = ""
            kept = measured.isna() & (rows.source != "")
            rows.loc[kept, "difficulty"] = rows.source[kept]
            rows.loc[kept, "provenance"] = "source"
        return rows

    def agreement(self, rows: pd.DataFrame) -> dict[str, Any]:
        """How often thirds of the prediction are the source's labels, and what guessing gives.

        It is not used where at least 30 labels show that it is no better than their most frequent
        one, by more than the standard error.
        """
        known = rows[rows.source != ""]
        if len(known) < _MIN_LABELLED:
            return {"labelled": len(known), "used": True}
        score = known.score.rank(pct=True, method="first")
        shares = known.source.value_counts(normalize=True)
        easy, hard = shares.get("easy", 0.0), shares.get("hard", 0.0)
        guess = np.select([score <= easy, score > 1 - hard], ["easy", "hard"], "medium")
        right, most = float((guess == known.source).mean()), float(shares.max())
        error = math.sqrt(right * (1 - right) / len(known))
        return {
            "labelled": len(known),
            "agreement": round(right, 4),
            "majority": round(most, 4),
            "used": right > most + error,
        }

    def calibrate(self, rows: pd.DataFrame) -> Calibration | None:
        """The fit on the measured records of the set; None when no pass rates were given."""
        if not self.measured:
            return None
        known = rows[rows.id.isin(self.measured)]
        return Calibration.fit(known.score.tolist(), known.id.map(self.measured).tolist())

    def _select(self, rows: pd.DataFrame) -> dict[str, str]:
        """Reasons for the records that do not fit the target distribution."""
        quota = self.quota(Counter(rows.difficulty))
        reasons: dict[str, str] = {}
        for label, size in (quota or {}).items():
            ids = sorted(rows.id[rows.difficulty == label], key=partial(_lot, self.config.seed))
            detail = f"{size} of {len(ids)} {label or 'unlabelled'} problems are selected"
            reasons.update(dict.fromkeys(ids[size:], detail))
        return reasons

    def quota(self, available: Mapping[str, int]) -> dict[str, int] | None:
        """Problems to select by label; None when everything is kept.

        Raises:
            UserError: the target wants problems of a label that there are none of.
        """
        if not self.config.target and self.config.size is None:
            return None
        total = sum(available.values())
        labels = (*DIFFICULTIES, *([""] if available.get("") else []))
        shares = self.config.target or {name: n / total for name, n in available.items()}
        wanted = {label: share for label, share in shares.items() if share > 0}
        if total and (none := [label for label in wanted if not available.get(label)]):
            raise UserError(
                f"the target wants {shares[none[0]]:.0%} {none[0]} problems and there are none "
                f"(there are: {dict(available)}); change target, easy_from or hard_below"
            )
        size = min((available.get(label, 0) / share for label, share in wanted.items()), default=0)
        size = min(size, self.config.size or size)
        return {label: int(size * shares.get(label, 0) + 1e-9) for label in labels}


_SUMMARY = pa.schema([("id", pa.string()), ("score", pa.float64()), ("source", pa.string())])


def _lot(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
