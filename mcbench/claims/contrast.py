"""A contrast: a weighted sum of statistics of arms in one measure, written as a formula.

``end(long) - end(short)`` is the mean over the last quarter of the training in arm ``long`` minus
that in ``short``. A statistic (:data:`STATISTICS`) of several arms is their mean
(``end(rho_01, rho_02)``), of arms with positions the rise of their straight line from the lowest
position to the highest (``growth(none=0, rho_01=0.1, rho_02=0.2)``). Before it may stand a number,
``2 * end(easier)``, beside it a constant, ``5 - fall(t_18)``, and in it another column than the
measure's, ``end(duo, of="eval/single")``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from mcbench.claims import curves
from mcbench.claims import statistics as st
from mcbench.claims.evidence import Evidence, NotLogged, Part, Series, part
from mcbench.claims.margins import (
    DISTINCT,
    NATS,
    POINTS,
    PROGRAMS,
    REGRET,
    TOKENS,
    UPDATES,
)
from mcbench.claims.statistics import Estimate, Statistic
from mcbench.errors import UserError, unknown


def _of_training(start: float, end: float) -> Statistic:
    """Mean between two shares of the training, without the untrained model."""
    return lambda x, y: st.mean_between((x - x[0]) / (x[-1] - x[0]), y, start, end)


def _after(extension: float) -> Statistic:
    """Mean over the second half of as much time after an extension as the last one, at 0.6, has."""
    lag = 1 - 0.6
    return lambda x, y: st.mean_between(x / x[-1], y, extension + lag / 2, extension + lag)


STATISTICS: Mapping[str, Statistic] = {
    "end": st.last_window,
    "start": st.first_window,
    "base": lambda x, y: y[..., 0],  # before training
    "gain": lambda x, y: st.last_window(x, y) - st.first_window(x, y),
    "area": st.area_under_curve,
    "growth": st.growth,
    "rise": st.rise_to_peak,  # to the peak, whose place is found on the other seeds
    "fall": st.fall_from_peak,
    "drop": st.drop_from_peak,  # from the run's own peak
    "late_fall": st.late_fall,
    "peak": st.peak,
    "peak_step": st.peak_step,
    "first_peak_step": st.first_peak_step,
    "change_point": st.change_point,
    "first_third": _of_training(0 / 3, 1 / 3),
    "last_third": _of_training(2 / 3, 3 / 3),
    "after_early": _after(0.2),  # of the two extensions in context_length
    "after_late": _after(0.6),
    "fluctuation": lambda x, y: np.abs(np.diff(y, axis=-1)).mean(axis=-1),
}
"""What a formula may take of an arm's curve; :mod:`.statistics` says what each is."""
PLACES = (st.peak_step, st.first_peak_step, st.change_point)
"""Their values are updates, as finely as the curve has points."""
ENDS = (st.last_window, st.first_window)
"""Of accuracy only these rest on evaluations of all problems; others on every evaluation."""


class Term(NamedTuple):
    """``factor`` times a statistic of an arm; ``of`` a column in place of the measure's."""

    factor: float
    statistic: Statistic
    arm: str
    of: str = ""


class Formula(NamedTuple):
    """A constant plus terms, in the order in which they are written."""

    terms: tuple[Term, ...]
    constant: float


def parse(text: str, statistics: Mapping[str, Statistic] = STATISTICS) -> Formula:
    """A formula as written.

    Raises:
        UserError: it is no sum of statistics of arms.
    """
    try:
        found = list(_summed(ast.parse(text, mode="eval").body, 1.0, statistics))
        if not (terms := tuple(one for one in found if isinstance(one, Term))):
            raise ValueError(text)
    except UserError:
        raise
    except (SyntaxError, TypeError, ValueError):
        raise UserError(
            f"{text!r} is no sum of statistics of arms, such as end(long) - end(short)"
        ) from None
    return Formula(terms, sum(one for one in found if isinstance(one, float)))


