"""Programs that try to be accepted without knowing the answer, to see more than they should, or
to harm those that run them. None may be accepted, and an honest program must pass afterwards."""

import os
import secrets

import pytest

from mcbench.evaluator import StdioTest, Submission
from tests.evaluator.processes import descendants, eventually

HONEST = Submission("print(int(input()) * 2)", [StdioTest("21\n", "42\n")])

# Every program below faces an expected output that it cannot know.
STDIO = {
    "exit_early": "import os; os._exit(0)",
    "sys_exit": "import sys; sys.exit(0)",
    "verdicts": "print('AC'); print('passed'); print('{\"passed\": true}')",
    "write_everywhere": (
        "import os\nfor fd in range(256):\n"
        "  for text in (b'AC', b'{\"status\": 0, \"id\": [0, 0]}'):\n"
        "    try: os.write(fd, text)\n    except OSError: pass"
    ),
    "frames": (
        "import sys\nf = sys._getframe()\nwhile f:\n  for v in list(f.f_locals.values()):\n"
        "    print(repr(v)[:2000])\n  f = f.f_back"
    ),
    "gc": "import gc\nfor o in gc.get_objects():\n  if isinstance(o, (dict, list)): print(len(o))",
    "proc_scan": (
        "import os\nfor p in os.listdir('/proc'):\n  for n in ('mem', 'environ', 'cmdline'):\n"
        "    try: print(open(f'/proc/{p}/{n}', 'rb').read(1 << 20))\n    except OSError: pass"
    ),
    "kill_all": "import os, signal\nfor s in (9, 15): os.kill(-1, s)",
    "kill_group": "import os, signal\nos.killpg(0, signal.SIGKILL)",
    "kill_pids": (
        "import os, signal\nfor p in range(1, 40000):\n  if p != os.getpid():\n"
        "    try: os.kill(p, signal.SIGKILL)\n    except OSError: pass"
    ),
    "kill_parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nprint('alive')",
    "stop_parent": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)",
    "fork_bomb": (
        "import os\nfor i in range(10**4):\n  try: os.fork()\n  except OSError: os._exit(0)"
    ),
    "daemon": (
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(99)\n"
        "  os._exit(0)"
    ),
    "patch_builtins": (
        "import builtins, json, os, sys\nbuiltins.print = builtins.open = len\n"
        "json.dumps = lambda *a, **k: '{}'\nos._exit = sys.exit = lambda *a: None"
    ),
    "patch_evaluator": (
        "import sys\nfor n, m in list(sys.modules.items()):\n"
        "  if 'mcbench' in n:\n    for k in dir(m):\n      setattr(m, k, lambda *a, **k: True)"
    ),
    "import_mcbench": "import mcbench.evaluator",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)",
    "socket_out": "import socket\nsocket.create_connection(('1.1.1.1', 53), 1)",
    "unix_socket": (
        "import socket, os\nfor fd in range(64):\n  try:\n    s = socket.socket(fileno=fd)\n"
        "    s.send(b'{}')\n    print('sent')\n  except OSError: pass"
    ),
    "many_files": "for i in range(10**5): open(str(i), 'w').write('x')",
    "sparse": "f = open('f', 'wb')\nf.truncate(1 << 40)",
    "locked_directory": "import os\nos.makedirs('a/b')\nos.chmod('a/b', 0)\nos.chmod('a', 0)",
    "mount": (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "for args in ((b'none', b'/proc', b'tmpfs', 0, None), (b'n', b'/', None, 32, None)):\n"
        "  if libc.mount(*args) == 0: print('mounted')\n"
        "if libc.umount2(b'/proc', 2) == 0: print('unmounted')"
    ),
    "root_again": "import os\nos.setuid(0)\nprint(open('/etc/shadow').read())",
    "raise_limits": (
        "import resource as r\nfor w in (r.RLIMIT_CPU, r.RLIMIT_AS, r.RLIMIT_NPROC):\n"
        "  try: r.setrlimit(w, (r.RLIM_INFINITY,) * 2); print('raised')\n"
        "  except (ValueError, OSError): pass"
    ),
    "ptrace": (
        "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
        "for p in range(1, 50):\n  if libc.ptrace(16, p, 0, 0) == 0: print('attached', p)"
    ),
    "unending_output": "while True: print('AC')",
    "close_all": "import os\nos.closerange(0, 256)",
    "raise_through": "class E(BaseException): pass\nraise E",
    "broken_str": "class E(Exception):\n  def __str__(self): raise E\nraise E",
    "thread_exit": "import threading, os\nthreading.Thread(target=lambda: os._exit(0)).start()",
    "stdin_has_it": "import os\nprint(open('/proc/self/fd/0').read())",
}

