"""The page of the results experiment: the paper's Fig. 7 and Table 1 on the user's own runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import escape

import numpy as np

from mcbench.errors import UserError
from mcbench.report import table
from mcbench.report.page import NANO_NOTE, Page, Section, Tile
from mcbench.report.panels import PANELS, panel
from mcbench.report.provenance import provenance
from mcbench.report.samples import samples_section
from mcbench.report.series import (
    Arms,
    Curve,
    Record,
    eval_curves,
    eval_lengths,
    group_runs,
    half_width,
    last_evaluations,
    seed_of,
)
from mcbench.report.style import KNOWN, arm_styles

FULL_SEEDS = 5  # below this many, conclusions are called exploratory


def _all(arms: Arms) -> list[Record]:
    return [record for records in arms.values() for record in records]


def headline(arms: Arms, length: int, window: int = table.WINDOW) -> tuple[list[Tile], str]:
    """The tiles (last-window pass@1 by arm) and one sentence on MicroCoder-GRPO's lead."""
    styles = arm_styles(arms)
    curves = {c.arm: c for c in eval_curves(arms, "pass_at_1", length, scale=100)}
    trained = {arm: last_evaluations(_after_start(curve), window) for arm, curve in curves.items()}
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


def slug(name: str) -> str:
    """A name as part of an HTML id."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


_CLAIMS = {
    "accuracy": "The paper claims that MicroCoder-GRPO rises fastest and ends highest at both "
    "lengths, and that GRPO+ peaks early and then falls back.",
    "reward": "The paper claims that the conditional truncation mask lets responses grow, because "
    "an answer that was cut while still searching is no longer punished.",
}


def results_section(size: str, arms: Arms) -> Section:
    """All panels of one model, those the paper's Fig. 7 is about with its claims."""
    prefix = slug(size)
    seeds = sorted({seed_of(record) for record in _all(arms)})
    drawn = []
    for name in PANELS:
        made = panel(name, arms, prefix)
        claim = _CLAIMS.get(name)
        drawn.append(replace(made, prose=f"{made.prose} {claim}") if claim else made)
    prose = f"{len(arms)} arms, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}. " + (
        "Thin lines are seeds, the bold line is their mean"
        + (", the band its 95 % t interval. " if len(seeds) >= 3 else ". ")
        + "In per-step figures the bold line is a running mean; the bar above sets its width."
    )
    return Section(prefix, f"Training dynamics: {size}", prose, drawn)


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
            *(results_section(size, arms) for size, arms in sizes.items()),
            table_section(sizes),
            *filter(None, (samples_section(s, slug(s), arms) for s, arms in sizes.items())),
            provenance(sizes, reproduce),
        ],
    )
