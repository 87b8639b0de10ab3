"""The page of the results experiment: the paper's Fig. 7 and Table 1 on the user's own runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mcbench.errors import UserError
from mcbench.report import figures, table
from mcbench.report.page import (
    NANO_NOTE,
    Page,
    Panel,
    Plot,
    Section,
    Tile,
)
from mcbench.report.provenance import group_runs, provenance
from mcbench.report.samples import samples_section
from mcbench.report.series import (
    Arms,
    Curve,
    Record,
    eval_curves,
    eval_lengths,
    half_width,
    last_window,
    seed_of,
    step_curves,
)
from mcbench.report.style import KNOWN, arm_styles

FULL_SEEDS = 5  # below this many, conclusions are called exploratory
TABLE_ROWS = 12
LENGTH_COLUMNS = {
    "length/p10": "10th percentile",
    "length/p50": "median",
    "length/p90": "90th percentile",
    "length/correct_mean": "mean, right",
    "length/incorrect_mean": "mean, wrong",
}


def _curves_table(curves: Sequence[Curve], arms: Arms, unit: str) -> pd.DataFrame:
    """Mean by step and arm, at ``TABLE_ROWS`` steps at most, the first and the last included."""
    styles = arm_styles(arms)
    means = {styles[c.arm].label: pd.Series(c.mean, index=c.x) for c in curves}
    frame = pd.DataFrame(means).sort_index()
    if len(frame) > TABLE_ROWS:
        frame = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, TABLE_ROWS).astype(int))]
    frame.insert(0, "Step", frame.index)
    return frame.rename(columns={name: f"{name} ({unit})" for name in means})


def _arms_table(arms: Arms, columns: Mapping[str, str]) -> pd.DataFrame:
    """Mean over seeds at the first and the last logged step, one line per arm and step."""
    styles = arm_styles(arms)
    rows = []
    for arm, records in arms.items():
        curves = {name: step_curves({arm: records}, column) for column, name in columns.items()}
        means = pd.DataFrame(
            {name: pd.Series(found[0].mean, found[0].x) for name, found in curves.items() if found}
        )
        for step in means.index[[0, -1]] if len(means) else []:
            rows.append({"Arm": styles[arm].label, "Step": int(step), **means.loc[step].to_dict()})
    return pd.DataFrame(rows)


def step_panel(
    arms: Arms,
    title: str,
    prose: str,
    plots: Sequence[tuple[str, str, go.Figure]],
    columns: Mapping[str, tuple[str, float]],
) -> Panel:
    """A panel whose data table shows logged columns: name -> (unit, scale)."""
    tables = [
        _curves_table(step_curves(arms, column, scale), arms, unit).set_index("Step")
        for column, (unit, scale) in columns.items()
    ]
    data = pd.concat(tables, axis=1).reset_index()
    return Panel(title, prose, [Plot(*plot) for plot in plots], data)


def accuracy_panel(arms: Arms, prefix: str, lengths: Sequence[int]) -> Panel:
    """pass@1 at every test length, and the numbers at the training length."""
    plots = [
        Plot(
            f"{prefix}-accuracy-{length}",
            f"pass@1 with up to {length} tokens"
            + (" (the training length)" if length == lengths[0] else ""),
            figures.accuracy(arms, length),
        )
        for length in lengths
    ]
    rows = [
        _curves_table(
            eval_curves(arms, "pass_at_1", n, scale=100), arms, f"% at {n} tokens"
        ).set_index("Step")
        for n in lengths
    ]
    data = pd.concat(rows, axis=1).reset_index()
    return Panel(
        "Accuracy",
        "Held-out problems, several attempts each, all tests must pass. The paper claims that "
        "MicroCoder-GRPO rises fastest and ends highest at both lengths, and that GRPO+ peaks "
        "early and then falls back. The first point is the model before training.",
        plots,
        data,
    )


def training_panels(arms: Arms, prefix: str) -> list[Panel]:
    """Reward and length."""
    limit = {int(r.meta["config"]["profile"]["max_completion_length"]) for r in _all(arms)}
    only_limit = limit.pop() if len(limit) == 1 else None
    spread = [
        Plot(
            f"{prefix}-spread-{index}",
            arm_styles(arms)[arm].label,
            figures.length_spread(arm, records, only_limit).update_layout(showlegend=False),
        )
        for index, (arm, records) in enumerate(arms.items())
    ]
    return [
        step_panel(
            arms,
            "Reward and response length",
            "Reward is the share of sampled responses that pass every test, on training problems "
            "and at the training temperature. The paper claims that the conditional truncation "
            "mask lets responses grow, because an answer that was cut while still searching is no "
            "longer punished.",
            [
                (f"{prefix}-reward", "Training reward", figures.reward(arms)),
                (f"{prefix}-length", "Mean response length", figures.response_length(arms)),
            ],
            {"reward": ("% reward", 100), "completions/mean_length": ("tokens", 1)},
        ),
        Panel(
            "Lengths by outcome",
            "Band: 10th to 90th percentile; solid: median; dashed: mean of right responses; "
            "dotted: mean of wrong ones; the horizontal line is the limit.",
            spread,
            _arms_table(arms, LENGTH_COLUMNS),
        ),
        step_panel(
            arms,
            "Truncation and mask",
            "Left: responses that reached the limit. Right: responses whose advantage was set to "
            "zero because they were cut, wrong, not repeating, and drawn with probability rho.",
            [
                (f"{prefix}-truncated", "Truncated responses", figures.truncated_share(arms)),
                (f"{prefix}-masked", "Masked responses", figures.masked_share(arms)),
            ],
            {"completions/clipped_ratio": ("% cut", 100), "mask/share": ("% masked", 100)},
        ),
    ]


def policy_panels(arms: Arms, prefix: str) -> list[Panel]:
    """Diversity, entropy, clip, groups and time: those that the runs logged."""
    names = {column: title for column, (title, _) in figures.DIVERSITY.items()}
    measured = [
        (f"{prefix}-{column.partition('/')[2]}", names[column], figures.diversity(arms, column))
        for column in figures.DIVERSITY
        if step_curves(arms, column)
    ]
    kl = [(f"{prefix}-kl", "KL to the untrained model", figures.kl(arms))]
    panels = [
        step_panel(
            arms,
            "Diversity",
            "How much one prompt's responses differ. The paper reads lasting loss of diversity as "
            "the sign that accuracy will fall next.",
            measured,
            {"diversity/distinct_4": ("Distinct-4", 1)},
        ),
        step_panel(
            arms,
            "Entropy and clipping",
            "Entropy of the policy on its own samples, and the share of tokens where the clip "
            "cut the update off. A higher upper bound leaves rare tokens more room to grow. KL is "
            "measured only where it is part of the loss.",
            [
                (f"{prefix}-entropy", "Token entropy", figures.entropy(arms)),
                (
                    f"{prefix}-clip-low",
                    "Clipped at the lower bound",
                    figures.clip_ratio(arms, "low"),
                ),
                (
                    f"{prefix}-clip-high",
                    "Clipped at the upper bound",
                    figures.clip_ratio(arms, "high"),
                ),
                *(kl if step_curves(arms, "kl") else []),
            ],
            {"entropy": ("nats", 1), "clip_ratio/high_mean": ("% clipped high", 100)},
        ),
        Panel(
            "Group outcomes",
            "Dark: prompts whose responses all pass; middle: some pass; light: none does. Only the "
            "middle ones carry a gradient.",
            [
                Plot(
                    f"{prefix}-groups-{index}",
                    arm_styles(arms)[arm].label,
                    figures.group_outcomes(arm, records).update_layout(showlegend=False),
                )
                for index, (arm, records) in enumerate(arms.items())
            ],
            _arms_table(arms, {column: name for column, name, _ in figures.GROUPS}),
        ),
    ]
    return [*panels, time_panel(arms, prefix)]


def time_panel(arms: Arms, prefix: str) -> Panel:
    """Where the time of an update went."""
    labels = {arm: style.label for arm, style in arm_styles(arms).items()}
    rows = [
        {"Arm": labels[arm], **{f"{k} (s)": v for k, v in figures.time_parts(records).items()}}
        for arm, records in arms.items()
    ]
    return Panel(
        "Time",
        "Mean seconds per optimizer update: sampling responses, running their programs, and the "
        "rest (forward, backward, optimizer, log).",
        [Plot(f"{prefix}-time", "Seconds per update by part", figures.time_split(arms))],
        pd.DataFrame(rows),
    )


def _all(arms: Arms) -> list[Record]:
    return [record for records in arms.values() for record in records]


def headline(arms: Arms, length: int, window: int = table.WINDOW) -> tuple[list[Tile], str]:
    """The tiles (last-window pass@1 by arm) and one sentence on MicroCoder-GRPO's lead."""
    styles = arm_styles(arms)
    curves = {c.arm: c for c in eval_curves(arms, "pass_at_1", length, scale=100)}
    trained = {arm: last_window(_after_start(curve), window) for arm, curve in curves.items()}
    tiles = []
    if curves:
        base = float(np.nanmean([curve.runs[:, 0].mean() for curve in curves.values()]))
        tiles.append(Tile("Not trained", f"{base:.1f}", "%", "pass@1", KNOWN["base"]))
        for arm, values in trained.items():
            mean = float(values.mean())
            peak = float(np.nanmax(np.nan_to_num(curves[arm].mean, nan=-1.0)))
            under = f"{mean - base:+.1f} points, peak {peak:.1f} %".replace("-", "−")
            tiles.append(Tile(styles[arm].label, f"{mean:.1f}", "%", under, styles[arm]))
    return tiles, _lead_sentence(curves, trained)


