"""Assert-style tests: the verdict is the test's own process', whatever the submission does."""

from pathlib import Path

import pytest

from mcbench.errors import UserError
from mcbench.evaluator import AssertTest, CallTest, StdioTest, Submission


def verdict_of(evaluator, code, test, **settings):
    test = AssertTest(test, **settings)
    limit = 0.5 if "while True" in code else 5
    result = evaluator.evaluate([Submission(code, [test], time_limit_s=limit)])[0].tests[0]
    return result.verdict, result.message


POINT = "class P:\n def __init__(s, x): s.x = x\n"
RIGHT = [
    ("def f(a): return a + 1", "assert f(1) == 2"),
    ("def f(a): return a + 1", "def check(candidate):\n  assert candidate(1) == 2\ncheck(f)"),
    ("def f(a, b=2, *, c=0): return (a, [b, {c}])", "assert f(1, c=3) == (1, [2, {3}])"),
    ("def f(a): return complex(a, 2)", "assert f(1) == 1 + 2j"),
    ("def f(a): return 0.1 + 0.2", "assert abs(f(0) - 0.3) < 1e-9"),
    ("def f(a): return 0.5", "assert math.isclose(f(1), 0.5)"),
    ("def f(a): a.append(3); a.sort()", "a = [7]\nf(a)\nassert a == [3, 7]"),
    ("def f(d): d['x'] = [1]", "d = {'y': 0}\nf(d)\nassert d == {'y': 0, 'x': [1]}"),
    (f"{POINT}def f(ps): return [p.x for p in ps]", "assert f([P(1), P(2)]) == [1, 2]"),
    (f"{POINT}def f(p): return p.next.x", "p = P(1)\np.next = P(4)\nassert f(p) == p.next.x == 4"),
    ("def f(n):\n for i in range(n): yield i", "assert list(f(3)) == [0, 1, 2]"),
    ("def f(g): return g(2)", "assert f(lambda x: x + 1) == 3"),
    ("def f(a): raise ValueError('no')", "try: f(1)\nexcept ValueError: ok = 1\nassert ok"),
    ("class E(Exception): pass\ndef f(a): raise E", "try: f(1)\nexcept Exception: ok = 1\nok"),
    ("import numpy as np\ndef f(a): return np.array(a) + 1", "assert list(f([1])) == [2]"),
    ("def f(a): print(a); return a", "print(f(1))\nassert f(1) == 1"),
    ("def g(a): return a\ndef f(a): return g(a)", "assert f(1) == 1 and g(2) == 2"),
]


@pytest.mark.parametrize(("code", "test"), RIGHT)
def test_right(code, test, evaluator):
    assert verdict_of(evaluator, code, test) == ("AC", "")


KILLER = """
import os
def f(a):
    for pid in range(2, 9999):
        try:
            pid == os.getpid() or os.kill(pid, 9)
        except OSError:
            pass
    return 3
"""
WRONG = [
    ("def f(a): return a", "assert f(1) == 2, 'one'", "WA", "AssertionError: one (assert f(1) =="),
    ("def f(a): return None", "assert abs(f(1)) == 2", "RE", "TypeError"),
    ("def f(a): return 1 / 0", "assert f(1) == 2", "RE", "ZeroDivisionError: division by zero"),
    ("def f(a): assert False", "assert f(1) == 2", "RE", "AssertionError"),
    ("def g(a): return 2", "assert f(1) == 2", "RE", "name 'f' is not defined"),
    ("def f(:", "assert f(1) == 2", "RE", ""),
    ("def f(a):\n while True: pass", "assert f(1) == 2", "TLE", "CPU time"),
    ("def f(a): return bytearray(900 << 20)", "assert f(1) == 2", "MLE", ""),
    # The verdict cannot be forged.
    ("import os; os._exit(0)", "assert f(1) == 2", "RE", ""),
    ("def f(a):\n import sys; sys.exit(0)", "assert f(1) == 2", "RE", "ended before it answered"),
    ("class E:\n __eq__ = lambda s, o: True\ndef f(a): return E()", "assert f(1) == 2", "WA", ""),
    (
        "import math\nmath.isclose = lambda *a: True\ndef f(a): return 6",
        "assert math.isclose(f(1), 5)",
        "WA",
        "",
    ),
    ("abs = lambda a: 2\ndef f(a): return a", "assert abs(f(1)) == 2", "WA", ""),
    ("check = print\ndef f(a): return a", "def check(f): assert f(1) == 2\ncheck(f)", "WA", ""),
    ("def f(g): return g.__globals__", "assert f(lambda: 0) == 2", "RE", "not permitted"),
    (
        'import os\ndef f(a): os.pwrite(4, b\'["AC", ""]\', 0)',
        "assert f(1) == 2",
        "RE",
        "OSError",
    ),
    ("import os\ndef f(a): os.write(3, b'x' * 99); os._exit(0)", "assert f(1) == 2", "RE", ""),
    (KILLER, "assert f(1) == 2", ("WA", "RE"), ""),
]


