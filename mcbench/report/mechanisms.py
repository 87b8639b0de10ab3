"""Can each mechanism act on nano at all? What the unmasked pilots and the base model show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mcbench.experiments.calibration import CalibrationReport
from mcbench.experiments.experiments import ARMS
from mcbench.experiments.regimes import (
    LEAST_CLIPPED,
    clipped_by_update,
    is_clip_pilot,
    masked_shares,
    steady,
)
from mcbench.nano.graded import grades
from mcbench.nano.saturated import LEAST_ALL_RIGHT, LEAST_SOLVED, measured
from mcbench.report.base import Figure, new_figure
from mcbench.report.page import Panel, Plot, Section
from mcbench.report.style import BLUE, ORANGE, ArmStyle
from mcbench.runs.presets import TARGET_DIVERSITY, TEMPERATURE_GRID
from mcbench.runs.store import RunRecord

MODEL = "nano-s2"


def _kinds(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """The pilots by how much they train on a batch."""
    twice = [record for record in records if is_clip_pilot(record)]
    return {"one pass over 16 prompts": steady(records), "two passes over 32": twice}


def clip_figure(records: Sequence[RunRecord]) -> Figure:
    """Tokens outside the clip range by update within a generation, a line a kind of pilot."""
    figure = new_figure("Clipped tokens", "Clipped tokens (%)", x_title="Update of the generation")
    looks = (BLUE, "solid"), (ORANGE, "dash")
    for (label, found), look in zip(_kinds(records).items(), looks, strict=True):
        if found:
            mean = pd.concat([clipped_by_update(r) for r in found], axis=1).mean(axis=1)
            style = ArmStyle(label, *look)
            figure.line(mean.index.to_numpy(), 100 * mean.to_numpy(), label, style, 2.4)
    return figure


def mechanism_table(
    records: Sequence[RunRecord], reports: Sequence[CalibrationReport]
) -> pd.DataFrame:
    """One row a mechanism: what was asked of it beforehand, what was measured."""
    plain, rows = steady(records), []
    for name, found in _kinds(records).items():
        last = [100 * clipped_by_update(record).iloc[-1] for record in found]
        wanted = f"at least {100 * LEAST_CLIPPED:g} % of tokens in the last update"
        rows.append((f"clip, {name}", wanted, f"{np.mean(last):.2f} %" if last else "–"))
    shares = pd.concat([masked_shares(record) for record in plain], axis=1).mean(axis=1)
    masked = ", ".join(f"{ratio:g}: {100 * share:.1f} %" for ratio, share in shares.items())
    rows.append(("mask, by rho", "answers that Eq. 2 takes", masked))
    cut = sum(record.steps["mask/truncated"].sum() for record in plain)
    loops = sum(record.steps["mask/repeating"].sum() for record in plain) / cut
    rows.append(("repetition rule", "cut answers that loop", f"{100 * loops:.1f} %"))
    rows += [_temperature_row(report) for report in reports if report.model == MODEL]
    base = measured()
    rows.append((
        "saturated set",
        f"base at least {LEAST_SOLVED:g}, groups all right at least {LEAST_ALL_RIGHT:g}",
        f"{base['pass@1']:.2f}, {base['all right']:.2f} "
        f"(harder set: {grades().base['harder']['pass@1']:.2f})",
    ))  # fmt: skip
    return pd.DataFrame(rows, columns=["mechanism", "asked beforehand", "measured"])


def _temperature_row(report: CalibrationReport) -> tuple[str, str, str]:
    best = report.grid["pass@1"].max()
    constant = {arm["temperature"] for arm in ARMS["temperature"].values() if "temperature" in arm}
    kept = ", ".join(
        f"T {row.temperature:g}: {100 * row['pass@1'] / best:.0f} %"
        for _, row in report.grid.iterrows()
    )
    tried = ", ".join(f"{t:g}" for t in TEMPERATURE_GRID["nano-steady"])
    target = TARGET_DIVERSITY["nano-steady"]
    wanted = f"T(D) differs from constant arms ({', '.join(f'{t:g}' for t in sorted(constant))})"
    return "temperature", wanted, f"base keeps {kept}; T(D) tries {tried} for D* = {target:g}"


def mechanism_section(
    records: Sequence[RunRecord], reports: Sequence[CalibrationReport]
) -> Section:
    """Whether each mechanism that a claim speaks of can act at the scale of the verdicts."""
    return Section(
        "mechanisms",
        "Can each mechanism act?",
        "Measured on pilots without any mask and on the base model, before any run that a verdict "
        "uses. The clip acts with two passes over a batch of 32, the profile nano-clip.",
        [
            Panel(
                "Clip",
                "How many tokens leave the clip range grows with every update of a generation: "
                "two passes over a larger batch go further from the policy that sampled.",
                [Plot("mechanism-clip", "Clipped tokens by update", clip_figure(records))],
                mechanism_table(records, reports),
            )
        ],
    )
