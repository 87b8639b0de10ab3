"""One evaluator for all tests of this folder, and short ways to ask it."""

from collections.abc import Callable, Iterator

import pytest

from mcbench.evaluator import CallTest, Evaluator, StdioTest, Submission, TestResult

Judge = Callable[..., TestResult]


@pytest.fixture(scope="session")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(workers=2) as shared:
        yield shared


@pytest.fixture
def judge(evaluator: Evaluator) -> Judge:
    """judge(code, stdin, expected, **limits): one stdin/stdout test."""

    def run(code: str, stdin: str = "", expected: str = "", **limits: float) -> TestResult:
        submission = Submission(code, [StdioTest(stdin, expected)], **limits)
        return evaluator.evaluate([submission])[0].tests[0]

    return run


@pytest.fixture
def call(evaluator: Evaluator) -> Judge:
    """call(code, args, expected, **test_options): one call of the function f."""

    def run(code: str, args: list, expected: object, **options: object) -> TestResult:
        submission = Submission(code, [CallTest("f", args, expected, **options)])
        return evaluator.evaluate([submission])[0].tests[0]

    return run
