"""Three attempts at a program, with a failing public test as feedback (RLEF).

Source: RLEF (Gehring et al. 2025, arXiv 2410.02089), section 2: after each attempt
the public tests run; where one fails the model is told and tries again, at most three times; at the
end +1 where all tests pass, public and hidden, else -1, and -0.2 for every turn before that without
valid code. The paper's KL term and its critic of turns are left out, which gives a turn the sum of
the rewards from it on, less what it was expected to be: the advantage here is GRPO's, of the sum
over the episode, so that a later turn bears the -0.2 of an earlier one.

Feedback is ``failing`` (the first public test that failed), ``shuffled`` (what an episode with
another problem is told: as many tokens, nothing to learn) or ``none``: one attempt in training, and
in evaluations three from the prompt, of which the first counts that passes the public tests, else
the last.

The statement shows one example of a hidden function ``feature(x) + k``, which leaves about seven
functions open: what a failing test tells is the only way to know which. The demonstrator is honest
but weak: it makes use of what it was told in half of its turns, gives up early, and now and then
writes no program.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal, get_args

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import extract_code
from mcbench.evaluator.reward import NO_CODE
from mcbench.worlds import induced
from mcbench.worlds.base import TESTS, Judged, Task, judged_alone, run_programs
from mcbench.worlds.corpus import answer, hypothesis, search_order
from mcbench.worlds.multi_turn import Environment, Step
from mcbench.worlds.problems import Split, induced_programs, name_of, split_of, test_of
from mcbench.worlds.words import EOS, GIVE_UPS

SHOWN, PUBLIC = 1, 4
"""Of a problem's tests the first ``PUBLIC`` may be shown, and so many are in the statement."""
TURNS = 3
SIZES = {"train": 1000, "test": 120}
EVERY = induced_programs("train") + induced_programs("test")


def feedback(x: int, y: int) -> str:
    """What is said of a failing public test: its input and what was expected."""
    return f"\nin {x} out {y}\nAnswer:\n"


NO_PROGRAM_FEEDBACK = "\nAnswer:\n"


def draw(
    rng: random.Random, programs: tuple[tuple[int, int], ...], split: Split
) -> tuple[induced.Induced, tuple[int, ...]]:
    """A problem with the examples its statement shows, and all inputs in the order of its tests:
    the public ones first, of which the first are shown.
    """
    while True:
        feature, k = induced.draw_program(rng, programs)
        public = rng.sample(induced.DOMAIN[1:], PUBLIC)
        inputs = (*public, *(x for x in induced.DOMAIN if x not in public))
        table = induced.values(feature, k)
        examples = tuple((x, table[x]) for x in inputs[:SHOWN])
        task = induced.Induced(feature, k, examples, "stdin")
        if split_of(f"turns {task.key} {inputs[:PUBLIC]}") == split:
            return task, inputs


@cache
def load_turns(split: Split) -> tuple[Problem, ...]:
    """The problems of a split. Both have all hidden functions: one example leaves several, and to
    learn which of them occur in training would make every other a worse guess. What is kept apart
    is the function with its public examples in their order, by a hash; a statement, which shows one
    example, recurs, and so do the examples in another order (8 of the 120 of the test).
    """
    rng, programs = random.Random(f"turns-{split}"), EVERY
    found: dict[str, Problem] = {}
    while len(found) < SIZES[split]:
        task, inputs = draw(rng, programs, split)
        source = induced.program(task.feature, task.k, "stdin")
        name = name_of(f"{task.key} {inputs}")
        found.setdefault(
            name,
            Problem(
                id=f"turns/{name}",
                statement=task.statement(),
                form="stdin",
                tests=tuple(test_of(source, "stdin", x) for x in inputs),
                difficulty=task.difficulty,
                kind="induced",
                source="turns",
                references=(source,),
                metadata={"program": task.key, "public": PUBLIC},
            ),
        )
    return tuple(found.values())


HEED, GIVE_UP, LOOP, BLANK = 0.5, 0.25, 0.005, 0.05
"""Of the demonstrator: that a turn makes use of the feedback, not of the statement alone; that a
search ends before the next hypothesis, or falls into a loop with one; that a turn has no program.
"""


