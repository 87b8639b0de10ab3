"""A sub-agent that searches a repository and answers with files and lines (SWE-grep).

Sources: SWE-grep (Cognition 2025, cognition.ai/blog/swe-grep, behind Windsurf's Fast Context): at
most 8 calls side by side in each of at most four turns, three of which explore, rewarded with the
mean of F-beta, beta .5, on files and on lines. FastContext (Zhang et al. 2026, arXiv 2606.14066)
punishes format errors, empty answers and those that are too wide. Here each of these is worth 0,
and so is an episode without an answer; a malformed turn ends it.

Repositories and tools: :mod:`mcbench.nano.search`; the tools look at text in this process. The
solver whom the answer shall help is no model: it runs the functions of which it is shown every line
on hidden inputs, so that it solves a problem only with all that the function calls before it. It
decides ``passed``, and the reward ``tests``. ``f05_1`` to ``f05_3`` are what the lines that the
tools have shown until then would be worth as an answer, from the answer on what that is worth.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from mcbench.data.schema import Problem
from mcbench.nano.search import ANSWER, TURNS, Place, load_search, look, observation
from mcbench.tasks.base import TESTS, Judged, Task, alone, outcome, run_programs
from mcbench.tasks.multi_turn import Environment, Step

BETA = 0.5
CALLS, MAX_TURN = 8, 1000
"""Calls of a turn, and its characters."""
MOST_FILES, MOST_LINES = 6, 24
"""Of an answer, which has about a hundred lines to choose from."""
RANGE = re.compile(r"(\S{1,40}) (\d{1,3}) (\d{1,3})")
NAMED_F05, DEFINITION_F05 = 0.4962, 0.8709
"""What all lines that hold the name asked for are worth, and the lines of its definition alone,
mean over ``search:test``; claim F3 asks for more."""
MALFORMED, EMPTY, WIDE, UNANSWERED = "malformed", "empty", "too wide", "no answer"


def f_beta(found: Set[Any], true: Set[Any]) -> float:
    """(1 + b²) P R / (b² P + R) with P = both / found and R = both / true; 0 where nothing is."""
    both = len(found & true)
    return (1 + BETA**2) * both / (BETA**2 * len(true) + len(found)) if both else 0.0


def score(found: Set[Place], problem: Problem) -> dict[str, float]:
    """F of the files, of the lines, and ``f05``, their mean."""
    true = {(path, n) for path, i, j in problem.metadata["needed"] for n in range(i, j + 1)}
    lines, files = f_beta(found, true), f_beta({p for p, _ in found}, {p for p, _ in true})
    return {"files": files, "lines": lines, "f05": (files + lines) / 2}


def answer_of(text: str) -> tuple[set[Place], str]:
    """The lines that an answer names, and what is wrong with it."""
    found: set[Place] = set()
    for line in text.removeprefix(ANSWER).rstrip("\n").split("\n") if text != ANSWER else ():
        named = RANGE.fullmatch(line)
        if not named or int(named[2]) > int(named[3]):
            return set(), MALFORMED
        found |= {(named[1], n) for n in range(int(named[2]), int(named[3]) + 1)}
    if len(found) > MOST_LINES or len({path for path, _ in found}) > MOST_FILES:
        return set(), WIDE
    return found, "" if found else EMPTY


def program(problem: Problem, found: Set[Place]) -> str:
    """The functions of which every line was found, and a call of the one that was asked for."""
    text = ""
    for path, lines in problem.metadata["files"].items():
        heads = [n for n, line in enumerate(lines, 1) if line.startswith("def ")]
        for i, j in pairwise([*heads, len(lines) + 1]):
            if all((path, n) in found for n in range(i, j)):
                text += "\n".join([*lines[i - 1 : j - 1], ""])
    return f"{text}print({problem.metadata['name']}(list(map(int, input().split()))))\n"


class Search:
    """The environment: searches that go on side by side, one evaluator call a turn."""

    def __init__(self, evaluator: Any, reward: str = "f05", turns: int = TURNS) -> None:
        self.evaluator, self.reward, self.turns = evaluator, reward, turns

    def reset(self, problems: Sequence[Problem]) -> list[str]:
        self._problems, self._turn = problems, 0
        self._seen: list[set[Place]] = [set() for _ in problems]
        return [problem.statement for problem in problems]

    def step(self, actions: Mapping[int, str], last: Collection[int]) -> dict[int, Step]:
        self._turn += 1
        looked = {i: self._look(i, text) for i, text in actions.items()}
        answers = {
            i: answer_of(text)
            for i, text in actions.items()
            if text.startswith(ANSWER) and len(text) <= MAX_TURN
        }
        right = {i: found for i, (found, wrong) in answers.items() if not wrong}
        problems = [self._problems[i] for i in right]
        programs = [program(p, found) for p, found in zip(problems, right.values(), strict=True)]
        results = dict(zip(right, run_programs(problems, programs, self.evaluator), strict=True))
        steps = {}
        for i in actions:
            told = looked[i]
            if i in right:
                steps[i] = self._ended(i, *outcome(results[i]), right[i])  # type: ignore[arg-type]
            elif i in answers or told is None or self._turn == self.turns:
                wrong = answers[i][1] if i in answers else UNANSWERED if told else MALFORMED
                steps[i] = self._ended(i, False, wrong, set())
            else:
                cut = self._ended(i, False, UNANSWERED, set()).parts if i in last else {}
                so_far = score(self._seen[i], self._problems[i])["f05"]
                verdict = UNANSWERED if i in last else "exploring"
                parts = {**cut, f"f05_{self._turn}": so_far}
                steps[i] = Step(told, 0.0, False, False, verdict, parts)
        return steps

    def close(self) -> None:
        self._problems, self._seen = (), []

    def _look(self, i: int, text: str) -> str | None:
        """What the tools show for a turn that calls them; None where it is none."""
        calls = text.rstrip("\n").split("\n")
        if len(text) > MAX_TURN or len(calls) > CALLS:
            return None
        results = [look(self._problems[i].metadata["files"], call) for call in calls]
        if None in results:
            return None
        self._seen[i] |= {place for one in results if one for place in one[1]}
        return observation([one[0] for one in results if one], self._turn)

    def _ended(self, i: int, passed: bool | None, wrong: str, found: Set[Place]) -> Step:
        parts = score(found, self._problems[i]) | {"malformed": float(wrong == MALFORMED)}
        parts |= {f"f05_{turn}": parts["f05"] for turn in range(self._turn, TURNS)}
        reward = None if passed is None else parts["f05"] if self.reward != TESTS else float(passed)
        return Step(None, reward, True, passed, wrong or "AC", parts)


def environment(evaluator: Any, feedback: str, training: bool, reward: str = TESTS) -> Environment:
    """The same in training and evaluations."""
    return Search(evaluator, reward)


def judge(
    problems: Sequence[Problem], responses: Sequence[str], reward: str, evaluator: Any
) -> list[Judged]:
    """A response alone, which must answer at once."""
    return [
        Judged(one.reward, one.passed, one.parts, "" if one.passed else one.verdict)
        for one in alone(Search(evaluator, reward, turns=1), problems, responses)
    ]


def named(problem: Problem) -> set[Place]:
    """Every line that holds the name that is asked for: what one search finds, without a model."""
    files, name = problem.metadata["files"], problem.metadata["name"]
    return {(p, n) for p, lines in files.items() for n, x in enumerate(lines, 1) if name in x}


TASK = Task(
    "search",
    ("search:train", "search:test"),
    lambda name: load_search("train" if name.endswith("train") else "test"),
    (TESTS, "f05"),
    judge,
    environment=environment,
    feedback=("results",),
)
