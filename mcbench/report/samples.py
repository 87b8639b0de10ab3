"""Real responses on a page: the same problems answered by each arm, late in training.

All arms of one seed see the same problems in the same order, so that one generation of each can be
laid side by side. The number of problems, responses and characters is bounded. What a model wrote
is shown as text, whatever it wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import pandas as pd

from mcbench.report.page import Section, key_svg
from mcbench.report.series import Arms, Record, seed_of
from mcbench.report.style import arm_styles

PROBLEMS = 3
MAX_CHARACTERS = 3000
# C0 control characters but tab and newline have pictures of their own in Unicode; bidirectional
# controls could reorder the text around them and are spelled out.
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
_PICTURES |= {127: "␡"}
_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES |= {code: f"⟨U+{code:04X}⟩" for code in _BIDI}


def visible(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Text from a model for display: control characters made visible, cut, escaped."""
    shown = text[:limit].translate(_PICTURES)
    more = f"\n… ({len(text) - limit} more characters)" if len(text) > limit else ""
    return escape(shown + more)


def comparable_runs(arms: Arms) -> tuple[dict[str, Record], int] | None:
    """One run per arm, of one seed, and the last generation that all of them stored."""
    seeds = sorted({seed_of(record) for records in arms.values() for record in records})
    for seed in seeds:
        runs = {
            arm: record
            for arm, records in arms.items()
            for record in records
            if seed_of(record) == seed
        }
        if len(runs) != len(arms):
            continue
        steps = set.intersection(*(set(record.completion_steps()) for record in runs.values()))
        if steps:
            return runs, max(steps)
    return None


def choose_problems(tables: Mapping[str, pd.DataFrame]) -> list[int]:
    """Groups worth reading: most of them answered differently by the arms, then by the samples."""
    right = pd.DataFrame(
        {
            arm: (table["reward"] >= 1).groupby(table["group"]).mean()
            for arm, table in tables.items()
        }
    )
    spread = right.max(axis=1) - right.min(axis=1)
    mixed = right.gt(0).any(axis=1) & right.lt(1).any(axis=1)
    order = pd.DataFrame({"mixed": mixed, "spread": spread})
    order = order.sort_values(["mixed", "spread"], ascending=False, kind="stable")
    return [int(group) for group in order.index[:PROBLEMS]]


def _outcome(row: pd.Series) -> tuple[str, str]:
    """CSS class and words for one response."""
    if row["reward"] >= 1:
        return "right", "right"
    words = "cut" if row["truncated"] else "wrong"
    return "wrong", f"{words}, masked" if row["masked"] else words


def _response(row: pd.Series) -> str:
    kind, words = _outcome(row)
    verdicts = row["verdicts"] or "not judged"
    return (
        f'<details class="response {kind}"><summary><b>{words}</b> · {int(row["length"])} tokens · '
        f"{escape(str(verdicts))}</summary><pre>{visible(str(row['completion']))}</pre></details>"
    )


def _problem(group: int, tables: Mapping[str, pd.DataFrame]) -> str:
    styles = arm_styles(tables)
    columns = []
    for arm, table in tables.items():
        rows = table[table["group"] == group]
        right = int((rows["reward"] >= 1).sum())
        responses = "".join(_response(row) for _, row in rows.iterrows())
        columns.append(
            f"<figure><figcaption>{key_svg(styles[arm])} {escape(styles[arm].label)}: {right} of "
            f"{len(rows)} right</figcaption>{responses}</figure>"
        )
    first = next(iter(tables.values()))
    prompt = first[first["group"] == group].iloc[0]
    return (
        f"<h3>Problem {escape(str(prompt['problem_id']))}</h3>"
        f'<pre class="prompt">{visible(str(prompt["prompt"]))}</pre>'
        f'<div class="grid samples">{"".join(columns)}</div>'
    )


def samples_section(size: str, prefix: str, arms: Arms) -> Section | None:
    """A few problems with every arm's responses; None where no responses are stored."""
    found = comparable_runs(arms)
    if found is None:
        return None
    runs, step = found
    tables = {arm: record.completions(step) for arm, record in runs.items()}
    if len({tuple(table["problem_id"]) for table in tables.values()}) > 1:
        return None  # the arms saw different problems, so there is nothing to lay side by side
    seed = seed_of(next(iter(runs.values())))
    problems = "".join(_problem(group, tables) for group in choose_problems(tables))
    return Section(
        f"{prefix}-samples",
        f"Responses: {size}",
        f"Training samples at step {step}, seed {seed}: the same problems in every arm, those "
        "first on which the arms differ most. Open a line to read the response.",
        markup=problems,
    )
