"""A programming problem: one type from the published row to the training batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import AfterValidator, Field, create_model

from mcbench.errors import UserError, unknown
from mcbench.evaluator.submission import CHECKER_PROTOCOLS, Submission, make_test
from mcbench.settings import Settings, Share

Form = Literal["stdin", "call", "assert"]
Difficulty = Literal["easy", "medium", "hard"]
Provenance = Literal["", "source", "predicted", "calibrated", "measured"]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]

DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("not valid Unicode (a lone surrogate)") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]

INPUT_KEY: dict[Form, str] = {"stdin": "stdin", "call": "args", "assert": "code"}
_OPTIONS = {"expected", "rtol", "atol", "any_order"}
_TEST_KEYS = {
    "stdin": {"stdin", "case_sensitive", "space_sensitive", "checker_args"} | _OPTIONS,
    "call": {"args", "result_arg"} | _OPTIONS,
    "assert": {"code", "entry_point", "setup"},
}


@dataclass(frozen=True)
class Rejected:
    """A row of a source that is no problem: where it is, the rule it broke, and how."""

    id: str
    rule: str
    detail: str


@dataclass(frozen=True)
class Problem:
    """Statement, tests and what else is known.

    Only ``id``, ``statement`` and ``form`` are needed: what is missing is found out or makes a
    stage of the pipeline drop the problem. `unjudged` says whether programs can be judged.

    ``form`` is ``stdin`` (a program reads standard input and prints, as on AtCoder), ``call`` (a
    method ``fn_name`` of ``class Solution``, as on LeetCode) or ``assert`` (Python statements that
    check the submission, as in HumanEval and MBPP).

    A test has the keys ``stdin``, ``args`` (a list) or ``code``, by form; ``expected``, which
    ``assert`` has none of; and options of the same name of
    `mcbench.evaluator.StdioTest` and `CallTest`. All values are JSON. ``expected`` never leaves
    the trusted process.

    Args:
        id: unique in a set; starts with the name of its source, as in ``taco/train/17``.
        fn_name, starter_code: the method to write and the code that the statement shows, if any.
        preamble: Python that is run before a submission: what HumanEval's prompt defines.
        checker, checker_language, checker_protocol: source of a program that judges answers, and
            how it is called (`mcbench.evaluator.CheckerProgram`). It is foreign code: it runs in a
            sandbox, where it is in Python; a problem with another is not judged at all.
        time_limit_s, memory_limit_mb: per test; None when the source does not say.
        kind: sort of problem within its source: a platform, or induced and described in nano.
        date: of publication, ``YYYY-MM-DD``; empty when unknown.
        language: of the statement, ISO 639-1; empty when unknown.
        references: solutions in Python that the source calls right.
        difficulty: easy, medium, hard or empty; ``difficulty_provenance`` says whose word it is:
            the source's, predicted from features, calibrated on pass rates, or measured.
        difficulty_score: predicted, 0 (easy) to 1. ``dimensions`` are the features it is made of.
        pass_rate: of the model that difficulty is calibrated on, measured or estimated, 0 to 1.
        test_strength: share of mutants of a reference solution that the tests kill, 0 to 1.
        flags: rules that found something and kept the problem.
        metadata: what else the source says, as JSON.

    Raises:
        UserError: a field of the wrong type or value; the message starts with the id.
    """

    id: Text
    statement: Text
    form: Form
    tests: tuple[dict[str, Any], ...] = ()
    fn_name: Text = ""
    starter_code: Text = ""
    preamble: Text = ""
    checker: Text = ""
    checker_language: Text = ""
    checker_protocol: Text = ""
    time_limit_s: Limit | None = None
    memory_limit_mb: Limit | None = None
    source: Text = ""
    kind: Text = ""
    url: Text = ""
    date: Text = ""
    language: Text = ""
    tags: tuple[Text, ...] = ()
    licence: Text = ""
    references: tuple[Text, ...] = ()
    difficulty: Literal["", Difficulty] = ""
    difficulty_provenance: Provenance = ""
    difficulty_score: Share | None = None
    dimensions: dict[str, float] = field(default_factory=dict)
    pass_rate: Share | None = None
    test_strength: Share | None = None
    flags: tuple[Text, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise UserError(f"a problem needs an id, a text, got {self.id!r}")
        try:
            _Fields(**vars(self))
            self._check_values()
            for number, test in enumerate(self.tests):
                _check_test(number, test, self.form)
        except UserError as error:
            raise UserError(f"{self.id}: {error}") from None

    def _check_values(self) -> None:
        """What their types do not tell."""
        if self.fn_name and not self.fn_name.isidentifier():
            raise UserError(f"fn_name must be a Python name, got {self.fn_name!r}")
        if self.form == "call" and not self.fn_name:
            raise UserError("form 'call' needs fn_name, the method to call")
        if self.date and not is_date(self.date):
            raise UserError(f"date must be YYYY-MM-DD, got {self.date!r}")

    def unjudged(self) -> str:
        """Why programs for this problem cannot be judged; empty where they can."""
        if not self.tests:
            return "it has no tests; at least one is needed to judge it"
        if self.checker and not self.runs_checker:
            return f"its answers need a checker in {self.checker_language or 'no known language'}"
        return ""

    @property
    def runs_checker(self) -> bool:
        """Whether it has a checker that the evaluator can run."""
        known = self.checker_protocol in CHECKER_PROTOCOLS and self.form == "stdin"
        return bool(self.checker) and known and self.checker_language == "python"

    def submission(
        self,
        code: str,
        time_limit_s: float = 2.0,
        memory_limit_mb: float = 512,
        tests: Sequence[Mapping[str, Any]] | None = None,
    ) -> Submission:
        """A program for the evaluator, with all tests of the problem or those that are given; the
        limits are for a problem that sets none.
        """
        checker = self.checker, self.checker_protocol
        given = self.tests if tests is None else tests
        return Submission(
            code,
            [make_test(self.form, self.fn_name, test, *checker) for test in given],
            self.time_limit_s or time_limit_s,
            self.memory_limit_mb or memory_limit_mb,
            self.preamble,
        )

    def to_row(self) -> dict[str, Any]:
        """What decides how programs are rewarded, as columns of a data set that TRL trains on.

        The tests travel as one JSON string. What `OPTIONAL` names is there where it is set.
        """
        row = {
            "prompt": self.statement,
            "problem_id": self.id,
            "form": self.form,
            "fn_name": self.fn_name,
            "difficulty": self.difficulty,
            "kind": self.kind,
            "tests": json.dumps(list(self.tests)),
        }
        return row | {name: value for name in OPTIONAL if (value := getattr(self, name))}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Problem:
        """A problem from JSON data: lists become tuples, null is a value that is not given.

        Raises:
            UserError: an unknown or missing field, or a value that does not fit.
        """
        if extra := sorted(row.keys() - _TYPES):
            raise unknown("field", extra[0], _TYPES)
        if missing := [name for name in ("id", "statement", "form") if row.get(name) is None]:
            raise UserError(f"a problem needs {missing[0]}")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in row.items()
            if value is not None
        }
        return cls(**values)


OPTIONAL = ("time_limit_s", "memory_limit_mb", "preamble", "checker", "checker_protocol")
"""Columns of a row that not every problem has."""
JSON_FIELDS = ("tests", "dimensions", "metadata")
TEXT_LISTS = ("tags", "references", "flags")
NUMBERS = ("time_limit_s", "memory_limit_mb", "difficulty_score", "pass_rate", "test_strength")
_TYPES = get_type_hints(Problem, include_extras=True)
_given: dict[str, Any] = {name: (kind, ...) for name, kind in _TYPES.items()}
_Fields = create_model("_Fields", __base__=Settings, **_given)


def is_date(text: str) -> bool:
    """Whether a text is a date, written YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _check_test(number: int, test: dict[str, Any], form: Form) -> None:
    key = INPUT_KEY[form]
    if key not in test:
        raise UserError(f"test {number} of form {form!r} lacks {key!r}")
    if extra := sorted(test.keys() - _TEST_KEYS[form]):
        raise unknown(f"field of test {number}", extra[0], _TEST_KEYS[form])
    wanted = list if key == "args" else str
    if not isinstance(test[key], wanted):
        raise UserError(f"{key} of test {number} must be {wanted.__name__}")
    if form != "assert" and "expected" not in test:
        raise UserError(f"test {number} lacks 'expected'")
    if form == "stdin" and not isinstance(test["expected"], str):
        raise UserError(f"expected of test {number} must be text")
