"""Verify: references, tests and trivial programs against each other, and mutants."""

import ast
from dataclasses import replace

import pytest

from mcbench.data import Problem
from mcbench.data.audit import StageFailed
from mcbench.data.judge import Judge, accepts, most_trivial
from mcbench.data.mutants import mutants
from mcbench.data.verify import Verify, VerifyConfig
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.evaluator.submission import Result, TestResult

DOUBLE = "n = int(input())\nprint(2 * n + 1)\n"
SLOW = "n = int(input())\nwhile n > 900:\n    pass\nprint(2 * n + 1)\n"
RANDOM = (
    "import os\nn = int(input())\nprint(2 * n + 1 + (n == 3) * int.from_bytes(os.urandom(6)))\n"
)
TESTS = tuple({"stdin": f"{n}\n", "expected": f"{2 * n + 1}\n"} for n in range(1, 7))
CONFIG = VerifyConfig(time_limit_s=0.5)


@pytest.fixture(scope="module")
def judge():
    with Evaluator(workers=2) as evaluator:
        yield Judge(evaluator)


def verify(judge, config=CONFIG, **fields):
    given = {"tests": TESTS, "references": (DOUBLE,), "statement": "s", "form": "stdin", **fields}
    kept, log = Verify(judge, config).run([Problem(id="p", **given)])
    return (kept[0] if kept else None), {(e.rule, e.action): e.detail for e in log}


def test_a_right_problem_passes_unchanged_but_for_its_strength(judge):
    record, log = verify(judge)
    assert (record.tests, record.references) == (TESTS, (DOUBLE,))
    assert record.test_strength == 1
    assert list(log) == [("strength", "change")]
    assert log["strength", "change"].startswith("100% of ")


@pytest.mark.parametrize(
    ("tests", "references", "reason"),
    [
        (({"stdin": "9\n", "expected": "20\n"},), (DOUBLE,), "1 no reference passes"),
        (({"stdin": "999\n", "expected": "1999\n"},), (SLOW,), "1 too slow"),
        (({"stdin": "x\n", "expected": "1\n"},), (DOUBLE,), "1 no reference answers"),
        (({"stdin": "3\n", "expected": "7\n"},), (RANDOM,), "1 flaky"),
    ],
)
def test_tests_that_cannot_be_right_are_dropped(judge, tests, references, reason):
    usable = tuple(test for test in TESTS if test["stdin"] not in [t["stdin"] for t in tests])
    record, log = verify(judge, tests=(*usable, *tests), references=references)
    assert record.tests == usable
    assert log["tests", "change"] == f"dropped {reason}"


@pytest.mark.slow
def test_wrong_references_go_and_without_a_right_one_the_problem(judge):
    wrong = DOUBLE.replace("2 *", "3 *")
    record, log = verify(judge, references=(wrong, DOUBLE))
    assert record.references == (DOUBLE,)
    assert log["references", "change"] == "1 of 2 fail a test"
    for references in ((wrong,), ("import time\nwhile True: pass\n",)):
        record, log = verify(judge, references=references)
        assert record is None
        assert ("wrong_reference", "drop") in log


def test_references_that_are_no_python_do_not_count_and_the_next_are_tried(judge):
    older = "n = input()\nprint 2 * n + 1\n"
    _, log = verify(judge, references=(older, "int main() {}"))
    assert log["no_reference", "drop"].startswith("none of 2 references is Python 3; name a column")
    absent = f"from no_such_module_here import x\n{DOUBLE}"
    _, log = verify(judge, references=(older, absent))
    assert "needs no_such_module_here" in log["missing_module", "drop"]
    wrong = tuple(DOUBLE.replace("2 *", f"{k} *") for k in range(3, 8))
    record, _ = verify(judge, references=(older, *wrong, DOUBLE, "1"))
    assert record.references == (DOUBLE, "1")


