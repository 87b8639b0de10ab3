"""What a hostile program could learn or leave behind, beyond the attacks of the labelled suite."""

import os
import secrets

from mcbench.evaluator import StdioTest, Submission
from tests.evaluator.processes import descendants, eventually


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


def test_the_environment_tells_nothing_of_the_host(evaluator, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "secret")
    test = StdioTest("", "", keep_output=True)
    code = "import os\nprint(*sorted(os.environ))"
    told = evaluator.evaluate([Submission(code, [test])])[0].tests[0].output.split()
    threads = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
    assert set(told) <= {"HOME", "LANG", "LC_CTYPE", "PATH", "PYTHONHASHSEED", "TMPDIR"} | threads


def test_where_memory_runs_out_the_kernel_ends_tests_first(evaluator):
    code = "print(open('/proc/self/oom_score_adj').read())"
    assert evaluator.evaluate([Submission(code, [StdioTest("", "1000")])])[0].passed


def test_background_processes_end_with_the_test(evaluator):
    code = (
        "import os, time\nfor i in range(20):\n  if os.fork() == 0:\n    os.setsid()\n"
        "    time.sleep(99)\nprint(3)"
    )
    before = descendants(os.getpid())
    assert evaluator.evaluate([Submission(code, [StdioTest("", "3")])])[0].passed
    assert eventually(lambda: descendants(os.getpid()) <= before)