def _after_start(curve: Curve) -> Curve:
    """The curve without the evaluation of the base model, where there are later ones."""
    keep = curve.x > 0
    return replace(curve, x=curve.x[keep], runs=curve.runs[:, keep]) if keep.any() else curve


def _lead_sentence(curves: Mapping[str, Curve], trained: Mapping[str, np.ndarray]) -> str:
    baselines = {arm: values for arm, values in trained.items() if arm != table.OURS}
    if table.OURS not in trained or not baselines:
        return ""
    best = max(baselines, key=lambda arm: float(baselines[arm].mean()))
    shared = sorted(set(curves[table.OURS].seeds) & set(curves[best].seeds))
    if not shared:
        return ""
    pick = {arm: [curves[arm].seeds.index(seed) for seed in shared] for arm in (table.OURS, best)}
    gaps = trained[table.OURS][pick[table.OURS]] - trained[best][pick[best]]
    gap = float(gaps.mean())
    side = "above" if gap >= 0 else "below"
    where = "level with" if abs(gap) < 0.05 else f"{abs(gap):.1f} points {side}"
    text = f"MicroCoder-GRPO ends {where} {arm_styles([best])[best].label}, the best of the others"
    half = float(half_width(gaps[:, None])[0])
    if not np.isnan(half):
        low, high = f"{gap - half:+.1f}", f"{gap + half:+.1f}"
        text += f" (95 % interval {low} to {high}, paired over {len(shared)} seeds)"
    else:
        text += f" ({len(shared)} seed{'s' if len(shared) > 1 else ''}, so no interval)"
    if len(shared) < FULL_SEEDS:
        text += f"; with fewer than {FULL_SEEDS} seeds this is exploratory"
    return text.replace(" -", " −") + "."


