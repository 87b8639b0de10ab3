"""The labelled programs and attacks: no false accept, no false reject, no harm done."""

import socket
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.suite import ATTACKS, EXECUTIONS
from benchmarks.suite.attacks import HOST_SOCKETS
from mcbench.evaluator import Evaluator, Result, StdioTest, Submission, TestResult
from tests.evaluator.processes import descendants
from tests.quick import every

# Finds its folder empty, and may write to it.
HONEST = """
import os, tempfile
assert os.listdir() == []
with open("f", "x") as file, tempfile.TemporaryFile() as other:
    file.write("1")
    other.write(b"1")
print(int(input()) * 2)
"""
HONEST_RUN = Submission(HONEST, [StdioTest("21\n", "42\n")])


def deciding(result: Result) -> TestResult:
    return next((test for test in result.tests if test.verdict != "AC"), result.tests[-1])


def test_the_suite_is_large_and_labelled():
    right = Counter(case.right for case in EXECUTIONS)
    assert right[True] >= 80
    assert right[False] >= 30
    assert len(ATTACKS) >= 60
    cases = EXECUTIONS + ATTACKS
    assert len({case.id for case in cases}) == len(cases)
    unknown = [case for case in ATTACKS if case.group not in ("escape", "state")]
    assert all("AC" not in case.verdicts for case in unknown)
    # No program tells what it should answer, or it would be none to be judged.
    assert not any(str(test.expected) in case.code for case in unknown for test in case.tests)


def test_every_program_gets_its_verdict():
    submissions = [case.submission for case in EXECUTIONS]
    with Evaluator(workers=6) as evaluator:  # many only wait for their time limit
        results = evaluator.evaluate(submissions, early_exit=True)
    judged = [(case, deciding(result)) for case, result in zip(EXECUTIONS, results, strict=True)]
    wrong = {case.id: test for case, test in judged if test.verdict not in case.verdicts}
    assert not wrong


@pytest.fixture(scope="module")
def lone():
    """An evaluator with one sandbox, so that what runs next runs where the attack ran."""
    with Evaluator(workers=1) as evaluator:
        yield evaluator


@pytest.fixture(scope="module", autouse=True)
def host_sockets():
    """What the suite's attack looks for, open to all."""
    Path(HOST_SOCKETS[0]).unlink(missing_ok=True)
    listening = [socket.socket(socket.AF_UNIX) for _ in HOST_SOCKETS]
    for one, address in zip(listening, HOST_SOCKETS, strict=True):
        one.bind(address)
        one.listen()
    Path(HOST_SOCKETS[0]).chmod(0o777)
    yield
    Path(HOST_SOCKETS[0]).unlink()
    for one in listening:
        one.close()


@pytest.mark.parametrize("case", every(4, ATTACKS), ids=lambda case: case.id)
def test_attack_fails_and_harms_nothing(case, lone):
    if lone.isolation["missing"] and case.group in ("harm", "escape", "state"):
        pytest.skip("this machine does not grant every layer of isolation")
    worker = lone._sandboxes.workers[0]
    sandbox = worker.pid
    attack = deciding(lone.evaluate([case.submission])[0])
    after = lone.evaluate([HONEST_RUN])[0].tests[0]
    kept, below = worker.pid == sandbox, len(descendants(worker.pid))
    if after.verdict != "AC" or below != 1:
        worker.start()  # the next attack finds a new sandbox
    assert attack.verdict in case.verdicts, attack
    assert after.verdict == "AC", after
    assert kept, "the sandbox was lost"
    assert below == 1  # the zygote
