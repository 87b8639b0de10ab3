"""Which runs a page was made from: grouped into arms, listed, and with what produced them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mcbench.report.page import Section, data_table, facts, flat, reproduction
from mcbench.report.series import Arms, Record, arm_of, seed_of
from mcbench.report.series import group_runs as group_runs
from mcbench.report.style import arm_styles

_OWN_COLUMNS = ("profile", "recipe", "seed", "model_digest", "data_digest")


def runs_table(sizes: Mapping[str, Arms]) -> pd.DataFrame:
    """One line per run, under its arm's name."""
    rows = []
    named = [(arm, r) for arms in sizes.values() for arm, runs in arms.items() for r in runs]
    for arm, record in named:
        meta = record.meta
        started, ended = meta.get("started"), meta.get("ended")
        minutes = (ended - started) / 60 if started and ended else None
        rows.append(
            {
                "Run": meta["run_id"],
                "Arm": arm_styles([arm])[arm].label,
                "Model": record.config.model,
                "Seed": meta["seed"],
                "Steps": len(record.steps),
                "State": meta.get("state", ""),
                "Minutes": round(minutes, 1) if minutes is not None else None,
                "Commit": str(meta.get("commit") or "")[:10],
            }
        )
    return pd.DataFrame(rows)


def _shared_and_own(configs: Mapping[str, Mapping[str, Any]]) -> tuple[list[tuple[str, str]], Any]:
    """Settings all arms share as facts, and a table of those in which they differ."""
    names = sorted({name for config in configs.values() for name in config})
    shared, differing = [], []
    for name in names:
        values = {arm: flat(config.get(name)) for arm, config in configs.items()}
        if len(set(values.values())) == 1:
            shared.append((name, next(iter(values.values()))))
        else:
            differing.append({"Setting": name, **values})
    return shared, pd.DataFrame(differing)


def provenance(sizes: Mapping[str, Arms], reproduce: str) -> Section:
    """Configuration, versions, hardware, the runs, and the command that makes the page again."""
    configs: dict[str, dict[str, Any]] = {}
    for size, arms in sizes.items():
        for arm, runs in arms.items():
            label = arm_styles([arm])[arm].label
            name = f"{label}, {size}" if len(sizes) > 1 else label
            configs[name] = runs[0].config.to_dict()
    shared, differing = _shared_and_own(configs)
    first = next(runs[0] for arms in sizes.values() for runs in arms.values()).meta
    origin = [
        ("versions", flat(first.get("versions"))),
        ("commit", flat(first.get("commit"))),
        ("uncommitted changes", flat(first.get("diff_hash"))),
        ("data", flat(first.get("data_hash"))),
        ("hardware", flat(first.get("hardware"))),
    ]
    own = "<h3>Settings in which the arms differ</h3>" + data_table(differing)
    markup = (
        f"{reproduction(reproduce)}<h3>Runs</h3>{data_table(runs_table(sizes))}"
        f"{own if not differing.empty else ''}"
        f"<details><summary>All other settings</summary>{facts(shared)}</details>"
        f"<h3>Made with</h3>{facts([row for row in origin if row[1] != '–'])}"
    )
    return Section("provenance", "Where this comes from", markup=markup)


def configurations_table(records: Sequence[Record]) -> pd.DataFrame:
    """One line per configuration: its seeds and runs, and where it leaves the usual settings.

    Usual is a setting's most frequent value among the configurations; the profile's name and the
    recipe have columns of their own.
    """
    groups: dict[str, list[Record]] = {}
    settings: dict[str, dict[str, str]] = {}
    for record in sorted(records, key=lambda r: (arm_of(r), seed_of(r))):
        values = record.config.to_dict()
        shown = {n: flat(value) for n, value in values.items() if n not in _OWN_COLUMNS}
        key = json.dumps([record.config.profile, record.config.recipe, shown], sort_keys=True)
        groups.setdefault(key, []).append(record)
        settings[key] = shown
    usual = {
        name: Counter(v[name] for v in settings.values() if name in v).most_common(1)[0][0]
        for name in {name for values in settings.values() for name in values}
    }
    rows = []
    for key, runs in groups.items():
        config = runs[0].config
        own = sorted(settings[key].items())  # a record older than a setting does not have it
        other = {name: value for name, value in own if value != usual[name]}
        rows.append(
            {
                "Recipe": config.recipe,
                "Profile": config.profile,
                "Seeds": flat([seed_of(run) for run in runs]),
                "Unlike most": ", ".join(f"{name} {value}" for name, value in other.items()) or "–",
                "Runs": flat([run.meta["run_id"] for run in runs]),
            }
        )
    return pd.DataFrame(rows)
