"""Time, memory and output limits, and the verdicts on those who break them."""

import os

import pytest

from mcbench.errors import UserError
from mcbench.evaluator import CallTest, Evaluator, StdioTest, Submission

TIME_LIMITS_S = {
    "TLE": 0.2,
    "RE": 20,
    "OLE": 20,
}  # what breaks another limit has time, also on a busy machine

# Those whose verdict hangs on our own limits; the labelled suite has the others.
BREAKERS = [
    ("TLE", "import os\nwhile os.fork(): pass\nwhile True: pass"),
    ("TLE", "import os\nfor i in range(3): os.fork()\nwhile True: pass"),
    ("OLE", "import os\nos.ftruncate(1, 17 << 20)\nprint(3)"),
    ("OLE", "f = open('f', 'wb')\nwhile True: f.write(bytes(10**6))"),
    ("RE", "files = [open('/dev/null') for i in range(999)]"),
]


@pytest.mark.parametrize(("verdict", "code"), BREAKERS)
def test_limit(verdict, code, judge):
    result = judge(code, "", "3\n", time_limit_s=TIME_LIMITS_S[verdict], memory_limit_mb=64)
    assert result.verdict == verdict, result
    assert result.message


def test_measures(evaluator):
    code = "x = bytearray(100 << 20)\nfor i in range(10**6): pass\nprint(3)"
    result = evaluator.evaluate([Submission(code, [StdioTest("", "3")])])[0].tests[0]
    assert result.verdict == "AC"
    assert 100 < result.memory_mb < 200
    assert 0 < result.time_s <= result.wall_s + 0.01


def test_waiting_for_a_processor_is_no_use_of_time():
    # On one core these take about 4 s side by side; the wall limit is 3 s.
    busy = "import time\nwhile time.process_time() < 0.5: pass\nprint(3) # {}"
    programs = [busy.format(i) for i in range(7)]
    # A common shape: the work is done in a thread.
    programs.append(f"from threading import Thread\nThread(target=exec, args=[{busy!r}]).start()")
    programs.append("import time\ntime.sleep(99)")
    submissions = [Submission(code, [StdioTest("", "3")], 1.0) for code in programs]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with Evaluator(workers=len(programs)) as evaluator:
            *working, sleeping = [r.tests[0] for r in evaluator.evaluate(submissions)]
    finally:
        os.sched_setaffinity(0, cores)
    assert {test.verdict for test in working} == {"AC"}, working
    assert sleeping.verdict == "TLE"
    assert sleeping.wall_s < max(test.wall_s for test in working)


def test_wide_but_legal_use_of_processes(judge):
    code = "import os\nfor i in range(20):\n  if os.fork() == 0: os._exit(0)\n  os.wait()\nprint(3)"
    assert judge(code, "", "3", memory_limit_mb=64).verdict == "AC"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Submission("", []), "at least one test"),
        (lambda: Submission(b"", [StdioTest("", "")]), "code as str"),
        (lambda: Submission("", ["x"]), "CallTest or AssertTest"),
        (lambda: Submission("", [StdioTest("", "")], time_limit_s=0), "time_limit_s"),
        (lambda: Submission("", [StdioTest("", "")], memory_limit_mb=float("nan")), "memory_limit"),
        (lambda: StdioTest("", 3), "as str"),
        (lambda: StdioTest("", "", atol=-1), "atol"),
        (lambda: CallTest("1x", [], None), "fn_name"),
        (lambda: CallTest("f", 3, None), "args"),
        (lambda: CallTest("f", [], None, result_arg=0), "result_arg"),
        (lambda: Evaluator(workers=0), "workers"),
        (lambda: Evaluator(output_limit_mb=0), "output_limit_mb"),
    ],
)
def test_wrong_input_is_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_argument_that_cannot_be_sent(evaluator):
    with pytest.raises(UserError, match="test 0: an argument cannot be sent"):
        evaluator.evaluate([Submission("", [CallTest("f", [object()], 1)])])
    assert evaluator.evaluate([Submission("", [StdioTest("", "")])])[0].passed


def test_threads_use_no_memory_for_being_many(evaluator):
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nimport threading\n"
        "all_there = threading.Barrier(100)\n"
        "with ThreadPoolExecutor(100) as pool:\n"
        "    print(len(list(pool.map(lambda _: all_there.wait(), range(100)))))"
    )
    given = Submission(code, [StdioTest("", "100")], memory_limit_mb=64)
    assert evaluator.evaluate([given])[0].passed
