"""What the pages of the sections say, and the panels that one of them alone has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims.measurements import GRID, REPETITION
from mcbench.experiments.study import Study
from mcbench.report.page import Panel, Plot
from mcbench.report.section import SectionPage
from mcbench.report.series import Record
from mcbench.report.spread import over_temperature
from mcbench.report.style import arm_styles

# 02: the readings of the mask ---------------------------------------------------------------------

READINGS = {
    "mask/truncated": "cut at the limit",
    "mask/eligible_incorrect": "reading: incorrect",
    "mask/eligible_correct": "reading: correct",
    "mask/eligible_non_incorrect": "reading: non-incorrect",
    "mask/repeating": "cut and repeating",
    "mask/share": "masked",
}


def readings_table(study: Study) -> pd.DataFrame:
    """Percent of all responses that each reading of the condition makes candidates for the mask,
    mean over steps and seeds, by arm.
    """
    rows = []
    for arm, records in study.arms.items():
        row: dict[str, Any] = {"Arm": arm_styles([arm])[arm].label}
        for column, name in READINGS.items():
            values = [r.steps[column].mean() for r in records if column in r.steps.columns]
            row[f"{name} (%)"] = round(100 * float(np.mean(values)), 2) if values else None
        rows.append(row)
    return pd.DataFrame(rows)


def repetition_table(study: Study) -> pd.DataFrame:
    """Truncated responses that repeat themselves by either rule, by arm, over all its runs."""
    names = {record.meta["run_id"]: arm for arm, runs in study.arms.items() for record in runs}
    rows = [
        {"arm": names[row["run_id"]], **row}
        for row in study.measurements
        if row["kind"] == REPETITION and row["run_id"] in names
    ]
    if not rows:
        return pd.DataFrame()
    sums = (
        pd.DataFrame(rows)
        .groupby("arm", sort=False)[["responses", "truncated", "window", "periodic"]]
        .sum()
    )
    return pd.DataFrame(
        {
            "Arm": [arm_styles([arm])[arm].label for arm in sums.index],
            "Responses": sums["responses"].to_numpy(),
            "cut at the limit": sums["truncated"].to_numpy(),
            "repeating, window rule": sums["window"].to_numpy(),
            "repeating, periodic rule": sums["periodic"].to_numpy(),
            "found by the periodic rule alone": (sums["periodic"] - sums["window"]).to_numpy(),
        }
    )


def mask_panels(study: Study) -> list[Panel]:
    """What each reading would mask, and repetition by either rule."""
    repetition = repetition_table(study)
    return [
        Panel(
            "What each reading of the condition would mask",
            "Candidates in percent of all responses, counted in every arm whatever it masks. §2.2 "
            "and Eq. 2 say incorrect, §2.3 correct, a later equation non-incorrect. With a reward "
            "of 0 or 1 the last two differ only in responses that could not be judged.",
            [],
            readings_table(study),
        ),
        Panel(
            "Repetition: exact window against any period",
            "The paper's rule compares the last m tokens with the m before them, so that it misses "
            "loops whose period does not divide m; the periodic rule accepts any period up to m.",
            [],
            None if repetition.empty else repetition,
            "Not recorded: repetition is counted from stored responses, which these runs lack."
            if repetition.empty
            else "",
        ),
    ]


# 03: checkpoints over temperature -----------------------------------------------------------------


def grid_values(
    rows: Sequence[Mapping[str, Any]], column: str
) -> dict[str, dict[int, dict[float, float]]]:
    """Checkpoint -> seed -> temperature -> value."""
    found: dict[str, dict[int, dict[float, float]]] = {}
    for row in sorted(rows, key=lambda row: (row["step"], row["seed"], row["temperature"])):
        seeds = found.setdefault(f"after {row['step']} steps", {})
        seeds.setdefault(row["seed"], {})[row["temperature"]] = row[column]
    return found


def temperature_panels(study: Study) -> list[Panel]:
    """D(T) and accuracy over temperature of the models at the start, middle and end."""
    rows = [row for row in study.measurements if row["kind"] == GRID]
    title = "Checkpoints over temperature"
    if not rows:
        return [Panel(title, "", [], missing="Not recorded: no checkpoint was measured.")]
    accuracy = grid_values([{**r, "accuracy": 100 * r["accuracy"]} for r in rows], "accuracy")
    return [
        Panel(
            title,
            "Held-out problems, sampled at each temperature with the model before training, after "
            "half and after all of the steps at T = 1. The paper claims that the temperatures at "
            "which accuracy holds reach higher during training (T1), that diversity rises with "
            "temperature (T2) and that it falls as training goes on.",
            [
                Plot("grid-diversity", "D(T)", over_temperature(grid_values(rows, "distinct_4"))),
                Plot(
                    "grid-accuracy",
                    "Accuracy over temperature",
                    over_temperature(accuracy, "pass@1 (%)", title="Accuracy", paper=False),
                ),
            ],
        )
    ]


# 08: how far off-policy ---------------------------------------------------------------------------


def clip_by_update(study: Study) -> pd.DataFrame:
    """Percent of tokens clipped by the number of the update within its generation, by arm."""
    rows = []
    for arm, records in study.arms.items():
        counts = pd.concat([_by_position(record) for record in records])
        means = counts.groupby(level=0).mean()
        label = arm_styles([arm])[arm].label
        rows += [
            {"Arm": label, "Update of its generation": position, "Tokens clipped (%)": value}
            for position, value in means.round(4).items()
        ]
    return pd.DataFrame(rows)


def _by_position(record: Record) -> pd.Series:
    steps = record.steps
    if "clip_ratio/region_mean" not in steps.columns or "reward" not in steps.columns:
        return pd.Series(dtype=float)
    position = steps.groupby(steps["reward"].notna().cumsum()).cumcount() + 1
    return 100 * steps["clip_ratio/region_mean"].groupby(position).mean()


def batch_panels(study: Study) -> list[Panel]:
    """How much is clipped in which update after the sampling."""
    table = clip_by_update(study)
    return [
        Panel(
            "How far off-policy",
            "The first update of a generation is on-policy, so that nothing can be clipped; the "
            "share grows with each further update on the same responses.",
            [],
            None if table.empty else table,
            "Not recorded: clip ratios." if table.empty else "",
        )
    ]


# The pages ----------------------------------------------------------------------------------------

SECTIONS: dict[str, SectionPage] = {
    spec.experiment: spec
    for spec in (
        SectionPage(
            "cross_model",
            "Two model generations",
            "Figure 1",
            "GRPO+ on an older generation, which answers briefly, and on a newer one, which "
            "searches at length: same problems, same order, seed by seed.",
            {
                "accuracy": "The paper shows large gains of Qwen 2.5 and small ones of Qwen 3 on "
                "the same mainstream set.",
                "reward": "The paper's older models keep or shorten their outputs, the newer ones "
                "grow them; the set is hard for the older and easy for the newer.",
                "lengths": "",
                "diversity": "",
            },
        ),
        SectionPage(
            "truncation_mask",
            "The truncation mask",
            "Figure 2",
            "GRPO+ without a mask, with all truncated responses masked (DeepCoder), and with the "
            "conditional mask at rho 0.1, 0.2 and 0.3.",
            {
                "accuracy": "The paper claims that masked arms rise fast, fall back and settle, "
                "and that the conditional mask ends highest (M1, M3, M4, M6).",
                "reward": "The paper claims that more masking grows responses faster and closer to "
                "the limit (M2).",
                "diversity": "The paper claims that more masking lowers diversity faster, and that "
                "masking all first lifts it, then collapses (M5).",
                "mask": "",
                "mask-rules": "",
                "lengths": "",
            },
            mask_panels,
        ),
        SectionPage(
            "temperature",
            "Temperature",
            "Figure 3",
            "GRPO+ at constant temperatures, with one jump, with a ramp, and at a temperature "
            "chosen from measured diversity.",
            {
                "accuracy": "The paper claims that T = 0.6 fails (T5), that T = 1.8 trains stably "
                "(T6) and that low-then-high staging beats high from the start (T9).",
                "diversity": "The paper claims that diversity falls at a fixed temperature (T3), "
                "that arms which start too low keep falling (T4) and that the others converge to "
                "similar values (T7).",
                "reward": "",
                "d-of-t": "The arm T(D) takes the lowest temperature whose diversity reaches the "
                "value that training converges to (T8).",
                "stages": "",
                "policy": "",
            },
            temperature_panels,
        ),
        SectionPage(
            "kl_and_clip",
            "KL term and clip",
            "Figure 4",
            "GRPO+ with and without a KL term, with a low and a high upper clip; the paper changes "
            "both at once.",
            {
                "accuracy": "The paper claims that accuracy keeps rising without KL and with the "
                "high clip, and rises then falls with KL and the low clip (K1, K2).",
                "diversity": "The paper claims that KL without the high clip loses diversity, and "
                "that this comes before the fall of accuracy (K2).",
                "reward": "The paper's responses grow from 3.2K to 6K tokens without KL.",
                "policy": "",
                "kl": "",
            },
        ),
        SectionPage(
            "batch_size",
            "Batch size and on-policy",
            "Figure 8",
            "GRPO+ with half, one and two times the profile's problems a generation at one mini "
            "batch: the larger the batch, the more updates use responses of an older policy.",
            {
                "accuracy": "The paper claims that the intermediate batch performs best (B2).",
                "reward": "The paper claims that length rises, then falls with the small batch "
                "(B1).",
                "diversity": "The paper claims that diversity converges sooner with the small "
                "batch (B1).",
                "policy": "",
                "optimizer": "",
            },
            batch_panels,
        ),
        SectionPage(
            "context_length",
            "Context length and extension",
            "Figure 9",
            "GRPO+ at half, three quarters and all of the profile's limit, and extended from the "
            "shorter limits early and late.",
            {
                "accuracy": "The paper claims that a longer limit ends higher (C1).",
                "reward": "The paper claims that responses grow faster and longer under a longer "
                "limit (C2), and that a short start leaves a deficit that outlasts the extension "
                "(C4 to C6).",
                "diversity": "The paper claims higher diversity with a longer limit (C3).",
                "lengths": "",
                "mask": "",
                "stages": "",
            },
        ),
    )
}
"""By experiment."""
