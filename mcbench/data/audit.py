"""The audit log: what a rule did to a record and why, and the funnel counted from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import pyarrow as pa

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator.submission import printable

Action = Literal["keep", "change", "drop", "flag"]
_DETAIL, _EXCERPT = 300, 160  # characters kept


@dataclass(frozen=True)
class AuditEntry:
    """One thing a rule did.

    ``keep`` is written where there was a choice (one of several near-duplicates); ``excerpt`` is
    the beginning of the statement of a dropped record.
    """

    record: str
    stage: str
    rule: str
    action: Action
    detail: str
    excerpt: str = ""


SCHEMA = pa.schema([(field.name, pa.string()) for field in fields(AuditEntry)])


class Ledger:
    """Collects the entries of one stage over one batch."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.entries: list[AuditEntry] = []

    def _add(self, record: str, rule: str, action: Action, detail: str, text: str = "") -> None:
        entry = AuditEntry(record, self.stage, rule, action, shorten(detail, _DETAIL), text)
        self.entries.append(entry)

    def keep(self, record: Problem, rule: str, detail: str) -> Problem:
        """Note why a record was preferred."""
        self._add(record.id, rule, "keep", detail)
        return record

    def change(self, record: Problem, rule: str, detail: str, **values: Any) -> Problem:
        """The record with ``values`` replaced."""
        self._add(record.id, rule, "change", detail)
        return replace(record, **values)

    def flag(self, record: Problem, rule: str, detail: str) -> Problem:
        """The record with ``rule`` among its flags."""
        self._add(record.id, rule, "flag", detail)
        if rule in record.flags:
            return record
        return replace(record, flags=(*record.flags, rule))

    def drop(self, record: Problem, rule: str, detail: str) -> Problem | None:
        """Drop the record: a rule returns this, which is None."""
        self._add(record.id, rule, "drop", detail, shorten(record.statement, _EXCERPT))
        return None

    def reject(self, name: str, rule: str, detail: str) -> None:
        """Drop something that never became a record."""
        self._add(printable(name), rule, "drop", detail)


class StageFailed(UserError):
    """The stage cannot go on, whatever the record: ends the build, which can be resumed."""


Rule = Callable[[Problem, Ledger], Problem | None]


# What foreign text does to parsers; anything else is our own mistake and ends the build.
_FOREIGN = (ValueError, LookupError, RecursionError, OverflowError, AssertionError)


def apply_rules(
    stage: str, batch: Sequence[Problem], rules: Sequence[tuple[str, Rule]]
) -> tuple[list[Problem], list[AuditEntry]]:
    """Run named rules over records in order; a rule that returns None has dropped the record.

    A rule that fails on a record (foreign text can exhaust a parser's recursion) drops that record
    and no other.
    """
    ledger = Ledger(stage)
    kept = []
    for record in batch:
        for name, rule in rules:
            try:
                changed = rule(record, ledger)
            except StageFailed:
                raise
            except _FOREIGN as error:
                changed = ledger.drop(record, name, f"failed: {type(error).__name__}: {error}")
            if changed is None:
                break
            record = changed
        else:
            kept.append(record)
    return kept, ledger.entries


def shorten(text: str, limit: int = 80) -> str:
    """One line of at most ``limit`` characters that any file can hold and any terminal show."""
    line = printable(" ".join(text[: 4 * limit].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def to_table(entries: Iterable[AuditEntry]) -> pa.Table:
    """Entries as an arrow table."""
    return pa.Table.from_pylist([asdict(entry) for entry in entries], schema=SCHEMA)
