"""Which runs a page was made from: grouped into arms, listed, and with what produced them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from mcbench.experiments.arms import telling_changes
from mcbench.report.page import Section, data_table, facts, flat, reproduction
from mcbench.report.series import Arms, Record, seed_of
from mcbench.report.style import KNOWN, arm_styles

# Changes that say how long or on what a run trains, not what algorithm it runs.
_SCALE_CHANGES = ("steps", "model", "max_completion_length", "eval_lengths", "eval_every")


def arm_of(record: Record) -> str:
    """The arm's name: the recipe, and the changes to its algorithm where there are any."""
    config = record.meta["config"]
    told = telling_changes(config)
    changes = {name: value for name, value in told.items() if name not in _SCALE_CHANGES}
    extra = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(changes.items()))
    return f"{config['recipe']} ({extra})" if extra else str(config["recipe"])


def group_runs(records: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """model -> arm -> runs by seed.

    Models in the order of the records, with the profile's name where several profiles train one
    model; arms in the order GRPO, GRPO+, MicroCoder-GRPO, others.
    """
    records = list(records)
    order = {arm: index for index, arm in enumerate(KNOWN)}
    names = _size_names(records)
    grouped: dict[str, dict[str, list[Record]]] = {name: {} for name in names.values()}
    for record in sorted(records, key=lambda r: (order.get(arm_of(r), 99), arm_of(r), seed_of(r))):
        grouped[names[_size_key(record)]].setdefault(arm_of(record), []).append(record)
    return grouped


def _size_key(record: Record) -> tuple[str, str]:
    profile = record.meta["config"]["profile"]
    return str(profile["model"]), str(profile["name"])


def _size_names(records: Sequence[Record]) -> dict[tuple[str, str], str]:
    keys = list(dict.fromkeys(map(_size_key, records)))
    models = [model for model, _ in keys]
    return {
        (model, profile): model if models.count(model) == 1 else f"{model} ({profile})"
        for model, profile in keys
    }


def runs_table(sizes: Mapping[str, Arms]) -> pd.DataFrame:
    """One line per run, under its arm's name."""
    rows = []
    named = [(arm, r) for arms in sizes.values() for arm, runs in arms.items() for r in runs]
    for arm, record in named:
        meta, profile = record.meta, record.meta["config"]["profile"]
        started, ended = meta.get("started"), meta.get("ended")
        minutes = (ended - started) / 60 if started and ended else None
        rows.append(
            {
                "Run": meta["run_id"],
                "Arm": arm_styles([arm])[arm].label,
                "Model": profile["model"],
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
            config = runs[0].meta["config"]
            label = arm_styles([arm])[arm].label
            name = f"{label}, {size}" if len(sizes) > 1 else label
            configs[name] = {**config["profile"], **config.get("algorithm", {})}
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
        config = record.meta["config"]
        values = {**config["profile"], **config.get("algorithm", {})}
        shown = {name: flat(value) for name, value in values.items() if name != "name"}
        key = json.dumps([config["profile"].get("name"), config["recipe"], shown], sort_keys=True)
        groups.setdefault(key, []).append(record)
        settings[key] = shown
    usual = {
        name: Counter(v[name] for v in settings.values() if name in v).most_common(1)[0][0]
        for name in {name for values in settings.values() for name in values}
    }
    rows = []
    for key, runs in groups.items():
        config = runs[0].meta["config"]
        own = sorted(settings[key].items())  # a record older than a setting does not have it
        other = {name: value for name, value in own if value != usual[name]}
        rows.append(
            {
                "Recipe": config["recipe"],
                "Profile": config["profile"].get("name", ""),
                "Seeds": flat([seed_of(run) for run in runs]),
                "Unlike most": ", ".join(f"{name} {value}" for name, value in other.items()) or "–",
                "Runs": flat([run.meta["run_id"] for run in runs]),
            }
        )
    return pd.DataFrame(rows)
