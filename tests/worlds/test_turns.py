"""Attempts with feedback (RLEF): rewards by hand, what is told and what is not, and the rollout."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from mcbench.data.schema import Problem
from mcbench.evaluator import Evaluator
from mcbench.evaluator.reward import NO_CODE
from mcbench.worlds.multi_turn import Step, play
from mcbench.worlds.problems import split_of
from mcbench.worlds.tokenizer import load_tokenizer
from mcbench.worlds.turns import (
    PUBLIC,
    TURNS,
    Attempts,
    demonstrations,
    failing_test,
    feedback,
    judge,
    load_turns,
    turn_reward,
)

TOKENIZER = load_tokenizer()


def fenced(body: str) -> str:
    return f"```python\nx = int(input())\n{body}\n```"


@pytest.fixture(scope="module")
def evaluator() -> Any:
    with Evaluator(workers=1) as found:
        yield found


def doubled() -> Problem:
    """y = 2 x: public tests on 3, 5, 1, 2, hidden ones on 9 and 7."""
    return Problem(
        id="turns/double",
        statement="Read an integer x and print y.\nin 3 out 6\nAnswer:\n",
        form="stdin",
        tests=tuple({"stdin": f"{x}\n", "expected": f"{2 * x}\n"} for x in (3, 5, 1, 2, 9, 7)),
        source="turns",
        metadata={"public": 4},
    )


RIGHT, ADDS, OVERFIT = fenced("print(2 * x)"), fenced("print(x + 3)"), fenced("print(2 * x % 18)")


def test_rewards_by_hand() -> None:
    assert turn_reward("AC,AC", True, True) == 1
    assert turn_reward("AC,WA", False, True) == -1
    assert turn_reward("WA", False, False) == 0
    assert turn_reward(NO_CODE, False, False) == pytest.approx(-0.2)
    assert turn_reward(NO_CODE, False, True) == -1
    problem = doubled()
    assert failing_test(problem, "AC,WA") == 1
    assert failing_test(problem, "AC,AC,AC,AC,WA") is None  # a hidden one
    assert failing_test(problem, NO_CODE) == 0


def test_an_episode_ends_when_the_public_tests_pass(evaluator: Any) -> None:
    attempts = Attempts(evaluator)
    assert attempts.reset([doubled()] * 3) == [doubled().statement] * 3
    first = attempts.step({0: RIGHT, 1: ADDS, 2: OVERFIT}, ())
    assert first[0] == Step(first[0].observation, 1.0, True, True, "AC,AC,AC,AC,AC,AC")
    assert (first[1].reward, first[1].done, first[1].observation) == (0.0, False, feedback(5, 10))
    assert (first[2].reward, first[2].done, first[2].passed) == (-1.0, True, False)
    second = attempts.step({1: "no idea"}, ())
    assert (second[1].reward, second[1].verdict) == (pytest.approx(-0.2), NO_CODE)
    third = attempts.step({1: ADDS}, ())
    assert (third[1].reward, third[1].done) == (-1.0, True)


MALFORMED = ("", "```python\nprint(", "``` ```", "\x00" * 9, "```python\n```", "x" * 100_000)


def test_malformed_turns_get_the_penalty(evaluator: Any) -> None:
    attempts = Attempts(evaluator)
    attempts.reset([doubled()] * len(MALFORMED))
    for turn in range(TURNS):
        steps = attempts.step(dict(enumerate(MALFORMED)), ())
        for i, text in enumerate(MALFORMED):
            empty_block = text == "```python\n```"  # a program, that fails
            wanted = -1 if turn == TURNS - 1 else 0.0 if empty_block else -0.2
            assert steps[i].reward == pytest.approx(wanted), (text[:20], steps[i])
    (alone,) = judge([doubled()], ["nothing"], "rlef", evaluator)
    assert (alone.reward, alone.passed) == (-1, False)


def test_a_broken_sandbox_is_no_verdict() -> None:
    class Broken:
        def evaluate(self, submissions: Sequence[Any], early_exit: bool) -> list[Any]:
            return [type("R", (), {"verdicts": ["IE"], "passed": False})() for _ in submissions]

    attempts = Attempts(Broken())
    attempts.reset([doubled()])
    (step,) = attempts.step({0: RIGHT}, ()).values()
    assert (step.reward, step.passed, step.done) == (None, None, True)


def test_shuffled_feedback_is_another_problem_s(evaluator: Any) -> None:
    tripled = Problem(
        **{
            **vars(doubled()),
            "id": "turns/triple",
            "tests": tuple({"stdin": f"{x}\n", "expected": f"{3 * x}\n"} for x in (4, 8, 1, 2)),
        }
    )
    attempts = Attempts(evaluator, "shuffled")
    attempts.reset([doubled(), doubled(), tripled, tripled])
    wrong = fenced("print(0)")
    told = attempts.step(dict.fromkeys(range(4), wrong), ())
    assert [told[i].observation for i in range(4)] == [feedback(4, 12)] * 2 + [feedback(3, 6)] * 2
    # alone there is no other problem: nothing is told
    assert attempts.step({0: wrong}, ())[0].observation == "\nAnswer:\n"


class Script:
    """A sampler that answers from a list of texts, episode by episode and turn by turn."""

    def __init__(self, *turns: Sequence[str], tokenizer: Any = TOKENIZER) -> None:
        self.turns, self.contexts, self.calls = list(turns), [], 0
        self.tokenizer = tokenizer

    def __call__(self, contexts: Sequence[list[int]], limit: int) -> Any:
        texts, self.calls = self.turns[self.calls], self.calls + 1
        self.contexts.append(self.tokenizer.batch_decode(contexts))
        end, read = self.tokenizer.eos_token_id, self.tokenizer
        ids = [[*read(text)["input_ids"], end] for text in texts]
        return [(one[:limit], [-0.5] * len(one[:limit]), [0.1] * len(one[:limit])) for one in ids]


class Counting:
    def __init__(self, evaluator: Any) -> None:
        self.evaluator, self.calls = evaluator, 0

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.evaluator.evaluate(*args, **kwargs)


def test_a_rollout_by_hand(evaluator: Any) -> None:
    script = Script([RIGHT, ADDS], [RIGHT])
    counted = Counting(evaluator)
    played = play(Attempts(counted), [doubled()] * 2, script, TOKENIZER, 200)
    one, two = played.episodes
    assert counted.calls == 2  # one a turn
    assert (one.reward, one.passed, one.truncated, len(one.turns)) == (1.0, True, False, 1)
    assert (two.reward, two.passed, two.truncated, len(two.turns)) == (1.0, True, False, 2)
    said = f"{doubled().statement}{ADDS}<eos>{feedback(5, 10)}"
    assert script.contexts[1] == [said]
    assert TOKENIZER.decode(two.prompt + two.ids) == f"{said}{RIGHT}<eos>"
    own = TOKENIZER.decode([t for t, mine in zip(two.ids, two.own, strict=True) if mine])
    assert own == f"{ADDS}<eos>{RIGHT}<eos>"
    assert two.spent == len(two.ids) - len(TOKENIZER(feedback(5, 10))["input_ids"])
    assert len(two.ids) == len(two.own) == len(two.log_probs) == len(two.entropies)
    assert {p for p, mine in zip(two.log_probs, two.own, strict=True) if not mine} == {0.0}
    assert [turn["observation"] for turn in two.turns] == [feedback(5, 10), ""]


def test_any_end_token_ends_a_turn_and_what_is_shown_has_none_of_a_beginning(
    evaluator: Any,
) -> None:
    """As of a model that lists two; such as Llama's tokenizer begins every text with another."""
    (other,) = TOKENIZER("\n")["input_ids"]
    script = Script([ADDS], [RIGHT])

    def sample(contexts: Sequence[list[int]], limit: int) -> Any:
        return [([*ids[:-1], other], *known) for ids, *known in script(contexts, limit)]

    asked = Mock(wraps=TOKENIZER, eos_token_id=TOKENIZER.eos_token_id)
    (one,) = play(Attempts(evaluator), [doubled()], sample, asked, 200, [other]).episodes
    assert (one.reward, one.truncated, len(one.turns)) == (1.0, False, 2)
    assert one.turns[0]["observation"] == feedback(5, 10)
    assert asked.call_args_list[1].kwargs == {"add_special_tokens": False}


