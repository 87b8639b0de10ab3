"""Evaluator actors: the verdicts of the local sandboxes, whatever happens to an actor."""

import asyncio
import os
import signal
import threading

import pytest

from benchmarks.suite import ATTACKS, EXECUTIONS
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator, StdioTest, Submission
from mcbench.evaluator.ray_backend import _Call
from tests.evaluator.processes import eventually, levels

CASES = EXECUTIONS[::4]


def ask(code, *answers, **limits):
    return Submission(code, [StdioTest("", answer) for answer in answers], **limits)


def deciding(result):
    return next((test for test in result.tests if test.verdict != "AC"), result.tests[-1])


def explained(results):
    """All of a result but times and memory."""
    return [[(t.verdict, t.strategy, t.message) for t in result.tests] for result in results]


@pytest.fixture
def actors(cluster):
    with Evaluator(workers=2, backend="ray", address=cluster.address) as evaluator:
        yield evaluator


def pid_of(actor):
    import ray

    return ray.get(actor.handle.__ray_call__.remote(lambda self: os.getpid()))


@pytest.mark.slow
def test_the_labelled_programs_get_the_same_verdicts_also_when_an_actor_dies(actors):
    submissions = [case.submission for case in CASES]
    with Evaluator(workers=2) as local:
        expected = explained(local.evaluate(submissions))
    assert explained(actors.evaluate(submissions)) == expected

    victim = pid_of(actors._sandboxes._actors[0])

    def kill_at_work() -> bool:
        if levels(victim)[1:]:  # its supervisor has a zygote, and this a program
            os.kill(victim, signal.SIGKILL)
        return not levels(victim)

    killer = threading.Thread(target=eventually, args=(kill_at_work, 60))
    killer.start()
    assert explained(actors.evaluate(submissions)) == expected
    killer.join()
    assert victim not in [pid_of(actor) for actor in actors._sandboxes._actors]


@pytest.mark.slow
def test_no_attack_comes_through_and_none_harms_an_actor(actors):
    """One after another, as what a test leaves may change what the next attack finds; every third,
    as these sandboxes are asked all of them in ``tests/evaluator``.
    """
    pids, honest, wrong = (
        {pid_of(actor) for actor in actors._sandboxes._actors},
        ask("print(1)", "1"),
        {},
    )
    for case in ATTACKS[::3]:
        attack = deciding(actors.evaluate([case.submission])[0])
        after = actors.evaluate([honest])[0]
        if attack.verdict not in case.verdicts or not after.passed:
            wrong[case.id] = attack, after
    assert not wrong
    assert {pid_of(actor) for actor in actors._sandboxes._actors} == pids


@pytest.mark.slow
def test_the_same_interface(actors):
    right, wrong = ask("print(1)", "1", "1"), ask("print(2)", "1", "1")
    results = actors.evaluate([right, wrong, right], early_exit=True)
    assert [result.verdicts for result in results] == [["AC", "AC"], ["WA"], ["AC", "AC"]]
    assert results[0] is results[2]
    assert "granted" in actors.isolation

    async def impatient():
        endless = [ask(f"while True: {n}", "", time_limit_s=300) for n in range(8)]
        await asyncio.wait_for(actors.aevaluate(endless), timeout=2)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert actors.evaluate([right])[0].passed
    actors.close()
    with pytest.raises(UserError, match="closed"):
        actors.evaluate([right])


@pytest.mark.slow
def test_what_programs_print_comes_back_where_a_test_keeps_it(actors):
    asked = Submission("print(input() * 2)", [StdioTest("ab", "", keep_output=True)])
    ((test,),) = (result.tests for result in actors.evaluate([asked]))
    assert (test.verdict, test.output) == ("WA", "abab\n")


def test_a_submission_that_brings_down_three_actors_is_an_infrastructure_failure():
    call = _Call([ask("", "1", "1"), ask("", "1")], False, 1, threading.Event())
    call.waiting.clear()
    call.repeat([0, 1])
    assert list(call.waiting) == [[0], [1]]
    call.waiting.clear()
    call.repeat([0])
    call.repeat([0])
    assert list(call.waiting) == [[0]]
    assert call.results[0].verdicts == ["IE", "IE"]
    assert call.results[1] is None


def test_wrong_settings_are_refused():
    with pytest.raises(UserError, match="unknown backend 'rey'"):
        Evaluator(backend="rey")
    with pytest.raises(UserError, match=r"no Ray cluster at '127\.0\.0\.1:1'"):
        Evaluator(backend="ray", address="127.0.0.1:1")