def _summed(
    node: ast.expr, factor: float, statistics: Mapping[str, Statistic]
) -> Iterator[Term | float]:
    """The terms and constants of an expression, each times ``factor``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _summed(node.left, factor, statistics)
        sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
        yield from _summed(node.right, sign * factor, statistics)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _summed(node.right, float(ast.literal_eval(node.left)) * factor, statistics)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from _summed(node.operand, -factor, statistics)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from _of_arms(node, node.func.id, factor, statistics)
    else:
        yield factor * float(ast.literal_eval(node))


def _of_arms(
    node: ast.Call, name: str, factor: float, statistics: Mapping[str, Statistic]
) -> Iterator[Term]:
    if name not in statistics:
        raise unknown("statistic", name, statistics)
    statistic = statistics[name]
    options = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
    column = str(options.pop("of", ""))
    arms = [_name(one) for one in node.args]
    for arm in arms:
        yield Term(factor / len(arms), statistic, arm, column)
    if options:  # the least-squares line over arms
        centred = np.asarray([*options.values()], float) - np.mean([*options.values()])
        weights = factor * np.ptp(centred) * centred / (centred @ centred)
        for arm, weight in zip(options, weights, strict=True):
            yield Term(float(weight), statistic, arm, column)
    elif not arms:
        raise ValueError(name)


def _name(node: ast.expr) -> str:
    """Of an arm: in quotes where it has other signs; ``home/arm`` reads as a division."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node).replace(" ", "")


class Measure(NamedTuple):
    """What a contrast is taken of: a logged ``column``, or without one held-out pass@1.

    ``views`` are which pass@1: ``one``; at ``both`` lengths; or ``all``, with what stands beside
    these. ``of`` is what of a :class:`mcbench.claims.evidence.View` is not as usual.
    """

    unit: str = POINTS
    column: str = ""
    views: str = "one"
    of: Mapping[str, Any] = MappingProxyType({})


DIVERSITY = "diversity"
"""Unique programs and Distinct-4 of the first tokens, which decide, and Distinct-4 beside them."""
MEASURES: Mapping[str, Measure] = {
    "pass@1": Measure(views="all"),
    "pass@1 at both lengths": Measure(views="both"),
    "pass@1 at the training length": Measure(),
    "pass@1 at the longest length": Measure(of={"longest": True}),
    **{f"pass@1 on {level} problems": Measure(of={"difficulty": level}) for level in curves.LEVELS},
    "problems solved by any attempt": Measure(views="both", of={"solved": True}),
    "bugs fixed": Measure(of={"kind": "fix"}),
    "bugs shown by a test": Measure(of={"kind": "write"}),
    DIVERSITY: Measure(),
    "unique programs": Measure(PROGRAMS, curves.UNIQUE),
    "Distinct-4 of the first tokens": Measure(DISTINCT, curves.HEAD_DIVERSITY),
    "Distinct-4": Measure(DISTINCT, curves.DIVERSITY),
    "length": Measure(TOKENS, curves.LENGTH),
    "length of wrong answers": Measure(TOKENS, curves.WRONG_LENGTH),
    "reward": Measure(POINTS, curves.REWARD),
    "cut answers": Measure(POINTS, curves.CUT),
    "entropy": Measure(NATS, curves.ALL_ENTROPY),
    "regret": Measure(REGRET, "eval/regret_25"),
    "regret to changed users": Measure(REGRET, "eval/regret_drifted"),
}
"""By name; every other name is that of a logged column (``eval/f05``), whose unit is points."""
SHARES = (POINTS, REGRET)
"""Units of columns that are logged as shares, and told in percent."""
FLAGS = ("threshold", "beside")


