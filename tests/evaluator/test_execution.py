"""How programs run and end; the many legal styles are the labelled suite's."""

import pytest

from mcbench.evaluator import StdioTest, Submission


def test_five_megabytes_in_and_out(judge):
    text = "0123456789" * 500_000
    result = judge("print(input())", text, text)
    assert (result.verdict, result.strategy) == ("AC", "lines")


def test_values_survive_the_way_there_and_back(call):
    value = (1, {2}, b"x", None, True, {(1, 2): 3}, 2**64, [0.5])
    options = {"checker": lambda expected, actual: actual == value and type(actual) is tuple}
    result = call("def f(a): return a", [value], None, **options)
    assert result.verdict == "AC", result.message


@pytest.mark.parametrize(
    ("code", "verdict", "message"),
    [
        ("print(3); 1/0", "RE", "ZeroDivisionError"),
        ("print(3); import sys; sys.exit(1)", "RE", "exit status 1"),
        ("print(3); import sys; sys.exit('bye')", "RE", "bye"),
        ("print(3); import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "RE", "signal 9"),
        ("print(3); import os; os.abort()", "RE", "signal 6"),
        ("print(3); import ctypes; ctypes.string_at(0)", "RE", "signal 11"),
        ("def f(:", "RE", "SyntaxError"),
        ("print(3); raise KeyboardInterrupt", "RE", "KeyboardInterrupt"),
        ("print(input())", "RE", "EOFError"),
        ("import os; print(3); os._exit(0)", "WA", "expected 1 token"),
        ("\0", "RE", ""),
        ("x = " + "(" * 5000, "RE", ""),
    ],
)
def test_what_a_person_is_told(code, verdict, message, judge):
    result = judge(code, "", "3\n")
    assert result.verdict == verdict
    assert message in result.message


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def g(a): return 1", "'f'"),
        ("def f(): return 1", "TypeError"),
        ("def f(a): return object()", "object"),
        ("import sys; sys.exit(0)", "before the function returned"),
    ],
)
def test_what_a_person_is_told_of_a_call(code, message, call):
    result = call(code, [0], 1)
    assert result.verdict == "RE"
    assert message in result.message


def test_long_strange_source_is_answered(judge):
    assert judge("\udcff\ud800", "", "").verdict == "RE"
    assert judge("-" * 100_000 + "1", "", "").verdict in ("RE", "MLE")


def test_fork_hooks_run_in_a_tests_own_forks_only(judge):
    """random's draws a seed: it would cost every test, and no two would get the same numbers."""
    code = """import os, random
print(random.getstate()[1][:9] == random.Random(0).getstate()[1][:9], flush=True)
state = random.getstate()
if os.fork() == 0:
    print(random.getstate() == state, flush=True)
    os._exit(0)
os.wait()
"""
    result = judge(code, "", "True\nFalse\n")
    assert result.verdict == "AC", result.message


@pytest.mark.parametrize("large", ["inspect", "ast", "asyncio"])
def test_what_is_large_makes_no_fork_dearer(large, judge):
    assert judge(f"import sys\nprint({large!r} in sys.modules)", "", "False").verdict == "AC"


def test_a_program_finds_nothing_of_the_project(judge):
    code = "import sys\nprint(*(name for name in sys.modules if 'mcbench' in name))\n"
    code += "try: import mcbench\nexcept ImportError: print(3)"
    result = judge(code, "", "\n3\n")
    assert (result.verdict, result.strategy) == ("AC", "exact"), result.message


READS_ITSELF = [
    "import sys\nsys.stdout.write(open(sys.argv[0]).read())",
    "print(open(__file__, encoding='utf-8').read())  # é",
    "import inspect\ndef f():\n    return inspect.getsource(f)\nprint(f())",
]


@pytest.mark.parametrize("code", READS_ITSELF)
def test_a_program_finds_itself(code, judge):
    source = code.split("\n", 1)[1].rsplit("\n", 1)[0] if "inspect" in code else code
    assert judge(code, "", source).verdict == "AC"


SPAWNING = """
import multiprocessing
def square(x): return x * x
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool: print(pool.map(square, [3]))
"""


def test_a_spawned_process_imports_the_program(evaluator):
    given = Submission(SPAWNING, [StdioTest("", "[9]")], 20)
    assert evaluator.evaluate([given])[0].verdicts == ["AC"]
