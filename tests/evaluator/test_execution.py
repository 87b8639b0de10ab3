"""Every legal way to write a Python program must be accepted."""

from itertools import count

import pytest

READERS = {
    "input": "a = int(input()); b = int(input())",
    "readline": "import sys; a = int(sys.stdin.readline()); b = int(sys.stdin.readline())",
    "read": "import sys; a, b = map(int, sys.stdin.read().split())",
    "iterate": "import sys; a, b = [int(line) for line in sys.stdin]",
    "buffer": "import sys; a, b = map(int, sys.stdin.buffer.read().split())",
    "buffer_lines": "import sys; r = sys.stdin.buffer.readline; a = int(r()); b = int(r())",
    "open0": "a, b = map(int, open(0).read().split())",
    "open0_lines": "a, b = map(int, open(0))",
    "os_read": "import os; a, b = map(int, os.read(0, 100).split())",
    "fstat": "import os, io; n = os.fstat(0).st_size; a, b = map(int, os.read(0, n).split())",
    "dev_stdin": "a, b = map(int, open('/dev/stdin').read().split())",
    "fileinput": "import fileinput; a, b = [int(line) for line in fileinput.input()]",
    "rebound": "import sys; input = sys.stdin.readline; a = int(input()); b = int(input())",
    "wrapped": (
        "import io, os, sys; sys.stdin = io.StringIO(os.read(0, 99).decode())\n"
        "a = int(input()); b = int(input())"
    ),
}

WRITERS = {
    "print": "print(a + b)",
    "stdout": "import sys; sys.stdout.write(f'{a + b}\\n')",
    "buffer": "import sys; sys.stdout.buffer.write(b'%d' % (a + b))",
    "os_write": "import os; os.write(1, str(a + b).encode())",
    "open1": "print(a + b, file=open(1, 'w'))",
    "exit": "import sys; print(a + b); sys.exit(0)",
    "exit_none": "print(a + b); exit()",
    "quit": "print(a + b); quit()",
    "system_exit": "print(a + b); raise SystemExit",
    "os_exit": "import os, sys; print(a + b); sys.stdout.flush(); os._exit(0)",
    "atexit": "import atexit; atexit.register(print, a + b)",
    "thread": "import threading; threading.Thread(target=lambda: print(a + b)).start()",
    "subprocess": "import os; os.system(f'echo {a + b}')",
}

PROGRAMS = {
    "future": "from __future__ import annotations\nx: Undefined = 1\nprint(3)",
    "global": "n = 1\ndef f():\n    global n\n    n += 2\nf()\nprint(n)",
    "main_block": "def main():\n    print(3)\nif __name__ == '__main__':\n    main()\nx = 1",
    "main_first": "if __name__ == '__main__':\n    x = 3\nprint(x)",
    "import_main": "import __main__\nx = 3\nprint(__main__.x)",
    "dataclass": "import dataclasses as d\n@d.dataclass\nclass A:\n    x: int\nprint(A(3).x)",
    "pickle": "import pickle\nclass A: x = 3\nprint(pickle.loads(pickle.dumps(A())).x)",
    "recursion": (
        "import sys\nsys.setrecursionlimit(10**6)\n"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(10**5) // 10**5 * 3)"
    ),
    "c_recursion": (
        "import sys, functools\nsys.setrecursionlimit(10**6)\n@functools.lru_cache(None)\n"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(50000) // 50000 * 3)"
    ),
    "big_thread": (
        "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(2**29)\n"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\n"
        "t = threading.Thread(target=lambda: print(f(10**5) // 10**5 * 3))\nt.start(); t.join()"
    ),
    "big_int": "import sys\nsys.set_int_max_str_digits(0)\nprint(len(str(10**9999)) - 9997)",
    "scratch": "open('f', 'w').write('3')\nprint(open('f').read())",
    "tempfile": "import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'3')\nprint(3)",
    "unicode": "π = '३'\nprint(int(π))",
    "bom": "\ufeffprint(3)",
    "crlf": "x = 3\r\nprint(x)\r\n",
    "caught_exit": "import sys\ntry: sys.exit(1)\nexcept SystemExit: print(3)",
    "stderr": "import sys\nprint('debug', file=sys.stderr)\nprint(3)",
    "pool": (
        "from multiprocessing import Pool\nimport operator\n"
        "with Pool(2) as p: print(sum(p.map(abs, [1, -2])))"
    ),
    "asyncio": "import asyncio\nasync def f(): print(3)\nasyncio.run(f())",
    "sleeping_daemon": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\nprint(3)"
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_reading(name, judge):
    result = judge(f"{READERS[name]}\nprint(a + b)", "1\n2\n", "3\n")
    assert result.verdict == "AC", result.message


@pytest.mark.parametrize("name", WRITERS)
def test_writing(name, judge):
    result = judge(f"a, b = 1, 2\n{WRITERS[name]}", "", "3\n")
    assert result.verdict == "AC", result.message


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, judge):
    result = judge(PROGRAMS[name], "", "3\n")
    assert result.verdict == "AC", result.message


def test_five_megabytes_in_and_out(judge):
    text = "0123456789" * 500_000
    result = judge("print(input())", text, text)
    assert (result.verdict, result.strategy) == ("AC", "lines")


def test_text_survives_the_way_there_and_back(judge):
    text = "Grüße, 世界 \U0001f600\n"
    assert judge("print(input())", text, text).verdict == "AC"


