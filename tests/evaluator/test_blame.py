"""Who is at fault, and where: the submission, the test or the checker."""

import pytest

from mcbench.errors import UserError
from mcbench.evaluator import AssertTest, CallTest, CheckerProgram, StdioTest, Submission

BROKEN = [
    ("x = 1\ndef f(x):\n    retrn x y", "SyntaxError: invalid syntax", "(line 3: retrn x y)"),
    ("import no_such_module", "ModuleNotFoundError: No module", "(line 1: import no_such_module)"),
    ("\nprint(missing)", "NameError: name 'missing' is not defined", "(line 2: print(missing))"),
]


@pytest.mark.parametrize(("code", "error", "place"), BROKEN)
def test_an_error_of_the_submission_is_shown_with_its_line(code, error, place, evaluator):
    tests = [StdioTest("", ""), CallTest("f", [1], 1), AssertTest("assert f(1) == 1")]
    for result in evaluator.evaluate([Submission(code, tests)])[0].tests:
        assert result.verdict == "RE", result
        assert error in result.message, result
        assert result.message.endswith(place), result


def test_an_error_in_a_call_is_shown_with_its_line(evaluator):
    code = "def f(x):\n    y = x\n    return z"
    (result,) = evaluator.evaluate([Submission(code, [AssertTest("assert f(1) == 1")])])[0].tests
    assert result.message == "NameError: name 'z' is not defined (line 3 of the submission)"


FAULTS = [
    ("import no_such_module\nassert f(1) == 1", "No module named 'no_such_module' (import no_such"),
    ("assert f(1) == 1\nimport no_such_module", "No module named 'no_such_module'"),
    ("assert 1 == 2\nassert f(1) == 1", "AssertionError (assert 1 == 2)"),
    ("x = [][0]\nassert f(1) == 1", "IndexError: list index out of range (x = [][0])"),
    ("def test_f(caplog): assert f(1) == 1", "the fixture 'caplog' is not available"),
    ("import pytest\ndef test_f():\n  with pytest.warns(Warning): f(1)", "pytest.warns is not"),
    (
        "import pytest\nf(1)\n@pytest.mark.parametrize('a, b', [1])\n"
        "def test_f(a, b): assert f(a) == b",
        "pytest cannot collect it: test.py::test_f: in",
    ),
]


@pytest.mark.parametrize(("test", "message"), FAULTS)
@pytest.mark.parametrize("code", ["def f(x): return x", "f = lambda x: x"])
def test_a_fault_of_the_test_is_no_verdict_on_the_submission(test, message, code, evaluator):
    (result,) = evaluator.evaluate([Submission(code, [AssertTest(test)])])[0].tests
    assert result.verdict == "IE", result
    assert result.message.startswith("the test itself failed: ")
    assert message in result.message, result


LACKING = [
    ("x = 1", "assert f(1) == 1"),
    ("x = 1", "import solution\nassert hasattr(solution, 'f')\nassert solution.f(1) == 1"),
    ("x = 1", "from solution import f\ndef test_f(): assert f(1) == 1"),
    ("x = 1", "try:\n  from solution import f\nexcept ImportError:\n  f = None\nassert f"),
    ("x = 1", "try:\n  f\nexcept NameError:\n  assert False\nassert f(1) == 1"),
    ("def f(): raise ModuleNotFoundError('x')", "f()"),
    ("def f(): return ModuleNotFoundError('x')", "raise f()"),
    ("def f(): import no_such_module", "f()"),
    ("f = 3", "assert isinstance(f, str)"),
]


@pytest.mark.parametrize(("code", "test"), LACKING)
def test_what_the_submission_lacks_or_raises_is_no_fault_of_the_test(code, test, evaluator):
    (result,) = evaluator.evaluate([Submission(code, [AssertTest(test)])])[0].tests
    assert result.verdict in ("RE", "WA"), result


def test_a_checker_that_is_no_python_is_refused():
    with pytest.raises(UserError, match=r"the checker is not Python: .*line 1"):
        StdioTest("", "1", checker=CheckerProgram("def ("))


def test_a_checker_that_says_neither_right_nor_wrong_is_at_fault(evaluator):
    given = Submission("print(2)", [StdioTest("", "1", checker=lambda e, a: (e == a, "told"))])
    result = evaluator.evaluate([given])[0].tests[0]
    assert (result.verdict, "neither right nor wrong" in result.message) == ("IE", True)