def _slug(name: str) -> str:
    """A name as part of an HTML id."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def results_section(size: str, arms: Arms, lengths: Sequence[int]) -> Section:
    """All panels of one model."""
    prefix = _slug(size)
    seeds = sorted({seed_of(record) for record in _all(arms)})
    panels = [
        accuracy_panel(arms, prefix, lengths),
        *training_panels(arms, prefix),
        *policy_panels(arms, prefix),
    ]
    prose = f"{len(arms)} arms, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}. " + (
        "Thin lines are seeds, the bold line is their mean"
        + (", the band its 95 % t interval. " if len(seeds) >= 3 else ". ")
        + f"In per-step figures the bold line is a running mean over {figures.SMOOTHING} steps."
    )
    return Section(prefix, f"Training dynamics: {size}", prose, panels)


def table_section(sizes: Mapping[str, Arms]) -> Section:
    """Table 1 from these runs, and the paper's below it."""
    lines = "".join(f"<li>{escape(line)}</li>" for line in verdicts(sizes))
    ours_against_best = f"<ul>{lines}</ul>" if lines else ""
    ours = table.to_html(
        table.results_table(sizes),
        f"These runs: pass@1 in percent, mean of the last {table.WINDOW} evaluations (or as many "
        "as there are); ± is the standard deviation over seeds.",
    )
    theirs = table.to_html(
        table.paper_table(), "The paper: Table 1, percent, as printed; bold by us."
    )
    return Section(
        "table",
        "Table 1",
        "Δ is MicroCoder-GRPO minus the best other recipe, cell by cell, as in the paper. The two "
        "tables have one shape so that they can be read side by side; their numbers are about "
        "different models and problems and are not comparable.",
        markup=f"{ours_against_best}{ours}"
        f"<details open><summary>The paper's numbers</summary>{theirs}</details>",
    )


