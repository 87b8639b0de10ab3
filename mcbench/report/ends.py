"""What arms end at: held-out pass@1 over the last window, as tiles and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mcbench.claims.statistics import Estimate, estimate, last_window
from mcbench.report.page import Tile
from mcbench.report.series import Arms, comparable, eval_curves, eval_lengths, unfinished
from mcbench.report.style import KNOWN, ArmStyle, arm_styles
from mcbench.report.table import OURS

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


@dataclass(frozen=True)
class End:
    """An arm's pass@1 in percent before training and over the last window, by seed; its peak."""

    base: dict[int, float]
    last: dict[int, float]
    peak: float

    @property
    def mean(self) -> float:
        """The last window, mean over seeds."""
        return float(np.mean(list(self.last.values())))


def ends(arms: Arms, length: int) -> dict[str, End]:
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
            found[curve.arm] = End(base, last, float(peak))
    return found


def tiles(arms: Arms, length: int) -> list[Tile]:
    """A tile for the model before training and one for each arm; one without a number for an arm
    that has no finished run.
    """
    found, styles = ends(arms, length), arm_styles(arms)
    by_seed: dict[int, list[float]] = {}
    for end in found.values():
        for seed, value in end.base.items():
            by_seed.setdefault(seed, []).append(value)
    base = float(np.mean([np.mean(values) for values in by_seed.values()])) if by_seed else np.nan
    made = []
    if by_seed:
        under = f"pass@1, {plural(len(by_seed), 'seed')}"
        made.append(Tile("Not trained", f"{base:.1f}", "%", under, KNOWN["base"]))
    for arm, style in styles.items():
        note = unfinished(arms[arm])
        if arm in found:
            made.append(_tile(found[arm], base, style, note))
        elif note:
            made.append(Tile(style.label, "–", "", note, style))
    return made


def _tile(end: End, base: float, style: ArmStyle, note: str) -> Tile:
    change = "" if np.isnan(base) else f"{signed(end.mean - base)} points, "
    under = f"{change}peak {end.peak:.1f} %" + (f"; left out: {note}" if note else "")
    return Tile(style.label, f"{end.mean:.1f}", "%", under, style)


def first_length(arms: Arms) -> int | None:
    """The shortest evaluated length, which is the training length; None without evaluations."""
    lengths = eval_lengths(arms)
    return lengths[0] if lengths else None


def ends_sentence(arms: Arms) -> str:
    """What every arm ends at, the highest first; empty where nothing was evaluated."""
    length = first_length(arms)
    found = ends(arms, length) if length is not None else {}
    if length is None or not found:
        return ""
    styles = arm_styles(arms)
    ranked = sorted(found, key=lambda arm: -found[arm].mean)
    told = ", ".join(f"{found[arm].mean:.1f} % {styles[arm].label}" for arm in ranked)
    _, remark = comparable(arms, length)
    sentence = (
        f"Held-out pass@1 with up to {length} tokens over the last quarter of the steps: {told}."
    )
    return f"{sentence} {remark}".strip()


def against_the_best(arms: Arms, length: int) -> str:
    """How MicroCoder-GRPO ends against the best other arm; empty where either is missing."""
    found = ends(arms, length)
    others = {arm: end for arm, end in found.items() if arm != OURS}
    if OURS not in found or not others:
        return ""
    best = max(others, key=lambda arm: others[arm].mean)
    gap = paired(found[OURS].last, found[best].last)
    if gap is None:
        return ""
    side = "above" if gap.value >= 0 else "below"
    where = "level with" if abs(gap.value) < 0.05 else f"{abs(gap.value):.1f} points {side}"
    text = f"MicroCoder-GRPO ends {where} {arm_styles([best])[best].label}, the best of the others"
    if np.isnan(gap.low):
        text += f" ({plural(gap.seeds, 'seed')}, so no interval)"
    else:
        inside = interval(gap.low, gap.high)
        text += f" (95 % interval {inside}, paired over {gap.seeds} seeds)"
    if gap.seeds < FULL_SEEDS:
        text += f"; with fewer than {FULL_SEEDS} seeds this is exploratory"
    return f"{text}."


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """The difference over the seeds that both have; None where there is none."""
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        return None
    return estimate(np.array([ours[seed] - theirs[seed] for seed in shared]))
