"""The reward function for TRL: 1 when the program in the response passes all tests, else 0."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.evaluator.evaluator import Evaluator
from mcbench.evaluator.extract import extract_code
from mcbench.evaluator.submission import FORMS, Result, Submission, Test, make_test, require, short

_log = logging.getLogger(__name__)
_MOST_SAID = 100  # reasons; a faulty set may have as many as tests
LogExtra = Callable[[str, list[str]], None]
OWN = ("fn_name", "preamble", "time_limit_s", "memory_limit_mb", "checker", "checker_protocol")
"""Columns that a problem may have."""
NO_CODE = "no code"  # stands in for verdicts where the response holds no complete program


class CodeReward:
    """A TRL reward function that judges responses with an `Evaluator`.

    Called with lists of length B (one entry per completion): ``completions`` (text, or messages
    of which the last one's content counts) and the dataset columns ``form`` ("stdin", "call" or
    "assert"), ``fn_name`` and ``tests`` (a list, also as JSON, of {"stdin", "expected"}, {"args",
    "expected"} or {"code", "entry_point", "setup"}, with further options of `StdioTest` and
    `CallTest`), and where a problem has its own ``time_limit_s``, ``memory_limit_mb`` and
    ``preamble`` (code that is run before the program), and ``checker`` with ``checker_protocol``
    (the source of a `CheckerProgram`). Returns B rewards: 1.0 if all tests are
    accepted, 0.0 if not or if there is no complete program, None if our own infrastructure failed:
    TRL leaves such a completion out of its group's mean and deviation and gives it no advantage.

    ``last_verdicts`` holds B strings such as "AC,WA"; TRL logs them as column ``verdicts``.
    With ``early_exit`` (the default: the reward needs no more) they end at the first failure.

    `AsyncCodeReward` is the same for a trainer that runs several reward functions side by side.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        name: str = "code",
        *,
        time_limit_s: float = 2.0,
        memory_limit_mb: float = 512,
        early_exit: bool = True,
        overlap: bool = True,
    ) -> None:
        self.evaluator = evaluator
        self.overlap = overlap
        self.__name__ = name  # the name under which TRL logs the reward
        self.time_limit_s = time_limit_s
        self.memory_limit_mb = memory_limit_mb
        self.early_exit = early_exit
        self.last_verdicts: list[str] = []
        self._started: tuple[dict[int, Submission], Future[list[Result]]] | None = None
        self._background = ThreadPoolExecutor(1)
        self._said: set[str] = set()

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> Any:
        """Score the completions.

        Raises:
            UserError: a column is missing, or a row has no usable tests.
        """
        found = self._programs(completions, columns)
        results = self._judging(found).result()
        return self._rewards(len(completions), found, results, log_extra)

    def start_scoring(self, completions: Sequence[Any], **columns: Any) -> None:
        """Begin to judge in the background; a call with the same completions takes it from here.

        `MicroCoderGRPOTrainer` calls this as soon as it has generated. Does nothing without
        ``overlap``.

        Raises:
            UserError: a column is missing, or a row has no usable tests.
        """
        if self.overlap:
            found = self._programs(completions, columns)
            self._started = found, self._judging(found)

    def _judging(self, found: Mapping[int, Submission]) -> Future[list[Result]]:
        """What `start_scoring` began, if that was for these programs."""
        started, self._started = self._started, None
        if started is not None and started[0] == found:
            return started[1]
        submissions = list(found.values())
        return self._background.submit(
            self.evaluator.evaluate, submissions, early_exit=self.early_exit
        )

    def _programs(
        self, completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> dict[int, Submission]:
        """The submissions in the completions, by place; a place without one has no program."""
        tests, form = columns.get("tests"), columns.get("form")
        if tests is None or form is None:
            raise UserError("the code reward needs the dataset columns tests and form")
        tests = list(tests)  # items of a lazy column are new ones each time, and share their ids
        parsed: dict[tuple[Any, ...], list[Test]] = {}
        found: dict[int, Submission] = {}
        for place, completion in enumerate(completions):
            own = {name: columns[name][place] for name in OWN if columns.get(name) is not None}
            checker = own.get("checker") or "", own.get("checker_protocol") or "score"
            given, row = tests[place], (form[place], own.get("fn_name"), *checker)
            key = given if isinstance(given, str) else id(given), *row
            try:
                if key not in parsed:
                    parsed[key] = parse_tests(given, *row)
                code = extract_code(text_of(completion))
                if code is not None:
                    found[place] = Submission(
                        code,
                        parsed[key],
                        own.get("time_limit_s") or self.time_limit_s,
                        own.get("memory_limit_mb") or self.memory_limit_mb,
                        own.get("preamble") or "",
                    )
            except UserError as error:
                raise UserError(f"row {place} of the batch: {error}") from None
        return found

    def _rewards(
        self,
        count: int,
        found: Mapping[int, Submission],
        results: Sequence[Result],
        log_extra: LogExtra | None,
    ) -> list[float | None]:
        """B = ``count`` rewards, from the results of the submissions that were found."""
        rewards: list[float | None] = [0.0] * count
        verdicts = [NO_CODE] * count
        for place, result in zip(found, results, strict=True):
            verdicts[place] = ",".join(result.verdicts)
            rewards[place] = None if "IE" in result.verdicts else float(result.passed)
            self._say_failures(result)
        self.last_verdicts = verdicts
        if log_extra is not None:
            log_extra("verdicts", verdicts)
        return rewards

    def _say_failures(self, result: Result) -> None:
        """Why there is no verdict, in the log: once for each reason."""
        for test in result.tests:
            new = test.verdict == "IE" and test.message not in self._said
            if new and len(self._said) < _MOST_SAID:
                self._said.add(test.message)
                _log.warning("a response gets no verdict: %s", test.message)


class AsyncCodeReward(CodeReward):
    """`CodeReward` as a coroutine: TRL runs it beside other reward functions, not after them."""

    async def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        log_extra: LogExtra | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Score the completions; see `CodeReward`."""
        found = self._programs(completions, columns)
        results = await asyncio.wrap_future(self._judging(found))
        return self._rewards(len(completions), found, results, log_extra)


def parse_tests(
    given: Any, form: str, fn_name: str | None, checker: str = "", protocol: str = "score"
) -> list[Test]:
    """The tests of a dataset row: JSON, or the list itself, whose empty fields are as if absent.

    Raises:
        UserError: not a list, no tests, a test that lacks a field or has an unknown one.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    try:
        rows = json_value(given) if isinstance(given, str) else given
    except ValueError:
        raise UserError(f"the column tests must hold JSON, got {short(given)}") from None
    listed = rows is not None and not isinstance(rows, (str, int, float, Mapping))
    require(listed, "the column tests must hold a list of tests, as JSON", rows)
    rows = list(rows)
    if not rows:
        raise UserError("a dataset row has no tests; at least one is needed to score a response")
    if not isinstance(given, str):  # columns of a table have all fields of any row
        rows = [_without_empty(row, form) if isinstance(row, Mapping) else row for row in rows]
    tests = []
    for number, row in enumerate(rows):
        try:
            tests.append(make_test(form, fn_name or "", row, checker, protocol))
        except UserError as error:
            raise UserError(f"test {number}: {error}") from None
    return tests


def _without_empty(row: Mapping[str, Any], form: str) -> dict[str, Any]:
    may_be_none = "expected" if form == "call" else ""
    return {key: value for key, value in row.items() if value is not None or key == may_be_none}


def json_value(text: str) -> Any:
    """The value of a JSON text, with integers of any length.

    Raises:
        ValueError: not JSON.
    """
    try:
        return json.loads(text)
    except ValueError:  # also beyond Python's limit on digits
        return json.loads(text, parse_int=lambda digits: int(Decimal(digits)))


_TEXTS = ("text", "output_text")  # kinds of parts


def text_of(completion: Any) -> str:
    """A completion's text, or the content of the last of its messages, in parts or whole."""
    if isinstance(completion, str):
        return completion
    try:
        content = completion[-1]["content"]
        if isinstance(content, (list, tuple)):
            content = "".join(part["text"] for part in content if part.get("type") in _TEXTS)
    except (TypeError, KeyError, IndexError, AttributeError):
        raise UserError("a completion must be text or a list of messages with content") from None
    fits = content is None or isinstance(content, str)
    require(fits, "a message's content must be text or parts with text", content)
    return content or ""