def test_a_spent_budget_is_a_truncated_episode(evaluator: Any) -> None:
    end = TOKENIZER.eos_token_id
    whole = len(TOKENIZER(ADDS)["input_ids"]) + 1
    # exactly one turn: told what failed, it can answer no more
    (told,) = play(Attempts(evaluator), [doubled()], Script([ADDS]), TOKENIZER, whole).episodes
    assert (told.truncated, told.reward, told.spent, told.ids[-1] != end) == (True, -1, whole, True)
    # the same length, and right: complete
    (right,) = play(Attempts(evaluator), [doubled()], Script([RIGHT]), TOKENIZER, whole).episodes
    assert (right.truncated, right.reward, right.ids[-1]) == (False, 1, end)
    # cut inside a turn: no program
    (cut,) = play(Attempts(evaluator), [doubled()], Script([ADDS]), TOKENIZER, 4).episodes
    assert (cut.truncated, cut.reward, cut.ids[-1] != end) == (True, -1, True)
    # the second turn has what the first left
    script = Script([ADDS], [ADDS])
    (second,) = play(Attempts(evaluator), [doubled()], script, TOKENIZER, whole + 3).episodes
    assert (second.truncated, second.spent, len(second.turns)) == (True, whole + 3, 2)


def test_without_feedback_every_attempt_begins_from_the_prompt(evaluator: Any) -> None:
    script = Script([ADDS], [ADDS], [RIGHT])
    (one,) = play(Attempts(evaluator, "none"), [doubled()], script, TOKENIZER, 300).episodes
    assert script.contexts == [[doubled().statement]] * 3
    assert (one.reward, one.passed, one.truncated) == (1.0, True, False)


