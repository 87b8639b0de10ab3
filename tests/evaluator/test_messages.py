"""Every message can be printed, logged, shown and sent, whatever a program puts into it."""

import json

import pytest

from mcbench.evaluator import AssertTest, CallTest, StdioTest, Submission, TestResult
from mcbench.evaluator.wording import MAX_MESSAGE, printable

NASTY = "\x1b[2J\x1b]0;t\x07\r\b\x00\x7f\x9b5A\u202e\u2028\u200b\ud800\udfff\ufeff\U000e0041"


def test_what_cannot_be_seen_is_an_escape():
    assert printable("naïve 字 ≤ 😀 \\ '") == "naïve 字 ≤ 😀 \\ '"
    assert printable("a\tb\n\x1b[0m\ud800\u202e") == r"a\tb\n\x1b[0m\ud800\u202e"
    assert printable(NASTY).isprintable()
    assert printable(printable(NASTY)) == printable(NASTY)
    assert len(printable("x" * 10**6)) == MAX_MESSAGE + 1


def test_any_result_has_a_printable_message():
    message = TestResult("RE", message=NASTY * 999).message
    assert message.isprintable()
    assert json.loads(json.dumps(message)) == message.encode().decode()


PRINTS = StdioTest("", "x")
SOURCES = [
    (f"import sys\nsys.exit({NASTY!a})", PRINTS),
    (f"import sys\nsys.stderr.write({NASTY!a} * 999)\nsys.exit(1)", PRINTS),
    ("import os\nos.write(2, bytes(range(256)))\nos._exit(1)", PRINTS),
    (
        f"import sys\nsys.stdout.buffer.write({NASTY!a}.encode('utf-8', 'replace'))",
        StdioTest("", "x"),
    ),
    ("import os\nos.write(1, bytes(range(128, 256)))", PRINTS),
    (
        f"raise type({NASTY!a}.replace(chr(0), ''), (Exception,), {{}})({NASTY!a})",
        StdioTest("", ""),
    ),
    (f"def f(a): return {NASTY!a}", CallTest("f", [1], 1)),
    (f"def f(a): return {{{NASTY!a}: [{NASTY!a}]}}", CallTest("f", [1], 1)),
    (f"def f(a): return type({NASTY[:5]!a}, (), {{}})()", CallTest("f", [1], 1)),
    (f"def f(a): raise ValueError({NASTY!a})", CallTest("f", [1], 1)),
    (f"def f(a): raise ValueError({NASTY!a})", AssertTest("f(1)")),
    (f"def f(a): return {NASTY!a}", AssertTest("assert not f(1), f(1)")),
    (
        "import os\ndef f(a):\n  data = b'[\"%s\"]' % (b'\\\\u001b' * 99)\n"
        "  os.write(3, len(data).to_bytes(8, 'big') + data)",
        AssertTest("assert f(1) == 2"),
    ),
]


@pytest.mark.parametrize(("code", "test"), SOURCES)
def test_a_program_cannot_reach_the_terminal(code, test, evaluator):
    result = evaluator.evaluate([Submission(code, [test])])[0].tests[0]
    assert result.verdict in ("WA", "RE"), result
    assert result.message
    assert result.message.isprintable()
    result.message.encode()
