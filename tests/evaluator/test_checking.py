"""A problem's own checker program decides, on the very bytes that a program printed."""

import pytest

from mcbench.evaluator import CheckerProgram, StdioTest, Submission

REVERSED = """
import sys
wanted, got = (open(name).read().split() for name in sys.argv[2:])
print(int(got == wanted[::-1]))
"""
READS_INPUT = "import sys\nsys.exit(42 if open('input').read() == input() else 43)"
BYTES = "import sys\nprint(int(open(sys.argv[3], 'rb').read() == bytes([255, 10, 13, 10, 0])))"
CASES = [
    ("AC", "print('b a')", CheckerProgram(REVERSED)),
    ("WA", "print('a b')", CheckerProgram(REVERSED)),
    ("AC", "print('in')\nprint()", CheckerProgram(READS_INPUT, "icpc")),
    ("WA", "print('x')", CheckerProgram(READS_INPUT, "icpc")),
    ("AC", "import os\nos.write(1, bytes([255, 10, 13, 10, 0]))", CheckerProgram(BYTES)),
    (
        "WA",
        "print('x')",
        CheckerProgram("import sys\nprint(5 // (open(sys.argv[3]).read() < 'b'))"),
    ),
    # One that fails on the expected answer, too, is at fault itself.
    ("IE", "print(1)", CheckerProgram("1 / 0")),
    ("IE", "print(1)", CheckerProgram("import no_such_module", "icpc")),
    # Or comes to no decision.
    ("IE", "print(1)", CheckerProgram("pass")),
    ("IE", "print(1)", CheckerProgram("print('well done')")),
    ("WA", "print(1)", CheckerProgram("print(False)")),
    ("IE", "print(1)", CheckerProgram("import sys; sys.exit(1)", "icpc")),
    ("IE", "print(1)", CheckerProgram("pass", "icpc")),
    ("AC", "print(1)", CheckerProgram("import os\nos._exit(42)", "icpc")),
]


@pytest.mark.parametrize(("verdict", "code", "checker"), CASES)
def test_the_checker_decides(verdict, code, checker, evaluator):
    given = Submission(code, [StdioTest("in", "a b", checker=checker)])
    result = evaluator.evaluate([given])[0].tests[0]
    assert result.verdict == verdict, result
    assert result.strategy == ("checker" if verdict == "AC" else None)