def test_a_checker_that_fails_on_the_expected_answer_too_shows_its_error(evaluator):
    checker = CheckerProgram("import sys\nprint(open(sys.argv[3]).read() / 2)")
    given = Submission("print(1)", [StdioTest("", "1", checker=checker)])
    (result,) = evaluator.evaluate([given])[0].tests
    assert result.verdict == "IE"
    assert "TypeError: unsupported operand" in result.message


def test_a_stand_in_for_an_answer_does_not_excuse_what_makes_a_checker_fail(evaluator):
    checker = CheckerProgram("import sys\nprint(int(int(open(sys.argv[3]).read()) == 7))")
    given = [Submission(f"print({x})", [StdioTest("", "", checker=checker)]) for x in (7, "'x'")]
    assert [result.verdicts for result in evaluator.evaluate(given)] == [["AC"], ["WA"]]


@pytest.mark.parametrize(
    ("checker", "verdict"),
    [
        (lambda expected, actual: no_such_name, "IE"),  # noqa: F821
        (lambda expected, actual: actual[0] == 1, "IE"),
        (lambda answer: True, "IE"),
        (lambda expected, actual: 1 / (actual - 1), "WA"),
        (lambda expected, actual: actual == expected or no_such_name, "WA"),  # noqa: F821
    ],
)
def test_a_function_that_cannot_run_is_at_fault_itself(checker, verdict, evaluator):
    given = Submission("def f(x): return x", [CallTest("f", [1], 2, checker=checker)])
    assert evaluator.evaluate([given])[0].verdicts == [verdict]


def test_a_file_that_grows_too_large_in_a_call_is_over_the_output_limit(evaluator):
    code = "def f(x):\n    open('big', 'w').write('x' * (20 << 20))"
    assert evaluator.evaluate([Submission(code, [AssertTest("f(1)")])])[0].verdicts == ["OLE"]


PREAMBLES = [
    ("raise ValueError('x')", "print(1)", StdioTest("", "1"), "IE"),
    ("import no_such_module", "def f(x): return x", CallTest("f", [1], 1), "IE"),
    ("raise SystemExit(3)", "def f(x): return x", AssertTest("assert f(1) == 1"), "IE"),
    ("def g(x): return 1 / x", "print(g(0))", StdioTest("", "1"), "RE"),
]


@pytest.mark.parametrize(("preamble", "code", "test", "verdict"), PREAMBLES)
def test_a_preamble_that_fails_by_itself_is_at_fault(preamble, code, test, verdict, evaluator):
    (result,) = evaluator.evaluate([Submission(code, [test], preamble=preamble)])[0].tests
    assert result.verdict == verdict, result
    assert ("the problem's preamble fails" in result.message) == (verdict == "IE")


# What a submission does at once, so that a test fails before it asks anything.
SABOTAGE = [
    ("import os\nos.chmod('.', 0)", "open('x', 'w')"),
    ("import os\nos.mkdir('out')", "import os\nos.mkdir('out')"),
    (
        "for i in range(9):\n  try: open(str(i), 'wb').write(bytes(15 << 20))\n  except OSError: 0",
        "open('x', 'w').write('x' * 10**6)",
    ),
]


@pytest.mark.parametrize(("code", "test"), SABOTAGE)
def test_a_test_that_the_submission_makes_fail_is_not_at_fault(code, test, evaluator):
    # To look up a name is no question, and waits until the submission is defined.
    waiting = "import solution\ntry: solution.ready\nexcept AttributeError: 0\n"
    test = AssertTest(f"{waiting}{test}\nassert f(1) == 1")
    code = f"{code}\ndef f(x): return 0\ndef ready(): 0"
    (result,) = evaluator.evaluate([Submission(code, [test], 5)])[0].tests
    assert result.verdict == "RE", result


def test_collection_that_the_submission_makes_fail_is_its_fault(evaluator):
    test = "import pytest\n@pytest.mark.parametrize('x', [1], ids=f)\ndef test_a(x): assert f(x)"
    for code, verdict in (("def f(x): raise ValueError", "RE"), ("def f(x): return 'a'", "AC")):
        assert evaluator.evaluate([Submission(code, [AssertTest(test)])])[0].verdicts == [verdict]