def headline_of(records: Iterable[Record]) -> str:
    """Model, test length and how MicroCoder-GRPO compares, in a sentence or two.

    Raises:
        UserError: no record holds an evaluation.
    """
    sizes = group_runs(records)
    size, length = _first_size(sizes)
    _, sentence = headline(sizes[size], length)
    return f"Held-out pass@1 of {size} with up to {length} tokens. {sentence}".strip()


def verdicts(sizes: Mapping[str, Arms]) -> list[str]:
    """One line for every model and test length: how MicroCoder-GRPO compares there."""
    return [
        f"{size}, up to {length} tokens: {sentence}"
        for size, arms in sizes.items()
        for length in eval_lengths(arms)
        if (sentence := headline(arms, length)[1])
    ]


def _first_size(sizes: Mapping[str, Arms]) -> tuple[str, int]:
    """The first model that has evaluations, and the length it was trained with."""
    for size, arms in sizes.items():
        if lengths := eval_lengths(arms):
            return size, lengths[0]
    raise UserError("the runs hold no evaluation yet, so there is no page to build")


def results_page(records: Iterable[Record], reproduce: str) -> Page:
    """The whole page.

    Args:
        records: runs of the results experiment, any number of models, arms and seeds.
        reproduce: the command that makes the page again, shown as it is.

    Raises:
        UserError: no record holds an evaluation.
    """
    records = list(records)
    sizes = group_runs(records)
    first, length = _first_size(sizes)
    tiles, _ = headline(sizes[first], length)
    names = dict.fromkeys(arm for arms in sizes.values() for arm in arms)
    nano = all(size.startswith("nano") for size in sizes)
    return Page(
        title="GRPO, GRPO+ and MicroCoder-GRPO",
        kicker="mcbench · Figure 7 and Table 1",
        lead=headline_of(records),
        tiles=tiles,
        arms=arm_styles(names),
        notes=(NANO_NOTE,) if nano else (),
        sections=[
            *(results_section(size, arms, eval_lengths(arms)) for size, arms in sizes.items()),
            table_section(sizes),
            *filter(None, (samples_section(s, _slug(s), arms) for s, arms in sizes.items())),
            provenance(sizes, reproduce),
        ],
    )
