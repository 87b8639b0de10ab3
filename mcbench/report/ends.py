"""What arms end at: held-out pass@1 over the last window, as a chart and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mcbench.claims.statistics import Estimate, estimate, last_window
from mcbench.grpo.recipes import RECIPES
from mcbench.report.page import End, Ends, Track
from mcbench.report.series import (
    MIN_SEEDS_FOR_BAND,
    Arms,
    Record,
    eval_curves,
    eval_lengths,
    measure,
    unfinished,
)
from mcbench.report.style import arm_styles
from mcbench.report.table import OURS

SAME = 0.05  # points: pass@1 before training that differs by no more is one
FULL_SEEDS = 5  # below this many, conclusions are called exploratory


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; a dash where there is none."""
    return "–" if np.isnan(value) else f"{value:+.{digits}f}".replace("-", "−")


def interval(low: float, high: float, digits: int = 1) -> str:
    """``+1.0 to +5.2``; a dash where there is none."""
    return "–" if np.isnan(low) else f"{signed(low, digits)} to {signed(high, digits)}"


def plural(count: int, word: str) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def finished(arms: Arms) -> Arms:
    """The finished runs alone; arms without any are left out."""
    kept = {
        arm: [record for record in records if record.meta.get("state") == "finished"]
        for arm, records in arms.items()
    }
    return {arm: records for arm, records in kept.items() if records}


def settings_of(runs: Sequence[Record]) -> str:
    """What an arm is: its recipe and the settings that it changes; empty without a run."""
    if not runs:
        return ""
    config = runs[0].config
    changed = [f"{name} {value}" for name, value in config.differences().items()]
    return ", ".join([f"recipe {config.recipe}", *changed])


@dataclass(frozen=True)
class Reached:
    """An arm's pass@1 in percent before training and over the last window, by seed; its peak."""

    base: dict[int, float]
    last: dict[int, float]
    peak: float

    @property
    def mean(self) -> float:
        """The last window, mean over seeds."""
        return float(np.mean(list(self.last.values())))

    @property
    def gains(self) -> dict[int, float]:
        """Each seed's last window minus what it began with, where that was measured."""
        return {seed: self.last[seed] - value for seed, value in self.base.items()}

    @property
    def gain(self) -> float | None:
        """Their mean; None where none was measured."""
        return float(np.mean(list(self.gains.values()))) if self.base else None


def ends(arms: Arms, length: int) -> dict[str, Reached]:
    """By arm, of its finished runs; arms without an evaluation after step 0 are left out."""
    found = {}
    for curve in eval_curves(finished(arms), "pass_at_1", length, scale=100):
        base: dict[int, float] = {}
        last: dict[int, float] = {}
        for seed, run in zip(curve.seeds, curve.runs, strict=True):
            x, y = curve.x[~np.isnan(run)], run[~np.isnan(run)]
            if len(x) and x[-1] > 0:
                last[seed] = float(last_window(x, y))
                base |= {seed: float(y[0])} if x[0] == 0 else {}
        if last:
            peak = np.nanmax(np.where(np.isnan(curve.mean), -1.0, curve.mean))
            found[curve.arm] = Reached(base, last, float(peak))
    return found


def chart(arms: Arms, length: int) -> Ends | None:
    """Where every arm ends, with the mean's 95 % interval over seeds, beside the model before
    training where all arms begin with one and measure it alike; an arm without a finished run has
    no mark. None where nothing was evaluated.
    """
    found, styles = ends(arms, length), arm_styles(arms)
    if not found:
        return None
    starts = pd.DataFrame({arm: end.base for arm, end in found.items()})  # a row a seed
    one_model = len({record.config.model for arm in found for record in arms[arm]}) == 1
    alike = (starts.max(axis=1) - starts.min(axis=1) <= SAME).all()
    base = float(starts.mean(axis=1).mean()) if one_model and alike and len(starts) else None
    means = {arm: estimate(np.array(list(end.last.values()))) for arm, end in found.items()}
    sure = {arm: (one.low, one.high) for arm, one in means.items()
            if one.seeds >= MIN_SEEDS_FOR_BAND and not np.isnan(one.low)}  # fmt: skip
    shown = [x for end in found.values() for x in end.last.values()]
    shown += [x for bounds in sure.values() for x in bounds]
    shown += [] if base is None else [base]
    low, high = max(0.0, 5 * np.floor(min(shown) / 5)), min(100.0, 5 * np.ceil(max(shown) / 5))

    def at(value: float) -> float:
        return round(100 * (min(max(value, low), high) - low) / max(1e-9, high - low), 2)

    rows = []
    for arm in sorted(styles, key=lambda arm: -found[arm].mean if arm in found else np.inf):
        note, changed = unfinished(arms[arm]), settings_of(arms[arm])
        if arm not in found:
            rows.append(End(styles[arm], "–", note, settings=changed))
            continue
        mean, one = means[arm], found[arm]
        low_end, high_end = map(at, sure[arm]) if arm in sure else (None, None)
        track = Track(at(mean.value), low_end, high_end, tuple(map(at, one.last.values())))
        change = "" if one.gain is None else f"{signed(one.gain)} points, "
        under = f"{change}peak {one.peak:.1f} %" + (f"; left out: {note}" if note else "")
        rows.append(End(styles[arm], f"{mean.value:.1f} %", under, track, changed))
    told = "" if base is None else f"not trained {base:.1f} % ({plural(len(starts), 'seed')})"
    return Ends(
        f"Held-out {measure(arms)} with up to {length} tokens, over the last quarter of the steps",
        rows,
        (f"{low:g} %", f"{high:g} %"),
        None if base is None else at(base),
        told,
    )


