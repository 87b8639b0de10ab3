"""One programming problem: as every part of mcbench passes it on, and as a source publishes it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import date
from typing import Any, Literal

from mcbench.errors import UserError, unknown

FORMS = ("stdin", "call")
DIFFICULTIES = ("easy", "medium", "hard")

Form = Literal["stdin", "call"]
Difficulty = Literal["easy", "medium", "hard"]


@dataclass(frozen=True)
class Problem:
    """Statement, tests and metadata.

    ``form`` is ``stdin`` (a program reads standard input and prints, as on AtCoder) or ``call``
    (a method ``fn_name`` of ``class Solution``, as on LeetCode). A test has the keys ``stdin`` and
    ``expected``, or ``args`` and ``expected``; ``expected`` never leaves the trusted process.

    Raises:
        UserError: no tests, an unknown form or difficulty, a test that lacks a field.
    """

    id: str
    statement: str
    form: Form
    tests: tuple[dict[str, Any], ...]
    difficulty: Difficulty
    fn_name: str | None = None
    kind: str = ""
    source: str = ""
    reference: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise unknown("problem form", self.form, FORMS)
        if self.difficulty not in DIFFICULTIES:
            raise unknown("difficulty", self.difficulty, DIFFICULTIES)
        if not self.tests:
            raise UserError(f"problem {self.id!r} has no tests; at least one is needed to judge it")
        if self.form == "call" and not self.fn_name:
            raise UserError(f"problem {self.id!r} of form 'call' needs fn_name, the method to call")
        needed = {"stdin", "expected"} if self.form == "stdin" else {"args", "expected"}
        for number, test in enumerate(self.tests):
            if missing := needed - test.keys():
                raise UserError(f"test {number} of problem {self.id!r} lacks {sorted(missing)}")

    def to_row(self) -> dict[str, Any]:
        """A row of the dataset that TRL trains on; the tests travel as one JSON string."""
        return {
            "prompt": self.statement,
            "problem_id": self.id,
            "form": self.form,
            "fn_name": self.fn_name or "",
            "difficulty": self.difficulty,
            "kind": self.kind,
            "tests": json.dumps(list(self.tests)),
        }


# What a source publishes -------------------------------------------------------------------------

RECORD_VERSION = 1
RECORD_FORMS = (*FORMS, "assert")
PROVENANCES = ("", "source", "predicted", "calibrated", "measured")

_INPUT_KEY = {"stdin": "stdin", "call": "args", "assert": "code"}
_OPTIONS = {"expected", "rtol", "atol", "any_order"}
_TEST_KEYS = {
    "stdin": {"stdin", "case_sensitive", "space_sensitive"} | _OPTIONS,
    "call": {"args", "result_arg"} | _OPTIONS,
    "assert": {"code", "entry_point", "setup"},
}

RecordForm = Literal["stdin", "call", "assert"]


@dataclass(frozen=True)
class Rejected:
    """A row of a source that is no problem record: where it is, the rule it broke, and how."""

    id: str
    rule: str
    detail: str


@dataclass(frozen=True)
class ProblemRecord:
    """One problem as a source publishes it, on its way through the pipeline.

    Only ``id``, ``statement`` and ``form`` are needed: what is missing is found out or makes a
    stage drop the record. ``form`` is as in `Problem`, or ``assert``: Python statements that check
    the submission (HumanEval, MBPP).

    A test has the keys ``stdin``, ``args`` (a list) or ``code``, by form; ``expected`` (absent
    when the source does not tell it; ``assert`` has none); and options of the same name of
    `mcbench.evaluator.StdioTest` and `CallTest`. All values are JSON.

    Args:
        id: unique in a build; starts with the name of its source, as in ``taco/train/17``.
        fn_name, starter_code: the method to write and the code that the statement shows, if any.
        checker, checker_language: source of a program that judges answers. It is foreign code: it
            is kept, never run in the trusted process.
        time_limit_s, memory_limit_mb: per test; None when the source does not say.
        date: of publication, ``YYYY-MM-DD``; empty when unknown.
        language: of the statement, ISO 639-1; empty when unknown.
        references: solutions in Python that the source calls right.
        difficulty: easy, medium, hard or empty; ``difficulty_provenance`` says whose word it is:
            the source's, predicted from features, calibrated on pass rates, or measured.
        difficulty_score: predicted, 0 (easy) to 1. ``dimensions`` are the features it is made of.
        pass_rate: of the model that difficulty is calibrated on, measured or estimated, 0 to 1.
        test_strength: share of mutants of a reference solution that the tests kill, 0 to 1.
        flags: rules that found something and kept the record.
        metadata: what else the source says, as JSON.

    Raises:
        UserError: a field of the wrong type or value; the message starts with the id.
    """

    id: str
    statement: str
    form: RecordForm
    tests: tuple[dict[str, Any], ...] = ()
    fn_name: str = ""
    starter_code: str = ""
    checker: str = ""
    checker_language: str = ""
    time_limit_s: float | None = None
    memory_limit_mb: float | None = None
    source: str = ""
    url: str = ""
    date: str = ""
    language: str = ""
    tags: tuple[str, ...] = ()
    licence: str = ""
    references: tuple[str, ...] = ()
    difficulty: str = ""
    difficulty_provenance: str = ""
    difficulty_score: float | None = None
    dimensions: dict[str, float] = field(default_factory=dict)
    pass_rate: float | None = None
    test_strength: float | None = None
    flags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise UserError(f"a problem record needs an id, a text, got {self.id!r}")
        try:
            self._check_types()
            self._check_values()
            self._check_ranges()
            for number, test in enumerate(self.tests):
                _check_test(number, test, self.form)
        except UserError as error:
            raise UserError(f"{self.id}: {error}") from None

    def _check_types(self) -> None:
        for name in _TEXTS:
            value = getattr(self, name)
            if not isinstance(value, str):
                raise UserError(f"{name} must be text, got {type(value).__name__}")
            _check_encodable(name, value)
        for name in _TEXT_LISTS:
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
                raise UserError(f"{name} must be a tuple of texts")
            _check_encodable(name, "".join(value))
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, float)) or value != value):
                raise UserError(f"{name} must be a number or None, got {value!r}")
        if not isinstance(self.metadata, dict) or not isinstance(self.dimensions, dict):
            raise UserError("metadata and dimensions must be dicts")

    def _check_values(self) -> None:
        if self.form not in RECORD_FORMS:
            raise unknown("problem form", self.form, RECORD_FORMS)
        if self.difficulty and self.difficulty not in DIFFICULTIES:
            raise unknown("difficulty", self.difficulty, DIFFICULTIES)
        if self.difficulty_provenance not in PROVENANCES:
            raise unknown("difficulty_provenance", self.difficulty_provenance, PROVENANCES)
        if self.fn_name and not self.fn_name.isidentifier():
            raise UserError(f"fn_name must be a Python name, got {self.fn_name!r}")
        if self.form == "call" and not self.fn_name:
            raise UserError("form 'call' needs fn_name, the method to call")
        if self.date and not _is_date(self.date):
            raise UserError(f"date must be YYYY-MM-DD, got {self.date!r}")

    def _check_ranges(self) -> None:
        for name in ("time_limit_s", "memory_limit_mb"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UserError(f"{name} must be positive and finite, got {value!r}")
        for name in ("difficulty_score", "pass_rate", "test_strength"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise UserError(f"{name} must lie between 0 and 1, got {value!r}")

    def to_row(self) -> dict[str, Any]:
        """A flat row for parquet: tests, dimensions and metadata as JSON text."""
        row: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in _JSON_FIELDS:
            row[name] = json.dumps(row[name], sort_keys=name != "tests", separators=(",", ":"))
        for name in _TEXT_LISTS:
            row[name] = list(row[name])
        return row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> ProblemRecord:
        """The record of a row that `to_row` made.

        Raises:
            UserError: a column is missing or unknown, or a value does not fit.
        """
        names = {f.name for f in fields(cls)}
        if missing := sorted(names - row.keys()):
            raise UserError(f"column {missing[0]!r} is missing; needed: {', '.join(sorted(names))}")
        if extra := sorted(row.keys() - names):
            raise unknown("column", extra[0], names)
        values = dict(row)
        try:
            for name in _JSON_FIELDS:
                values[name] = json.loads(values[name])
            values["tests"] = tuple(values["tests"])
            for name in _TEXT_LISTS:
                values[name] = tuple(values[name])
        except (TypeError, ValueError) as error:
            raise UserError(f"{row.get('id')!r}: column {name} is damaged: {error}") from None
        return cls(**values)

    def to_problem(self) -> Problem:
        """The problem for training and evaluation.

        Raises:
            UserError: no tests, a test without an expected output, no difficulty, form "assert".
        """
        if self.form == "assert":
            raise UserError(
                f"{self.id}: form 'assert' is for benchmarks; Problem takes stdin, call"
            )
        if not self.difficulty:
            raise UserError(f"{self.id}: no difficulty; allowed: {', '.join(DIFFICULTIES)}")
        kept = ("url", "date", "tags", "licence", "time_limit_s", "memory_limit_mb", "starter_code")
        return Problem(
            id=self.id,
            statement=self.statement,
            form=self.form,
            tests=self.tests,
            difficulty=self.difficulty,  # type: ignore[arg-type]  # checked above
            fn_name=self.fn_name or None,
            kind=self.source,
            source=self.source,
            reference=self.references[0] if self.references else "",
            metadata={**self.metadata, **{k: v for k in kept if (v := getattr(self, k))}},
        )


_JSON_FIELDS = ("tests", "dimensions", "metadata")
_TEXT_LISTS = ("tags", "references", "flags")
_NUMBERS = ("time_limit_s", "memory_limit_mb", "difficulty_score", "pass_rate", "test_strength")
_TEXTS = tuple(
    f.name for f in fields(ProblemRecord) if f.name not in (*_JSON_FIELDS, *_TEXT_LISTS, *_NUMBERS)
)


def _check_encodable(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(f"{name} is not valid Unicode (a lone surrogate)") from None


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _check_test(number: int, test: Any, form: str) -> None:
    if not isinstance(test, dict):
        raise UserError(f"test {number} must be a dict, got {type(test).__name__}")
    key = _INPUT_KEY[form]
    if key not in test:
        raise UserError(f"test {number} of form {form!r} lacks {key!r}")
    if extra := sorted(test.keys() - _TEST_KEYS[form]):
        raise unknown(f"field of test {number}", extra[0], _TEST_KEYS[form])
    wanted = list if key == "args" else str
    if not isinstance(test[key], wanted):
        raise UserError(f"{key} of test {number} must be {wanted.__name__}")
    if form == "stdin" and not isinstance(test.get("expected", ""), str):
        raise UserError(f"expected of test {number} must be text")
