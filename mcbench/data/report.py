"""What a build did: the funnel, examples of what was dropped, difficulty, overlap, the card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from jinja2 import Environment, PackageLoader, Template

from mcbench.data.difficulty import Difficulty
from mcbench.data.features import DIMENSIONS
from mcbench.data.schema import DIFFICULTIES
from mcbench.data.storage import read_manifest
from mcbench.errors import UserError
from mcbench.files import file_digest

FUNNEL_PAGE = "funnel.html"
_EXAMPLES = 5  # of a rule on the page

_QUARTILES = {"min": 0.0, "q1": 0.25, "median": 0.5, "q3": 0.75, "max": 1.0}


def check_files(out: Path, manifest: dict[str, Any]) -> None:
    """Refuse a set whose files are not those that were built.

    Raises:
        UserError: a file is missing or was changed.
    """
    for name, sha256 in manifest["files"].items():
        if not (out / name).is_file():
            raise UserError(f"{out}/{name} is missing; build the set again")
        if file_digest(out / name) != sha256:
            raise UserError(f"{out}/{name} is not the file that was built; build the set again")


def examples(out: Path, per_rule: int = 2, action: str = "drop") -> list[dict[str, str]]:
    """The first entries of every rule that dropped something: record, rule, detail, excerpt."""
    log = pd.read_parquet(out / "audit.parquet", filters=[("action", "==", action)])
    shown = log.groupby(["stage", "rule"]).head(per_rule)
    return [{str(name): text for name, text in row.items()} for row in shown.to_dict("records")]


def overlap(out: Path) -> dict[tuple[str, str], int]:
    """Near-duplicates between sources: (source of the dropped one, of the kept one) -> number."""
    chosen = [("rule", "==", "near_duplicate"), ("action", "==", "drop")]
    log = pd.read_parquet(out / "audit.parquet", filters=chosen)
    kept = [detail.rpartition(" similar to ")[2] for detail in log.detail]
    sources = ([name.partition("/")[0] for name in names] for names in (log.record, kept))
    return dict(sorted(Counter(zip(*sources, strict=True)).items()))


def describe_difficulty(stage: Difficulty, summary: pa.Table) -> dict[str, Any]:
    """Labels and scores before the selection, and the calibration curve."""
    rows = stage.label(summary)
    counts = rows.difficulty.value_counts()
    quartiles = rows.score.quantile(list(_QUARTILES.values()), interpolation="nearest")
    calibration = stage.calibrate(rows)
    return {
        "before": {name: int(counts.get(name, 0)) for name in DIFFICULTIES},
        "score": {name: float(quartiles[q]) for name, q in _QUARTILES.items()},
        "provenance": {name or "none": n for name, n in rows.provenance.value_counts().items()},
        "prediction": stage.agreement(rows),
        "calibration": calibration and asdict(calibration),
    }


def summary_text(manifest: dict[str, Any], full: bool = False) -> str:
    """The funnel as a table for a terminal; ``full`` also lists what only changed or flagged."""
    lines = [f"{manifest['name']}: {manifest['rows']} problems ({manifest['digest']})", ""]
    lines.append(f"{'stage':<14} {'rule':<18} {'in':>8} {'out':>8} {'dropped':>8}  other")
    for stage in manifest["funnel"]:
        into, out = stage["in"], stage["out"]
        lines.append(f"{stage['stage']:<14} {'':<18} {into:>8} {out:>8} {into - out:>8}")
        for rule, actions in sorted(stage["rules"].items()):
            dropped = actions.get("drop", 0)
            if full or dropped:
                other = _labels({a: actions[a] for a in ("change", "flag", "keep") if a in actions})
                told = f"{'':<14} {rule:<18} {'':>8} {'':>8} {dropped:>8}  {other}"
                lines.append(told.rstrip())
    lines += [f"{name}: {_labels(counts)}" for name, counts in manifest["counts"].items()]
    if before := manifest.get("difficulty", {}).get("before"):
        lines.append(f"difficulty before selection: {_labels(before)}")
        lines.append(f"predicted difficulty: {_prediction(manifest)}")
    return "\n".join(lines)


def _prediction(manifest: dict[str, Any]) -> str:
    """How good the prediction is, as far as the sources' labels tell."""
    found = manifest["difficulty"]["prediction"]
    if "agreement" not in found:
        return f"not checked, {found['labelled']} labels of sources"
    used = "used" if found["used"] else "not used, for it is no better"
    return (
        f"agrees with {found['agreement']:.0%} of {found['labelled']} labels of sources, of which "
        f"the most frequent makes up {found['majority']:.0%}: {used}"
    )


def inspect(out: Path, per_rule: int = 2) -> str:
    """Everything a person asks of a finished set: funnel, overlap, examples of what was dropped.

    Raises:
        UserError: no finished set, or its files are not those that were built.
    """
    manifest = read_manifest(out)
    check_files(out, manifest)
    lines = [summary_text(manifest, full=True)]
    if pairs := overlap(out):
        lines.append("\nnear-duplicates (dropped from, kept in):")
        lines += [f"  {dropped} -> {kept}: {number}" for (dropped, kept), number in pairs.items()]
    if shown := examples(out, per_rule):
        lines.append("\ndropped, for example:")
    for row in shown:
        lines.append(f"  {row['stage']}/{row['rule']} {row['record']}: {row['detail']}")
        if row["excerpt"]:
            lines.append(f"      {row['excerpt'][:110]}")
    return "\n".join(lines)


def card(name: str, description: str, manifest: dict[str, Any], exported: bool = False) -> str:
    """A data set card in the hub's format (YAML header and Markdown); of an ``exported`` set it
    names no files but the one that is there.
    """
    given = {**manifest, "name": name, "description": description, "dimensions": DIMENSIONS}
    given["exported"] = exported
    return _template("card.md").render(given, labels=_labels, dropped=_dropped)


def numbers_of(labels: Iterable[str]) -> dict[str, int]:
    """How many there are of each, by name."""
    return dict(sorted(Counter(label or "unknown" for label in labels).items()))


def _labels(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {label}" for label, n in counts.items())


def _dropped(rules: dict[str, dict[str, int]]) -> str:
    dropped = {rule: actions["drop"] for rule, actions in rules.items() if actions.get("drop")}
    return ", ".join(f"{rule} {n}" for rule, n in sorted(dropped.items())) or "–"


def funnel_page(name: str, funnel: Sequence[dict[str, Any]], out: Path) -> str:
    """A self-contained page: problems by stage, and for every rule examples from the audit log."""
    return _template(FUNNEL_PAGE).render(
        name=name,
        funnel=funnel,
        most=max((stage["in"] for stage in funnel), default=0) or 1,
        shown={action: examples(out, _EXAMPLES, action) for action in ("drop", "flag")},
    )


def _template(name: str) -> Template:
    return Environment(
        loader=PackageLoader("mcbench.data"),
        autoescape=name == FUNNEL_PAGE,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).get_template(name)