def first_length(arms: Arms) -> int | None:
    """The shortest evaluated length, which is the training length; None without evaluations."""
    lengths = eval_lengths(arms)
    return lengths[0] if lengths else None


def finding(arms: Arms, length: int, ours: Arms | None = None, proposed: str = "") -> str:
    """Which arm ends highest, and which are apart by their seeds from the one they are compared
    with: MicroCoder-GRPO, or else the first; where the arm that stands for the paper's proposal,
    ``proposed``, ends; then the highest of ``ours``, where it is above all of them. Empty where
    nothing was evaluated.
    """
    found, own = ends(arms, length), ends(ours or {}, length)
    if not found:
        return ""
    told = _finding(found, measure(arms)) + _proposed(found, proposed)
    if not own:
        return told
    best, first = (max(one, key=lambda arm: one[arm].mean) for one in (own, found))
    gap = paired(own[best].last, found[first].last)
    if own[best].mean <= found[first].mean or gap is None:
        return told
    against = f"{_gap(gap)} against {_named(first)}"
    mine = f"Ours: {_named(best)} ends at {own[best].mean:.1f} %, {against}."
    return f"Of the paper's arms {told} {mine}"


def _proposed(found: Mapping[str, Reached], proposed: str) -> str:
    """Where the arm that stands for the paper's proposal ends, against the highest, unless the
    sentence before has that; empty where it is the highest.
    """
    best, reference = max(found, key=lambda arm: found[arm].mean), _reference(found)
    if proposed not in found or proposed in (best, reference):  # the sentence before has it
        return ""
    gap = paired(found[proposed].last, found[best].last)
    new = gap is not None and not (best == reference and _apart(gap))
    against = f": {_gap(gap)} against {_named(best)}" if gap and new else ""
    end = f"{found[proposed].mean:.1f} %{against}"
    return f" {_named(proposed)}, which stands for the paper's proposal, ends at {end}."


def _reference(found: Mapping[str, Reached]) -> str:
    """The arm that the others are compared with."""
    return OURS if OURS in found else next(iter(found))


def _finding(found: Mapping[str, Reached], measured: str) -> str:
    best, ours = max(found, key=lambda arm: found[arm].mean), _reference(found)
    if len(found) > 1 and len({round(one.mean, 1) for one in found.values()}) == 1:
        return f"No arm is ahead: all end at {found[best].mean:.1f} % {measured}."
    first = " highest, at" if len(found) > 1 else " at"
    told = f"{_named(best)} ends{first} {found[best].mean:.1f} % {measured}"
    gaps = {arm: paired(found[arm].last, found[ours].last) for arm in found if arm != ours}
    known = {arm: gap for arm, gap in gaps.items() if gap is not None}
    if best in known:
        told += f": {_gap(known[best])} against {_named(ours)}"
    # Interval of the difference over seeds; an arm that trained exactly as ours has none.
    clear = [arm for arm, gap in known.items() if _apart(gap)]
    if known and not clear and known.keys() == {best}:
        told += ", not clearly apart"
    elif known and not clear:
        which = "no arm is" if len(known) > 1 else "the other arm is not"
        told += f"; {which} clearly apart from {'it' if best == ours else _named(ours)}"
    told += "."
    if best in known and (gains := paired(found[best].gains, found[ours].gains)):
        otherwise = abs(gains.value - known[best].value) > SAME
        told += f" They begin apart: its gain differs by {_gap(gains)}." if otherwise else ""
    above = [arm for arm in clear if arm != best and known[arm].value > 0]
    below = [arm for arm in clear if arm != best and known[arm].value < 0]
    sides = {f"above {_named(ours)}{' too' if best in clear else ''}": above}
    sides[f"below {'it' if above else _named(ours)}"] = below
    apart = "; ".join(f"{side}: {_listed(known, of)}" for side, of in sides.items() if of)
    told += f" By these seeds {apart}." if apart else ""
    if known and min(gap.seeds for gap in known.values()) < FULL_SEEDS:
        told += f" With fewer than {FULL_SEEDS} seeds in an arm this is exploratory."
    return told


def _apart(gap: Estimate) -> bool:
    """By the seeds alone: which problems were asked is not in the interval, unlike in a claim's."""
    return bool(gap.low > 0 or gap.high < 0)


def _named(arm: str) -> str:
    """A recipe's name as it is, any other label quoted: it may be words of a sentence."""
    label = arm_styles([arm])[arm].label
    return label if arm in RECIPES else f"“{label}”"


def _listed(gaps: Mapping[str, Estimate], arms: list[str]) -> str:
    """Arms by the size of their gaps; of many the first and the last."""
    arms = sorted(arms, key=lambda arm: abs(gaps[arm].value))
    by = [f"{_named(arm)} by {_gap(gaps[arm])}" for arm in arms]
    return f"{len(by)} arms, from {by[0]} to {by[-1]}" if len(by) > 2 else ", ".join(by)


def _gap(gap: Estimate) -> str:
    inside, seeds = interval(gap.low, gap.high), plural(gap.seeds, "seed")
    inside = inside if gap.seeds >= MIN_SEEDS_FOR_BAND else "–"
    sure = "no interval" if inside == "–" else f"95 % interval {inside}"
    return f"{signed(gap.value)} points ({sure}, {seeds})"


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """The difference over the seeds that both have; None where there is none."""
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return None
    return estimate(np.array([ours[seed] - theirs[seed] for seed in shared]))