@pytest.mark.slow
def test_the_limits_of_a_problem_are_those_its_reference_was_verified_with(judge):
    assert verify(judge)[0].time_limit_s == 0.5
    slow = "import time\nwhile time.process_time() < 0.35: pass\n" + DOUBLE
    record, log = verify(judge, references=(slow,), tests=TESTS[:3])
    assert (record.time_limit_s, record.memory_limit_mb) == (1.0, 512)
    assert "takes 0.4 s" in log["time_limit", "change"]


CHECKER = """import sys
n = int(open(sys.argv[1]).read())
a, b = map(int, {}.split())
{}
"""


@pytest.mark.parametrize(
    ("protocol", "code"),
    [
        ("score", CHECKER.format("open(sys.argv[3]).read()", "print(int(a + b == n))")),
        ("icpc", CHECKER.format("sys.stdin.read()", "sys.exit(42 if a + b == n else 43)")),
    ],
)
def test_a_checker_judges_in_the_sandbox(judge, protocol, code):
    fields = {"checker": code, "checker_language": "python", "checker_protocol": protocol}
    fields["tests"] = tuple({"stdin": f"{n}\n", "expected": f"{n} 0\n"} for n in range(2, 7))
    right = "n = int(input())\nif n > 4:\n    print(1, n - 1)\nelse:\n    print(n - 2, 2)\n"
    record, _ = verify(judge, references=(right,), **fields)
    assert record.tests == fields["tests"]
    assert record.test_strength > 0.5
    assert verify(judge, references=("print(1, 2)",), **fields)[0] is None
    blind = {"score": "print(1)", "icpc": "import sys\nsys.exit(42)"}[protocol]
    assert verify(judge, references=(right,), **fields | {"checker": blind})[1] == {
        ("trivial", "drop"): "an empty program passes every test"
    }
    fields["checker_language"] = "c++"
    assert verify(judge, references=(right,), **fields)[1] == {
        ("checker", "drop"): "its answers need a checker in c++"
    }


def test_references_that_answer_otherwise_show_a_special_judge(judge):
    other = "n = int(input())\nprint(2 * n + (1 if n < 6 else 3))\n"
    record, log = verify(judge, references=(DOUBLE, other))
    assert record.flags == ("special_judge",)
    assert log["special_judge", "flag"] == "a reference gives other answers to 1 of 6 tests"
    config = VerifyConfig(time_limit_s=0.5, special_judges="drop")
    assert verify(judge, config, references=(DOUBLE, other))[0] is None


@pytest.mark.parametrize(
    ("code", "tests", "name"),
    [
        ("print(7)\n", tuple({**t, "expected": "7\n"} for t in TESTS), "a constant program ('7')"),
        (
            "print(input())\n",
            tuple({**t, "expected": t["stdin"]} for t in TESTS),
            "an echo program",
        ),
    ],
)
def test_problems_that_trivial_programs_solve_are_dropped(judge, code, tests, name):
    record, log = verify(judge, references=(code,), tests=tests)
    assert record is None
    assert log["trivial", "drop"] == f"{name} passes every test"


def test_a_test_that_the_empty_program_passes_is_dropped(judge):
    code = "n = int(input())\nif n > 2:\n    print(2 * n + 1)\n"
    tests = ({"stdin": "1\n", "expected": "\n"}, *TESTS[2:])
    record, log = verify(judge, references=(code,), tests=tests)
    assert record.tests == TESTS[2:]
    assert log["tests", "change"] == "dropped 1 an empty program passes"


def test_tests_that_notice_no_mistake_make_a_problem_weak(judge):
    code = "n = int(input())\nif n < 5:\n    print(n + 1)\nelif n < 9:\n    print(n * n - 3)\n" * 1
    code += "elif n < 20:\n    print(n - 4 if n % 3 else n * 2)\nelse:\n    print(n // 3 * 7)\n"
    tests = tuple({"stdin": f"{n}\n", "expected": f"{n + 1}\n"} for n in (-3, -2, -1))
    record, log = verify(judge, references=(code,), tests=tests)
    assert record is None
    assert "mutants are noticed" in log["weak_tests", "drop"]
    record, _ = verify(judge, VerifyConfig(min_strength=0), references=(code,), tests=tests)
    assert record.test_strength < 0.4


