"""Verdicts on claims and answers to questions for people: lines, tables, sections of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from mcbench.claims import (
    INSIGHTS,
    QUESTIONS,
    Answer,
    Verdict,
    count_states,
    question_rows,
    summary_rows,
)
from mcbench.claims.selection import Records
from mcbench.report.page import Section, data_cell, data_table, facts

FULL_SEEDS = 5  # below this many, conclusions are called exploratory
PAGES = {
    "cross_model": "01_cross_model",
    "truncation_mask": "02_truncation_mask",
    "temperature": "03_temperature",
    "kl_and_clip": "04_kl_and_clip",
    "data_quality": "05_data_quality",
    "code_evaluator": "06_code_evaluator",
    "results": "07_results",
    "batch_size": "08_batch_size",
    "context_length": "09_context_length",
}
"""Notebook and page of each experiment, without the ending."""
MEANING = (
    "Supported: every part of the claim shows with a 95 % interval above 0, after Holm's "
    "correction over the claims of its experiment. Contradicted: some part is reversed as clearly. "
    "Inconclusive: anything else, also too few seeds or runs that are missing. These states are "
    "about models of less than two million parameters on generated problems, trained for some "
    "hundred updates: a supported claim says that the mechanism shows here, a contradicted one "
    "that it works the other way here, and neither says anything about the paper's models."
)


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; a dash where there is none."""
    return "–" if np.isnan(value) else f"{value:+.{digits}f}".replace("-", "−")


def interval(low: float, high: float, digits: int = 1) -> str:
    """``+1.0 to +5.2``; a dash where there is none."""
    return "–" if np.isnan(low) else f"{signed(low, digits)} to {signed(high, digits)}"


def digits_of(unit: str) -> int:
    """Decimals that a number of this unit is shown with."""
    return 1 if unit in ("points", "tokens", "updates") else 3


def _numbers(value: float, low: float, high: float, unit: str) -> dict[str, str]:
    digits = digits_of(unit)
    effect = signed(value, digits)
    return {
        "Effect": effect if effect == "–" else f"{effect} {unit}",
        "95 % interval": interval(low, high, digits),
    }


# The paper's claims ------------------------------------------------------------------------------


def verdict_table(verdicts: Mapping[str, Verdict]) -> pd.DataFrame:
    """One row per part of each claim; numbers are positive in the direction of the claim."""
    rows = []
    for name, verdict in verdicts.items():
        shared = {"Claim": name, "State": verdict.state}
        for part in verdict.parts:
            found = part.estimate
            rows.append(
                {
                    **shared,
                    "What": part.name,
                    **_numbers(found.value, found.low, found.high, part.unit),
                }
            )
        if not verdict.parts:
            rows.append({**shared, "What": verdict.note, "Effect": "–", "95 % interval": "–"})
    return pd.DataFrame(rows)


def verdict_lines(verdicts: Mapping[str, Verdict]) -> list[str]:
    """One line per claim: id, state, numbers, and what the state rests on."""
    lines = []
    for name, verdict in verdicts.items():
        few = 0 < verdict.n_seeds < FULL_SEEDS and verdict.parts
        note = re.sub(r"(?<!\w)-(?=\d)", "−", verdict.note)
        lines.append(f"{name} {verdict.state}{' (exploratory)' if few else ''}: {note}")
    return lines


def verdict_section(verdicts: Mapping[str, Verdict], remark: str = "") -> Section:
    """Claims with their states, and the reason where there is no decision."""
    names = list(verdicts)
    reasons = [(name, one.reason) for name, one in verdicts.items() if one.parts and one.reason]
    return Section(
        "verdicts",
        f"Verdicts on {names[0]} to {names[-1]}",
        "Numbers are positive in the direction of the claim; the rule that decides was fixed in "
        "code before the runs. A state holds at this scale only."
        + (f" {remark}" if remark else ""),
        markup=facts((name, INSIGHTS[name].claim) for name in names)
        + data_table(verdict_table(verdicts))
        + (f"<h3>Why there is no decision</h3>{facts(reasons)}" if reasons else ""),
    )


# Questions of ours -------------------------------------------------------------------------------


def answer_table(answer: Answer) -> pd.DataFrame:
    """One row per part of the answer, in the direction that its name says."""
    rows = [
        {
            "What": part.name,
            "State": state,
            **_numbers(part.estimate.value, part.estimate.low, part.estimate.high, part.unit),
        }
        for part, state in answer.parts
    ]
    return pd.DataFrame(rows, columns=["What", "State", "Effect", "95 % interval"])


def answer_lines(answers: Mapping[str, Answer]) -> list[str]:
    """One line per part of each answer, after the question."""
    lines = []
    for name, answer in answers.items():
        lines.append(f"{name} {QUESTIONS[name].question}")
        table = answer_table(answer)
        lines += [
            f"   {row['State']}: {row['What']} {row['Effect']} [{row['95 % interval']}]"
            for row in table.to_dict("records")
        ]
        lines += [f"   inconclusive: {answer.note}"] if answer.note else []
    return lines