@pytest.mark.parametrize(("code", "test", "verdict", "message"), WRONG)
def test_wrong(code, test, verdict, message, evaluator):
    got = verdict_of(evaluator, code, test)
    assert got[0] in verdict, got
    assert message in got[1]


def test_the_prompts_helpers_are_not_the_submissions(evaluator):
    lying = "def poly(a): return 0\ndef root(a): return 7"
    test = "assert poly(root(3)) == 0"
    assert verdict_of(evaluator, lying, test)[0] == "AC"  # nothing else says what poly is
    setup = "def poly(a): return a - 3\ndef root(a):\n  '''where poly is 0'''"
    settings = {"entry_point": "root", "setup": setup}
    assert verdict_of(evaluator, lying, test, **settings)[0] == "WA"
    assert verdict_of(evaluator, "def root(a): return a", test, **settings)[0] == "AC"


@pytest.mark.parametrize("imported", ["csv", "unittest", "asyncio", "numpy", "uuid", "helper"])
def test_modules_that_the_submission_writes_are_not_the_tests(imported, evaluator):
    forging = 'import os\nos.pwrite(4, b\'["AC", ""]\', 0)\nos._exit(0)\n'
    code = f"open('{imported}.py', 'w').write({forging!r})\ndef f(a): return 0"
    verdict, _ = verdict_of(evaluator, code, f"f(0)\nimport {imported}\nassert f(1) == 2")
    assert verdict == ("IE" if imported == "helper" else "WA")


def test_a_test_that_asks_nothing_judges_nothing(evaluator):
    verdict, message = verdict_of(evaluator, "def f(a): return 2", "assert True")
    assert verdict == "IE"
    assert "without a question" in message


def test_the_submission_does_not_see_the_test(evaluator):
    spy = """
import gc, os, sys
def f(a):
    seen = [open(f"/proc/{p}/{what}", "rb").read() for p in os.listdir("/proc") if p.isdigit()
            for what in ("environ", "cmdline", "mem") if os.access(f"/proc/{p}/{what}", 4)
            and what != "mem"]
    frame = sys._getframe()
    while frame:
        seen.append(repr(frame.f_locals).encode())
        frame = frame.f_back
    seen += [repr(item).encode() for item in gc.get_objects() if type(item) in (str, list, dict)]
    return b"secret-4711" in b"".join(seen)
"""
    # The answer is put together in the test: nothing that the submission is sent holds it.
    test = "answer = 'secret' + '-4711'\nassert f(0) is False"
    assert verdict_of(evaluator, spy.replace("secret-4711", "secret' + b'-4711"), test)[0] in "AC"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"code": "assert ("}, "code of an assert-style test is not Python"),
        ({"code": " "}, "needs code"),
        ({"code": 3}, "code as str"),
        ({"code": "f(1)", "setup": "def"}, "setup of an assert-style test"),
        ({"code": "f(1)", "entry_point": "a.b"}, "entry_point"),
    ],
)
def test_bad_tests_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        AssertTest(**settings)