def test_methods_with_values(judge):
    code = "class Solution:\n    def add(self, a, b):\n        return [a + b, None]\n"
    tests = tuple({"args": [a, 5], "expected": [a + 5, None]} for a in range(4))
    record, _ = verify(judge, form="call", fn_name="add", references=(code,), tests=tests)
    assert record.tests == tests


def test_assertions(judge):
    code = "def triple(n):\n    return n * 3 if n > 0 else 0\n"
    tests = tuple(
        {"code": f"assert triple({n}) == {max(3 * n, 0)}", "entry_point": "triple"}
        for n in (-1, 1, 2, 5)
    )
    wrong = {"code": "assert triple(7) == 22"}
    record, log = verify(judge, form="assert", tests=(*tests, wrong), references=(code,))
    assert record.tests == tests
    assert log["tests", "change"] == "dropped 1 no reference passes"
    assert record.test_strength >= 0.8


def test_what_cannot_be_verified_says_so(judge):
    log = verify(judge, references=())[1]
    assert "or verify: {without_reference: flag}" in log["no_reference", "drop"]
    record, _ = verify(judge, VerifyConfig(without_reference="flag"), references=())
    assert record.flags == ("unverified",)


class Failing:
    """An evaluator that fails on programs with a word in them, the first ``times`` times."""

    def __init__(self, evaluator, word, times):
        self.evaluator, self.word, self.times = evaluator, word, times

    def evaluate(self, submissions, early_exit=False):
        failed = Result((TestResult("IE", message="out of processes", lost=True),) * len(TESTS))
        found = self.evaluator.evaluate(submissions, early_exit)
        fails = self.times > 0
        self.times -= 1
        return [
            failed if fails and self.word in s.code else r
            for s, r in zip(submissions, found, strict=True)
        ]


def test_a_failing_evaluator_is_no_reason_to_call_a_problem_wrong(judge):
    good, other = (Problem(i, "s", "stdin", TESTS, references=(DOUBLE + f"# {i}\n",))
                   for i in ("good", "other"))  # fmt: skip
    once = Verify(Judge(Failing(judge.evaluator, "# good", 1)), CONFIG)
    assert [record.id for record in once.run([good, other])[0]] == ["good", "other"]
    always = Verify(Judge(Failing(judge.evaluator, "# good", 99)), CONFIG)
    kept, log = always.run([good, other])
    assert [record.id for record in kept] == ["other"]
    assert (log[0].rule, log[0].detail) == (
        "not_judged", "the evaluator itself failed twice: out of processes"
    )  # fmt: skip
    with pytest.raises(StageFailed, match="failed on all of 2 programs"):
        always.run([good])


def test_a_problem_that_the_evaluator_refuses_costs_itself_alone(judge):
    good = Problem("good", "s", "stdin", TESTS, references=(DOUBLE,))
    bad = replace(good, id="bad", memory_limit_mb=268435456)
    kept, log = Verify(judge, CONFIG).run([bad, good])
    assert [record.id for record in kept] == ["good"]
    assert (log[0].record, log[0].rule) == ("bad", "malformed")
    assert "memory_limit_mb must be a number above 0" in log[0].detail


def test_a_real_number_answers_a_whole_one_where_the_problem_s_answers_are_real(judge):
    pairs = [("6 2", "3"), ("8 2", "4"), ("9 3", "3"), ("1 2", "0.5"), ("4 2", "2"), ("7 2", "3.5")]
    tests = tuple({"stdin": f"{given}\n", "expected": f"{answer}\n"} for given, answer in pairs)
    divides = "a, b = map(int, input().split())\nprint(a / b)\n"
    record, _ = verify(judge, tests=tests, references=(divides,))
    assert record.tests == tests