@dataclass(frozen=True)
class Contrast:
    """One part of a claim, or several of one kind, as a row: positive when the statement holds.

    Attributes:
        measure: of :data:`MEASURES`, or a logged column.
        name: what it says; measure and formula where empty.
        formula: see the module.
        flags: ``threshold`` and ``beside``, as of :class:`mcbench.claims.evidence.Part`.

    Raises:
        UserError: a measure, formula or flag that is none.
    """

    measure: str
    name: str
    formula: str
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.measure not in MEASURES and "/" not in self.measure:
            raise unknown("measure", self.measure, MEASURES)
        for flag in self.flags:
            if flag not in FLAGS:
                raise unknown("flag of a contrast", flag, FLAGS)
        # Parsed here, so that a row that is wrong is refused where it stands.
        if any(one.of for one in self.parsed.terms) and not self._measure.column:
            raise UserError(f"{self.measure} is no logged column, so that no term has another one")

    @cached_property
    def parsed(self) -> Formula:
        """The formula's terms and constant."""
        return parse(self.formula)

    @property
    def _said(self) -> str:
        return self.name or f"{self.measure}: {self.formula}"

    @property
    def _measure(self) -> Measure:
        return MEASURES.get(self.measure, Measure(POINTS, self.measure))

    @property
    def columns(self) -> set[str]:
        """The logged columns that it reads by name."""
        named = {self.measure} - MEASURES.keys()
        return named | {one.of for one in self.parsed.terms if one.of}

    def parts(self, evidence: Evidence) -> list[Part]:
        """What runs say of it.

        Of pass@1 by all views those at the training length and at the longest decide; beside them
        stand induced problems, the lower temperature, and the area under the curve. A statement on
        the course of a curve rests on every evaluation, and nothing stands beside it.

        Raises:
            UserError: runs lack what it is measured by.
        """
        measure = self._measure
        if self.measure == DIVERSITY:
            names = ("unique programs", "Distinct-4 of the first tokens", "Distinct-4")
            return [self._diversity(evidence, one) for one in names]
        if measure.views == "one":
            return [self._part(evidence, measure)]
        course = any(one.statistic not in ENDS for one in self.parsed.terms)
        made = []
        for at, view, beside in evidence.views:
            if beside and (course or measure.views == "both"):
                continue
            there = measure._replace(of={"shape": course, **view, **measure.of})
            made.append(self._part(evidence, there, at, beside))
            if measure.views == "all" and not (beside or course):
                made.append(self._part(evidence, there, f"{at}, area", True, st.area_under_curve))
        return sorted(made, key=lambda one: one.beside)

    def _part(
        self,
        evidence: Evidence,
        measure: Measure,
        at: str = "",
        beside: bool = False,
        end: Statistic = st.last_window,
    ) -> Part:
        """One number; ``at`` is added to its name, ``end`` stands in place of the last window."""

        def curve(term: Term) -> Series:
            if not measure.column:
                return evidence.accuracy(term.arm, **measure.of)
            series = evidence.logged(term.arm, term.of or measure.column)
            return series.percent() if measure.unit in SHARES else series

        found = [
            (one.factor, curve(one), end if one.statistic is st.last_window else one.statistic)
            for one in self.parsed.terms
        ]
        places = [series.x for _, series, statistic in found if statistic in PLACES]
        return part(
            self._said + at,
            UPDATES if places else measure.unit,
            *found,
            constant=self.parsed.constant,
            resolution=max((float(np.diff(x).max()) for x in places), default=0.0),
            threshold="threshold" in self.flags,
            beside="beside" in self.flags or beside,
        )

    def _diversity(self, evidence: Evidence, by: str) -> Part:
        """By one measure, without a number where some run did not log it: the claim stays open."""
        measure = MEASURES[by]
        beside = by == "Distinct-4"  # of whole responses: it falls with their length
        try:
            return self._part(evidence, measure, f", {by}", beside)
        except NotLogged:
            nothing = Estimate(np.nan, len(evidence.seeds))
            return Part(f"{self._said}, {by} (not logged)", nothing, measure.unit, beside=beside)