CALLS = [
    ("class Solution:\n    def f(self, a): return a + 1", [1], 2, {}),
    ("def f(a, b=2): return a * b", [3], 6, {}),
    ("def g(a): return a\ndef f(a): return g(a)", [7], 7, {}),
    ("f = lambda a: a", [[1, [2]]], [1, [2]], {}),
    ("class Solution:\n    @staticmethod\n    def f(a): return a", [1], 1, {}),
    (
        "class Solution:\n    def f(self, a: List[int]) -> Optional[int]: return max(a)",
        [[1]],
        1,
        {},
    ),
    ("def f(a): return dict(Counter(a))", ["aab"], {"a": 2, "b": 1}, {}),
    ("def f(a): return math.gcd(*a) + bisect_left(a, 6) + heapq.heappop(a)", [[4, 6]], 7, {}),
    ("def f(a): return list(accumulate(a))", [[1, 2]], [1, 3], {}),
    ("@cache\ndef f(n): return n if n < 2 else f(n - 1) + f(n - 2)", [30], 832040, {}),
    ("def f(a): return Counter(a)", ["a"], {"a": 1}, {}),
    ("def f(a): return defaultdict(int, a)", [{"x": 1}], {"x": 1}, {}),
    ("from __future__ import annotations\ndef f(a: Nope): return a", [1.5], 1.5, {}),
    ("def f(a): a.sort()", [[2, 1]], [1, 2], {"result_arg": 0}),
    ("def f(a): return {i: -i for i in a}", [[1]], {"1": -1}, {}),
    ("def f(a): return {2, 1}", [0], [1, 2], {"any_order": True}),
    ("def f(a): return 2 ** a", [10_000], 2**10_000, {}),
    ("def f(a): return [a, -a]", [2**63], [2**63, -(2**63)], {}),
    ("def f(a): return [None, True, 'x', 1, 0.5]", [0], [None, True, "x", 1, 0.5], {}),
    ("def f(a): return sorted(a)", [list(range(10**6, 0, -1))], list(range(1, 10**6 + 1)), {}),
    ("def f(a): return float(a)", ["nan"], float("nan"), {}),
    ("def f(a): return a", [(1, {2}, b"x", None, True, {(1, 2): 3})], None, {"checker": "tuple"}),
    ("print('noise')\ndef f(a):\n    print(a)\n    return a", [1], 1, {}),
    ("def f(a): return a\nif __name__ == '__main__': input()", [1], 1, {}),
    ("class Solution:\n    def f(self, a): return pow(a, 2, 5) + copy.copy(a)", [3], 7, {}),
]


@pytest.mark.parametrize(("code", "args", "expected", "options"), CALLS, ids=count())
def test_calls(code, args, expected, options, call):
    if options.get("checker") == "tuple":
        options = {"checker": lambda expected, actual: actual == args[0]}
    result = call(code, args, expected, **options)
    assert result.verdict == "AC", result.message


BAD_CALLS = [
    ("def f(a): return True", 1, "WA"),
    ("def f(a): return '1'", 1, "WA"),
    ("def f(a): return object()", 1, "RE"),
    ("def f(a): return iter([1])", [1], "RE"),
    ("def f(a):\n    x = []\n    x.append(x)\n    return x", [], "RE"),
    ("def g(a): return 1", 1, "RE"),
    ("def f(): return 1", 1, "RE"),
    ("def f(a): return 1\nraise ValueError", 1, "RE"),
    ("def f(a): return 1\nimport sys; sys.exit(0)", 1, "RE"),
    ("def f(a):\n    import atexit, os\n    atexit.register(os._exit, 3)\n    return 1", 1, "RE"),
]


@pytest.mark.parametrize(("code", "expected", "verdict"), BAD_CALLS)
def test_calls_that_do_not_answer(code, expected, verdict, call):
    result = call(code, [0], expected)
    assert result.verdict == verdict
    assert result.message


ENDINGS = [
    ("print(3); 1/0", "RE", "ZeroDivisionError"),
    ("print(3); import sys; sys.exit(1)", "RE", "exit status 1"),
    ("print(3); import sys; sys.exit('bye')", "RE", "bye"),
    ("print(3); import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "RE", "signal 9"),
    ("print(3); import os; os.abort()", "RE", "signal 6"),
    ("print(3); import ctypes; ctypes.string_at(0)", "RE", "signal 11"),
    ("def f(:", "RE", "SyntaxError"),
    ("print(3); raise KeyboardInterrupt", "RE", "KeyboardInterrupt"),
    ("import threading; print(3); threading.Thread(target=lambda: 1/0).start()", "AC", ""),
    ("import os; print(3); os._exit(0)", "WA", "expected 1 tokens, got 0"),
    ("\0", "RE", ""),
    ("", "WA", "expected 1 tokens, got 0"),
    ("print(4)", "WA", "token 1: expected '3', got '4'"),
    ("x = " + "(" * 5000, "RE", ""),
    ("print(input())", "RE", "EOFError"),
]


@pytest.mark.parametrize(("code", "verdict", "message"), ENDINGS)
def test_endings(code, verdict, message, judge):
    result = judge(code, "", "3\n")
    assert result.verdict == verdict
    assert message in result.message


def test_long_strange_source_is_answered(judge):
    assert judge("\udcff\ud800", "", "").verdict == "RE"
    assert judge("-" * 100_000 + "1", "", "").verdict in ("RE", "MLE")
