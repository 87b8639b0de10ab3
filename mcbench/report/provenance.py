"""Where a page comes from: its runs, their settings, and what produced them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mcbench.grpo.recipes import RECIPES
from mcbench.report.page import Section, Table, facts, flat
from mcbench.report.series import Arms, Record, comparable, eval_lengths, seed_of
from mcbench.report.style import arm_styles
from mcbench.runs.config import Config, part_of

_ORIGIN = {
    "versions": "versions",
    "commit": "commit",
    "uncommitted changes": "diff_hash",
    "data": "data_hash",
    "hardware": "hardware",
}
_LEFT = "left to the trainer"
_MANY_ARMS = 8  # of so many each has a row of its own in place of a column
_LONG = 40


def runs_table(sizes: Mapping[str, Arms]) -> pd.DataFrame:
    """One line per run, under its arm's name."""
    rows = []
    for arms in sizes.values():
        styles = arm_styles(arms)
        for arm, record in ((arm, record) for arm, runs in arms.items() for record in runs):
            meta = record.meta
            done = len(record.steps)
            short = done < record.config.steps
            rows.append(
                {
                    "Run": meta["run_id"],
                    "Arm": styles[arm].label,
                    "Model": record.config.model,
                    "Seed": meta["seed"],
                    "Steps": f"{done} of {record.config.steps}" if short else done,
                    "State": meta.get("state", ""),
                    "Minutes": _minutes(record),
                    "Commit": ", ".join(_commits(meta)),
                }
            )
    return pd.DataFrame(rows)


def _minutes(record: Record) -> float | None:
    """Spent on it, without the time that it lay still; of a run that says nothing of that, until
    its end.
    """
    steps, meta = record.steps, record.meta
    if "elapsed_s" in steps and len(steps):
        return round(float(steps["elapsed_s"].iloc[-1]) / 60, 1)
    started, ended = meta.get("started"), meta.get("ended")
    return round((ended - started) / 60, 1) if started and ended else None


def _commits(meta: Mapping[str, Any]) -> list[str]:
    """The one that a run began at, and those that it was resumed at."""
    found = [meta, *(one for one in meta.get("resumed", ()) if "commit" in one)]
    return list(dict.fromkeys(str(one.get("commit") or "")[:10] for one in found))


def settings(config: Config) -> dict[str, str]:
    """All settings of a run but its seed and digests, as texts; a record that is older than a
    setting has the value that it meant then.
    """
    return {
        name: _LEFT if value is None and part_of(name) == "algorithm" else flat(value)
        for name, value in config.model_dump().items()
        if name != "seed" and part_of(name) != "digest"
    }


def provenance(sizes: Mapping[str, Arms]) -> Section:
    """Configuration, versions, hardware, the runs, and which of their evaluations are not shown."""
    found: dict[str, dict[str, str]] = {}
    for size, arms in sizes.items():
        for arm, style in arm_styles(arms).items():
            name = f"{style.label}, {size}" if len(sizes) > 1 else style.label
            found[name] = settings(arms[arm][0].config)
    every = pd.DataFrame(found).rename_axis("Setting")
    alike = every.nunique(axis=1) == 1
    own, shared = every[~alike], every[alike].iloc[:, 0]
    meta = next(runs[0] for arms in sizes.values() for runs in arms.values()).meta
    origin = [(name, meta[key]) for name, key in _ORIGIN.items() if meta.get(key)]
    remarks = [comparable(arms, n)[1] for arms in sizes.values() for n in eval_lengths(arms)]
    if len(found) > _MANY_ARMS:
        own = own.T.rename_axis("Arm")
    own, opened = own.reset_index(), open_choices(sizes)
    return Section(
        "provenance",
        "Where this comes from",
        " ".join(filter(None, dict.fromkeys(remarks))),
        blocks=[
            _table(runs_table(sizes), "Runs"),
            *([] if own.empty else [_table(own, "Settings in which the arms differ")]),
            *([] if opened.empty else [Table(opened, "What the paper leaves open, chosen here")]),
            facts(zip(map(str, shared.index), shared, strict=True), fold="All other settings"),
            facts(origin, "Made with"),
        ],
    )


def open_choices(sizes: Mapping[str, Arms]) -> pd.DataFrame:
    """What the paper leaves open in the recipes of these runs, and what is chosen here; a setting
    that a run has otherwise is no choice of the recipe's any more.
    """
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for config in (runs[0].config for arms in sizes.values() for runs in arms.values()):
        if config.recipe not in RECIPES:  # of a version that had it
            continue
        recipe = RECIPES[config.recipe]
        for name, why in recipe.open_choices.items():
            value = getattr(config, name)
            if value == recipe.args()[name]:
                told = "none" if value is None else flat(value)
                rows[name, told] = {"Setting": name, "Here": told, "Why": why}
    return pd.DataFrame(rows.values())


def _table(frame: pd.DataFrame, title: str) -> Table:
    """Folded where it is long."""
    if len(frame) > _LONG:
        return Table(frame, fold=f"{title} ({len(frame)})")
    return Table(frame, title)


def runs_section(records: Sequence[Record]) -> Section:
    """All configurations that were trained, and in what they differ."""
    return Section(
        "runs",
        f"{len(records)} runs",
        "Every configuration trained, its seeds, and where it differs from most others.",
        [_table(configurations_table(records), "Configurations")],
    )


def configurations_table(records: Sequence[Record]) -> pd.DataFrame:
    """One line per configuration: its seeds and runs, and where it leaves the usual settings.

    Usual is a setting's most frequent value among the configurations; the profile and the recipe
    have columns of their own.
    """
    groups: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda one: (one.config.recipe, seed_of(one))):
        groups.setdefault(str(settings(record.config)), []).append(record)
    known = [settings(runs[0].config) for runs in groups.values()]
    usual = {
        name: Counter(values[name] for values in known).most_common(1)[0][0]
        for name in (known[0] if known else ())
        if name not in ("profile", "recipe")
    }
    rows: list[dict[str, Any]] = []
    for values, runs in zip(known, groups.values(), strict=True):
        other = [f"{name} {values[name]}" for name in sorted(usual) if values[name] != usual[name]]
        rows.append(
            {
                "Recipe": values["recipe"],
                "Profile": values["profile"],
                "Seeds": flat([seed_of(run) for run in runs]),
                "Unlike most": ", ".join(other) or "–",
                "Runs": flat([run.meta["run_id"] for run in runs]),
            }
        )
    return pd.DataFrame(rows)