def test_kinds_of_tests_mix(evaluator):
    tests = [AssertTest("assert f(1) == 2"), CallTest("f", [2], 3), StdioTest("", "")]
    result = evaluator.evaluate([Submission("def f(a): return a + 1", tests)])[0]
    assert result.verdicts == ["AC"] * 3
    assert [test.strategy for test in result.tests] == ["assertions", "exact", "exact"]


OWN_CLASS = """
class V:
    def __init__(self, x): self.x = x
    def __add__(self, o): return V(self.x + o.x)
    def __eq__(self, o): return self.x == o.x
    def __lt__(self, o): return self.x < o.x
    def __getitem__(self, i): return self.x + i
    def __enter__(self): return self
    def __exit__(self, *e): pass
def f(x): return V(x)
"""
LYING = """
class L:
    __eq__ = __lt__ = __le__ = __contains__ = lambda s, o: True
    __sub__ = __rsub__ = __add__ = lambda s, o: s
    __abs__ = lambda s: s
    __iter__ = lambda s: iter(())
def f(x): return L()
"""
SURVIVING = [
    # An early end is not undone by a test that expects exceptions.
    ("import os\ndef f(x):\n  if x < 0: os._exit(0)\n  return x",
     "assert f(1) == 1\nok = 0\ntry: f(-1)\nexcept Exception: ok = 1\nassert ok", "RE"),
    ("import sys\ndef f(x): sys.exit(0)", "ok = 0\ntry: f(1)\nexcept BaseException: ok = 1", "RE"),
    (LYING, "assert abs(f(1) - 2) < 1e-6", "RE"),
    (LYING, "assert f(1) < 5", "RE"),
    (LYING, "assert 5 in f(1)", "WA"),
    (LYING, "assert [1, 2] == f(1)", "WA"),
    ("def f(g): return g.gi_frame.f_globals", "assert f(i for i in [1]) == 2", "RE"),
    (OWN_CLASS, "assert (V(1) + V(2)).x == 3 and V(1) < f(2) and f(1) == V(1)", "AC"),
    (OWN_CLASS, "with f(1) as v: assert v[2] == 3 and isinstance(v, V)", "AC"),
    ("X = 5", "assert X == 5", "AC"),
    ("def f(x): return x", "def check(c): assert c(1) == 1\nif __name__ == '__main__': check(f)",
     "AC"),
    ("def f(t): return t.left.value + 1",
     "class T:\n  def __init__(s, v): s.value = v\n"
     "t = T(1)\nt.left = T(2)\nassert f(t) == 3", "AC"),
    ("def f(a): return sum(a)", "assert f(i for i in [1, 2]) == 3", "AC"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "test", "verdict"), SURVIVING)
def test_objects_that_stay_where_they_are(code, test, verdict, evaluator):
    got = verdict_of(evaluator, code, test)
    assert got[0] == verdict, got


def blocks():
    """(verdicts, submission, test, entry point) of assert_cases.txt."""
    text = Path(__file__).with_name("assert_cases.txt").read_text()
    for block in text.split("\n### ")[1:]:
        heading, _, body = block.partition("\n")
        verdicts, _, entry_point = heading.partition(" of ")
        code, _, test = body.partition("\n#---\n")
        yield verdicts.split(), code, test, entry_point or None


def test_values_objects_exceptions_and_forgeries(evaluator):
    cases = list(blocks())
    assert len(cases) > 100
    runs = [
        Submission(code, [AssertTest(test, entry_point=entry_point)], 5, 1024)
        for _, code, test, entry_point in cases
    ]
    judged = [result.tests[0] for result in evaluator.evaluate(runs)]
    wrong = [(c, got) for c, got in zip(cases, judged, strict=True) if got.verdict not in c[0]]
    assert not wrong