# Submissions of the function f whose answer is unknown to them.
CALLS = {
    "lying_eq": (
        "class E:\n  def __eq__(self, o): return True\n  __hash__ = None\ndef f(a): return E()"
    ),
    "lying_str": "class S(str):\n  def __eq__(self, o): return True\ndef f(a): return S('x')",
    "lying_int": "class I(int):\n  __eq__ = __req__ = lambda s, o: True\ndef f(a): return I(1)",
    "lying_list": "class L(list):\n  __eq__ = lambda s, o: True\ndef f(a): return L([1])",
    "lying_dict": "class D(dict):\n  __eq__ = lambda s, o: True\ndef f(a): return D()",
    "reduce": (
        "class P:\n  def __reduce__(self): return (print, ('pwned',))\ndef f(a): return P()"
    ),
    "forged_result": "import os\nos.write(3, b'\"AC\"')\nos._exit(0)",
    "forged_twice": "import os\ndef f(a):\n  os.write(3, b'\"x\"')\n  return 'AC'",
    "forged_in_hook": (
        "import atexit, os\natexit.register(lambda: os.pwrite(3, b'[\"q\", 1]', 0))\n"
        "def f(a): return 1"
    ),
    "bad_encoding": "import os\nos.write(3, b'[' * 100000)\nos._exit(0)",
    "bad_key": 'import os\nos.write(3, b\'["d", [["l"], 1]]\')\nos._exit(0)',
    "exit_early": "import os\nos._exit(0)",
    "no_function": "x = 1",
    "patched_json": "import json\njson.dumps = lambda v: 'null'\ndef f(a): return 1",
    "huge_value": "def f(a): return 'x' * (40 << 20)",
    "many_values": "def f(a): return [[]] * 200_000",
    "caller": "import sys\ndef f(a): return str(sys._getframe(1).f_locals)",
}


@pytest.fixture
def unharmed(evaluator):
    """After the attack: only the sandboxes' own processes are left, and honest programs pass."""
    sandboxes = {worker.pid for worker in evaluator._workers}
    yield
    results = evaluator.evaluate([HONEST, Submission(HONEST.code + "\n", HONEST.tests)])
    assert all(result.passed for result in results), results
    assert sandboxes == {worker.pid for worker in evaluator._workers}, "a sandbox was lost"
    for pid in sandboxes:
        assert len(descendants(pid)) == 1


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("name", STDIO)
def test_program_is_not_accepted(name, judge):
    answer = secrets.token_hex(16)
    result = judge(STDIO[name], "1\n", answer, time_limit_s=0.5, memory_limit_mb=128)
    assert result.verdict in ("WA", "RE", "TLE", "MLE", "OLE"), result
    assert answer[:16] not in result.message or "got" in result.message


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("name", CALLS)
def test_call_is_not_accepted(name, call):
    result = call(CALLS[name], [1], secrets.token_hex(16))
    assert result.verdict in ("WA", "RE", "OLE"), result


FORBIDDEN = {
    "mount": "",
    "ptrace": "",
    "raise_limits": "",
    "unix_socket": "",
}


@pytest.mark.usefixtures("unharmed")
@pytest.mark.parametrize("name", FORBIDDEN)
def test_nothing_was_permitted(name, judge):
    result = judge(STDIO[name], "", FORBIDDEN[name], time_limit_s=0.5)
    assert (result.verdict, result.message) == ("AC", "")


def test_no_answer_anywhere_in_the_memory_of_the_child(evaluator):
    # The programs search their own memory, all of it, for any answer: the expected one, and what
    # other submissions were given and printed in the same sandbox a moment ago.
    search = (
        "import re\nfound = set()\nfor line in open('/proc/self/maps'):\n"
        "  if line.split()[1].startswith('r'):\n"
        "    a, b = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "    try:\n      with open('/proc/self/mem', 'rb') as m:\n        m.seek(a)\n"
        "        found.update(re.findall(b'answer' + b'-[0-9a-f]{16}', m.read(b - a)))\n"
        "    except (OSError, ValueError, OverflowError): pass\n"
        "print(*found)"
    )
    answer = f"answer-{secrets.token_hex(8)}"
    solve = f"print(input()) # {answer}"
    solvers = [Submission(f"{solve}{i}", [StdioTest(answer, answer)]) for i in range(8)]
    searchers = [Submission(f"{search} # {i}", [StdioTest("", answer)]) for i in range(4)]
    results = evaluator.evaluate(solvers + searchers)
    assert [r.verdicts for r in results] == [["AC"]] * 8 + [["WA"]] * 4
    assert {r.tests[0].message for r in results[8:]} == {"expected 1 tokens, got 0"}


def test_no_state_between_tests(evaluator):
    code = """
import ctypes, os, sys, tempfile
libc = ctypes.CDLL(None)
folders = ['.', tempfile.gettempdir(), '/tmp', '/var/tmp', '/dev/shm', os.path.expanduser('~')]
old = hasattr(os, 'mark') or 'MARK' in os.environ or libc.shmget(4711, 4096, 0) >= 0
old = old or any(os.path.exists(folder + '/mark') for folder in folders)
os.mark = os.environ['MARK'] = '1'
libc.shmget(4711, 4096, 0o1600)
for folder in folders:
    try:
        open(folder + '/mark', 'w').close()
    except OSError:
        pass
print('old' if old else 'new')
"""
    result = evaluator.evaluate([Submission(code, [StdioTest("", "new")] * 6)])[0]
    assert result.verdicts == ["AC"] * 6, result


def test_environment_holds_no_secrets(judge, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret")
    result = judge("import os\nprint(*sorted(os.environ))", "", "")
    assert "TOKEN" not in result.message
    assert result.verdict == "WA"


def test_background_processes_end_with_the_test(evaluator):
    code = (
        "import os, time\nfor i in range(20):\n  if os.fork() == 0:\n    os.setsid()\n"
        "    time.sleep(99)\nprint(3)"
    )
    before = descendants(os.getpid())
    assert evaluator.evaluate([Submission(code, [StdioTest("", "3")])])[0].passed
    assert eventually(lambda: descendants(os.getpid()) <= before)