ASSERTED = tuple(
    {"code": f"assert double({n}) == {2 * n}", "entry_point": "double"} for n in range(5)
)
UNRUNNABLE = {"code": "import no_such_module\nassert double(1)", "entry_point": "double"}


def test_a_test_that_fails_itself_goes_and_is_no_failure_of_the_evaluator(judge):
    doubles = {"form": "assert", "references": ("def double(n):\n    return 2 * n\n",)}
    record, log = verify(judge, tests=(*ASSERTED, UNRUNNABLE), **doubles)
    assert record.tests == ASSERTED
    assert log["tests", "change"] == "dropped 1 fails itself"
    record, log = verify(judge, tests=(UNRUNNABLE,) * 3, **doubles)
    assert record is None
    assert log["faulty_tests", "drop"].startswith("3 of 3 tests fail themselves: ")


def test_a_problem_that_loses_most_of_its_tests_is_dropped(judge):
    silent = "n = input()\nif n.isdigit():\n    print(2 * int(n) + 1)\n"
    tests = (*TESTS[:4], *({"stdin": "x\n", "expected": "\n"} for _ in range(5)))
    record, log = verify(judge, tests=tests, references=(silent,))
    assert record is None
    assert log["unreliable", "drop"] == "tests dropped: 5 an empty program passes"
    record, log = verify(judge, VerifyConfig(min_tests=9))
    assert ("too_few_tests", "drop") in log


# Parts -------------------------------------------------------------------------------------------


def test_mutants_differ_in_one_place_and_are_always_the_same():
    code = "n = int(input())\nif n < 3 and n != 1:\n    print(n + 2)\n"
    found = mutants(code, 100)
    assert found == mutants(code, 100)
    assert len(found) == len(set(found)) >= 10
    assert mutants(code, 3) == found[:3]
    original = ast.unparse(ast.parse(code)).split("\n")
    for text in found:
        lines = text.rstrip("\n").split("\n")
        assert sum(a != b for a, b in zip(original, lines, strict=True)) == 1
    assert mutants("def", 5) == []


def test_comparison_follows_the_tests_own_options():
    test = {"stdin": "1", "expected": "0.5", "rtol": 0.1}
    assert accepts(test, "0.5", "0.52")
    assert not accepts({**test, "rtol": 0.001}, "0.5", "0.52")
    assert not accepts({"args": [1], "expected": "a"}, "a", ["a"])


def test_the_most_trivial_program():
    tests = tuple({"args": [n], "expected": n // 9} for n in range(12))
    record = Problem("p", "s", "call", tests, "f")
    assert most_trivial(record) == ("a constant program ('0')", 0.75)


@pytest.mark.parametrize(
    "options", [{"repeats": 0}, {"min_strength": 2}, {"mutants": -1},
                {"without_reference": "keep"}],
)  # fmt: skip
def test_impossible_settings_are_refused(options):
    with pytest.raises(UserError):
        VerifyConfig(**options)


def test_what_is_known_of_a_batch_does_not_outlast_an_installation(judge, tmp_path, monkeypatch):
    before = Verify(judge).key
    (tmp_path / "extra-1.0.dist-info").mkdir()
    (tmp_path / "extra-1.0.dist-info" / "METADATA").write_text("Name: extra\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert Verify(judge).key != before


def test_a_reference_that_is_nested_deep_or_imports_main_costs_nothing(judge):
    chain = "".join(f"elif n == {n}:\n    print({2 * n + 1})\n" for n in range(200))
    deep = f"import __main__\nn = int(input())\nif n < 0:\n    pass\n{chain}"
    assert mutants(deep, 5) == []
    record, log = verify(judge, references=(deep,))
    assert record.tests == TESTS
    assert ("no_mutants", "flag") in log


def test_a_test_that_goes_for_its_time_raises_no_limit(judge):
    tests = (*TESTS, {"stdin": "999\n", "expected": "1999\n"})
    record, log = verify(judge, tests=tests, references=(SLOW,))
    assert (record.tests, record.time_limit_s) == (TESTS, 0.5)
    assert ("time_limit", "change") not in log