def question_section(answers: Mapping[str, Answer]) -> Section:
    """Beyond the paper: what it leaves open, and what these runs say."""
    blocks = []
    for name, answer in answers.items():
        one = QUESTIONS[name]
        about = [("question", one.question), ("left open", one.source)]
        about += [("measured", _plain(one.statistic.__doc__ or ""))]
        about += [("seeds", str(answer.n_seeds))]
        about += [("inconclusive", answer.note)] if answer.note else []
        blocks.append(facts(about) + (data_table(answer_table(answer)) if answer.parts else ""))
    return Section(
        "beyond",
        "Beyond the paper (ours)",
        "A question of ours that the paper leaves open. It predicts no direction: a part is higher "
        "or lower when its 95 % interval excludes 0 after Holm's correction over the question's "
        "parts, two-sided, and inconclusive otherwise. Statistics were fixed before the runs.",
        markup="".join(blocks),
    )


def _plain(docstring: str) -> str:
    """A docstring as one line of prose."""
    return re.sub(r"\s+", " ", docstring.replace("``", "")).strip()


# All together ------------------------------------------------------------------------------------


def insight_summary(
    records: Records, measurements: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The 34 claims and our questions with what the records say, for an index.

    ``rows`` as :func:`mcbench.claims.summary_rows` plus ``link``, ``states`` how many are in
    each, ``questions`` one row a part plus ``link``, ``meaning`` what the states mean and do not.
    """
    rows = summary_rows(INSIGHTS.values(), records, measurements)
    questions = question_rows(QUESTIONS.values(), records, measurements)
    return {
        "rows": [{**row, "link": f"{PAGES[row['experiment']]}.html#verdicts"} for row in rows],
        "states": count_states(rows),
        "questions": [
            {**row, "link": f"{PAGES[row['experiment']]}.html#beyond"} for row in questions
        ],
        "meaning": MEANING,
    }


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """The summary as a text table, one line a claim and one a part of our questions."""
    states = ", ".join(f"{count} {state}" for state, count in summary["states"].items())
    lines = [f"{len(summary['rows'])} claims: {states}", ""]
    for row in summary["rows"]:
        reason = f" ({row['reason']})" if row["reason"] else ""
        lines.append(_line(row, f"{row['claim']}{reason}"))
    lines += ["", "Beyond the paper (ours)", ""]
    asked = ""
    for row in summary["questions"]:
        if row["question"] != asked:
            asked = row["question"]
            lines.append(f"{row['id']:4}{asked}")
        lines.append(_line({**row, "id": ""}, row["part"] or row["note"]))
    return [*lines, "", summary["meaning"]]


def summary_markup(summary: Mapping[str, Any]) -> str:
    """The summary as HTML: counts and what they mean, a table of claims, one of our questions."""
    counts = ", ".join(f"{count} {state}" for state, count in summary["states"].items())
    claims = _linked_table(
        ("Id", "Claim", "State", "Effect", "95 % interval", "Seeds", "Why there is no decision"),
        [
            (row, row["claim"], row["state"], *_texts(row), _seeds(row), row["reason"])
            for row in summary["rows"]
        ],
    )
    questions = _linked_table(
        ("Id", "Question", "What", "State", "Effect", "95 % interval", "Seeds"),
        [
            (row, row["question"], row["part"] or row["note"], row["state"], *_texts(row),
             _seeds(row))
            for row in summary["questions"]
        ],
    )  # fmt: skip
    return (
        f"<section id=claims><h2>The paper's {len(summary['rows'])} claims</h2>"
        f"<p><b>{escape(counts)}</b> at this scale. {escape(summary['meaning'])}</p>{claims}"
        f"<details><summary>Beyond the paper (ours)</summary>{questions}</details></section>"
    )


def _seeds(row: Mapping[str, Any]) -> str:
    return str(row["seeds"]) if row["seeds"] else "–"


def _texts(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_numbers(row["effect"], row["low"], row["high"], row["unit"]).values())


def _linked_table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    """Rows of texts; the first column is the row's id, linked to where it is explained."""
    head = "".join(f'<th scope="col" class=text>{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><td class="text"><a href="{escape(row["link"])}">{escape(row["id"])}</a></td>'
        + "".join(map(data_cell, cells))
        + "</tr>"
        for row, *cells in rows
    )
    return (
        f'<div class="scroll"><table class="data"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _line(row: Mapping[str, Any], text: str) -> str:
    numbers = _numbers(row["effect"], row["low"], row["high"], row["unit"])
    found = f"{numbers['Effect']:>24}  {numbers['95 % interval']:<20}"
    seeds = f"{row['seeds']} seeds" if row["seeds"] != 1 else "1 seed"
    return f"{row['id']:4}{row['state']:13}{found} {seeds:8} {row['link']:42} {text}"