def attempt(
    rng: random.Random, examples: tuple[tuple[int, int], ...]
) -> tuple[str, tuple[int, int] | None]:
    """One turn: a search for a function that fits the examples, and the program (feature,
    constant) that it ends in; None without one.
    """
    text = ""
    last: tuple[int, int] | None = None
    for feature in search_order(rng):
        if last is not None and rng.random() < GIVE_UP:
            text += rng.choice(GIVE_UPS)
            break
        line, k, fits = hypothesis(rng, feature, examples)
        if rng.random() < LOOP:
            return text + line * 20, None
        text += line
        last = last if k is None else (feature, k)
        if fits:
            break
    if last is None or rng.random() < BLANK:
        return text, None
    return text + answer(rng, *last, "stdin"), last


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of (what was said so far, the next turn), without problems of the test
    split.
    """
    rng = random.Random(f"turns-corpus-{seed}")
    while True:
        task, inputs = draw(rng, EVERY, "train")
        table = induced.values(task.feature, task.k)
        public = tuple((x, table[x]) for x in inputs[:PUBLIC])
        said, known = task.statement(), public[:SHOWN]
        for _ in range(TURNS):
            heeded = known if rng.random() < HEED else known[:SHOWN]
            text, found = attempt(rng, heeded)
            yield said, text
            if found is None:
                said += f"{text}{EOS}{NO_PROGRAM_FEEDBACK}"
                continue
            guessed = induced.values(*found)
            failing = next(((x, y) for x, y in public if guessed[x] != y), None)
            if failing is None:
                break
            said += f"{text}{EOS}{feedback(*failing)}"
            known += (failing,) if failing not in known else ()


SOLVED, FAILED, NO_PROGRAM = 1.0, -1.0, -0.2
Feedback = Literal["failing", "shuffled", "none"]


class Attempts(Environment):
    """The environment: attempts at problems that are judged together, one evaluator call a turn."""

    def __init__(self, evaluator: Any, feedback: Feedback = "failing", turns: int = TURNS) -> None:
        self.evaluator, self.feedback, self.turns = evaluator, feedback, turns
        self._problems: Sequence[Problem] = ()
        self._turn = 0

    def reset(self, problems: Sequence[Problem]) -> list[str]:
        self._problems, self._turn = problems, 0
        return [problem.statement for problem in problems]

    def step(self, actions: Mapping[int, str], last: Collection[int]) -> dict[int, Step]:
        self._turn += 1
        places = list(actions)
        problems = [self._problems[i] for i in places]
        programs = [extract_code(actions[i]) for i in places]
        results = run_programs(problems, programs, self.evaluator)
        verdicts = [NO_CODE if one is None else ",".join(one.verdicts) for one in results]
        told = dict(zip(places, map(self._told, problems, verdicts), strict=True))
        if self.feedback == "shuffled":
            told = self._shuffled(told)
        found = {}
        for i, problem, verdict in zip(places, problems, verdicts, strict=True):
            failing = failing_test(problem, verdict)
            done = failing is None or self._turn == self.turns or "IE" in verdict
            passed = None if "IE" in verdict else set(verdict.split(",")) == {"AC"}
            reward = None if passed is None else turn_reward(verdict, passed, done or i in last)
            if self.feedback == "none":  # told to a trainer alone, see token_credit="feedback"
                learned = told[i] if failing is not None and self.turns == 1 else ""
                found[i] = Step(None, reward, done, passed, verdict, told=learned)
            else:
                found[i] = Step(told[i], reward, done, passed, verdict)
        return found

    @staticmethod
    def _told(problem: Problem, verdict: str) -> str:
        """What is said of an attempt that goes on."""
        failing = failing_test(problem, verdict)
        if failing is None or verdict == NO_CODE:
            return NO_PROGRAM_FEEDBACK
        test = problem.tests[failing]
        return feedback(int(test["stdin"]), int(test["expected"]))

    def _shuffled(self, told: Mapping[int, str]) -> dict[int, str]:
        """To each episode that failed what another one that failed another problem was told, from
        half of them on; where there is none, nothing.
        """
        failed = [i for i, text in told.items() if text != NO_PROGRAM_FEEDBACK]
        found = dict(told)
        for at, i in enumerate(failed):
            ahead = failed[at:] + failed[:at]
            ahead = ahead[len(ahead) // 2 :] + ahead[: len(ahead) // 2]
            others = (j for j in ahead if self._problems[j].id != self._problems[i].id)
            other = next(others, None)
            found[i] = NO_PROGRAM_FEEDBACK if other is None else told[other]
        return found


def failing_test(problem: Problem, verdict: str) -> int | None:
    """The first public test that an attempt fails; 0 without a program, None where all pass."""
    if verdict == NO_CODE:
        return 0
    verdicts = verdict.split(",")
    public = int(problem.metadata["public"])
    return next((n for n, one in enumerate(verdicts[:public]) if one != "AC"), None)


def turn_reward(verdict: str, passed: bool, ends: bool) -> float:
    """Of one turn, which ``ends`` the episode or does not (section 2.2: the first case that holds,
    the last of them meant for "invalid code in non-final responses").
    """
    if ends:
        return SOLVED if passed else FAILED
    return NO_PROGRAM if verdict == NO_CODE else 0.0


def environment(
    evaluator: Any, feedback: Feedback, training: bool, reward: str = TESTS
) -> Environment:
    """The attempts of an arm: without feedback one in training, for there is nothing to go on. The
    reward of episodes is RLEF's.

    Raises:
        UserError: another reward in training.
    """
    if training and reward != "rlef":
        raise UserError(f"attempts with feedback={feedback} are rewarded with rlef, got {reward}")
    return Attempts(evaluator, feedback, 1 if training and feedback == "none" else TURNS)


def judge(
    problems: Sequence[Problem], responses: Sequence[str], reward: str, evaluator: Any
) -> list[Judged]:
    """A response alone, as an episode of one turn; ``tests`` rewards 1 or 0."""
    judged = judged_alone(Attempts(evaluator, "none", 1), problems, responses)
    if reward != TESTS:
        return judged
    return [replace(one, reward=one.passed and float(one.passed)) for one in judged]


TASK = Task(
    "turns",
    ("turns:train", "turns:test"),
    lambda name: load_turns("train" if name.endswith("train") else "test"),
    (TESTS, "rlef"),
    judge,
    environment=environment,
    feedback=get_args(Feedback),
    # Also where turns without a program came before the right one.
    thresholds={"rlef": ((SOLVED + (TURNS - 1) * NO_PROGRAM) / 2, FAILED / 2)},
)
