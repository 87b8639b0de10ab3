"""The funnel of a build as one page, with examples of what every rule did."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcbench.data.report import examples

FUNNEL_PAGE = "funnel.html"
_EXAMPLES = 5
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.bar { background: #3465a4; height: .8rem; min-width: 1px; }
summary { cursor: pointer; } code { font-size: .9em; } q { color: #555; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; }
  th, td { border-color: #444; } q { color: #aaa; } }
"""


def funnel_page(name: str, funnel: Sequence[dict[str, Any]], out: Path) -> str:
    """A self-contained page: problems by stage, and for every rule examples from the audit log."""
    title = html.escape(f"{name}: what the build did")
    most = max((stage["in"] for stage in funnel), default=0) or 1
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        "<table><tr><th>stage<th class=n>in<th class=n>out<th class=n>dropped<th>left"
        + "".join(_stage_row(stage, most) for stage in funnel)
        + "</table><h2>Rules</h2><p>What a rule dropped or flagged, for a person to judge."
        + "".join(_rules(funnel, action, out) for action in ("drop", "flag"))
        + "</html>\n"
    )


def _stage_row(stage: dict[str, Any], most: int) -> str:
    share = 100 * stage["out"] / most
    return (
        f"<tr><td>{stage['stage']}<td class=n>{stage['in']}<td class=n>{stage['out']}"
        f"<td class=n>{stage['in'] - stage['out']}<td style='width:40%'>"
        f"<div class=bar style='width:{share:.1f}%'></div>"
    )


def _rules(funnel: Sequence[dict[str, Any]], action: str, out: Path) -> str:
    """One fold-out for every rule that took the action."""
    shown = examples(out, _EXAMPLES, action)
    parts = []
    for stage in funnel:
        for rule, actions in sorted(stage["rules"].items()):
            if not actions.get(action):
                continue
            mine = [e for e in shown if (e["stage"], e["rule"]) == (stage["stage"], rule)]
            done = {"drop": "dropped", "flag": "flagged"}[action]
            parts.append(
                f"<details><summary>{stage['stage']}: <b>{html.escape(rule)}</b> {done} "
                f"{actions[action]}</summary><ul>{''.join(map(_example, mine))}</ul></details>"
            )
    return "".join(parts)


def _example(row: dict[str, str]) -> str:
    quote = f"<br><q>{html.escape(row['excerpt'])}</q>" if row["excerpt"] else ""
    return f"<li><code>{html.escape(row['record'])}</code>: {html.escape(row['detail'])}{quote}"