def test_hidden_tests_are_told_to_nobody(evaluator: Any) -> None:
    """Markers in the hidden tests, and programs that print all they can read."""
    hidden = [{"stdin": "7\n", "expected": "MARK-17\n"}, {"stdin": "8\n", "expected": "MARK-18\n"}]
    marked = Problem(**{**vars(doubled()), "tests": (*doubled().tests[:4], *hidden)})
    script = Script([RIGHT, fenced("print(0)")], [fenced("print(1)")], [RIGHT])
    played = play(Attempts(evaluator), [marked] * 2, script, TOKENIZER, 500)
    seen = [text for contexts in script.contexts for text in contexts]
    seen += [TOKENIZER.decode(one.prompt + one.ids) for one in played.episodes]
    assert len(played.episodes[1].turns) == 3
    assert not any("MARK" in text for text in seen)
    searching = (
        "```python\nimport gc, os, sys\nheld = repr(gc.get_objects()) + repr(os.environ) + "
        "repr(sys.argv) + sys.stdin.read()\n"
        "if 'mark'.upper() + '-1' in held: sys.exit(9)\nprint('nothing found')\n```"
    )
    alone = Problem(**{**vars(marked), "tests": tuple(hidden), "metadata": {"public": 0}})
    (found,) = judge([alone], [searching], "rlef", evaluator)
    assert found.message == "WA"  # it ran to its end


def test_problems_and_demonstrations() -> None:
    train, test = load_turns("train"), load_turns("test")
    names = [{one.metadata["program"] for one in split} for split in (train, test)]
    shown = [
        {
            (one.metadata["program"], *(test["stdin"] for test in one.tests[:PUBLIC]))
            for one in split
        }
        for split in (train, test)
    ]
    assert len(train) == 1000
    assert len(test) == 120
    assert len(names[0] & names[1]) > 50  # else what training prefers is wrong in the other
    assert not shown[0] & shown[1]
    for problem in test:
        inputs = tuple(int(one["stdin"]) for one in problem.tests[:PUBLIC])
        assert split_of(f"turns {problem.metadata['program']} {inputs}") == "test"
        assert len(problem.tests) == 10
        assert problem.metadata["public"] == PUBLIC
        assert problem.statement.count("\nin ") == 1
    stream = demonstrations(0)
    for _ in range(200):
        said, text = next(stream)
        assert TOKENIZER.decode(TOKENIZER(said + text)["input_ids"]) == said + text
