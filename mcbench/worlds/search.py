"""A sub-agent that searches a repository and answers with files and lines (SWE-grep).

Sources: SWE-grep (Cognition 2025, cognition.ai/blog/swe-grep, behind Windsurf's Fast Context): at
most 8 calls side by side in each of at most four turns, three of which explore, rewarded with the
mean of F-beta, beta .5, on files and on lines. FastContext (Zhang et al. 2026, arXiv 2606.14066)
punishes format errors, empty answers and those that are too wide. Here each of these is worth 0,
and so is an episode without an answer; a malformed turn ends it.

The solver whom the answer shall help is no model: it runs the functions of which it is shown every
line on hidden inputs, so that it solves a problem only with all that the function calls before it.
It decides ``passed``, and the reward ``tests``. ``f05_1`` to ``f05_3`` are what the lines that the
tools have shown until then would be worth as an answer, from the answer on what that is worth.

A repository is generated: twelve files, eight of three functions each, of which some call one or
two others, and four that only mention names. A query names a function; needed are its lines and
those of what it calls, which only the function itself tells. The tools are a search for a fixed
string, a list of files and a few lines of a file, on text in memory. The demonstrator acts on what
it was shown alone, often astray.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from mcbench.data.schema import Problem
from mcbench.worlds import described
from mcbench.worlds.base import TESTS, Judged, Task, judged_alone, outcome, run_programs
from mcbench.worlds.multi_turn import Environment, Step
from mcbench.worlds.problems import Split, test_of
from mcbench.worlds.words import EOS

SOURCES = tuple(f"{folder}/{letter}.py" for folder in ("core", "util") for letter in "abcd")
MENTIONS = tuple(f"test/{letter}.py" for letter in "abcd")
_WORDS = """\
acorn badge candle dune ember fable glove hatch ivory jolly kite ledge mint nest otter plume quilt
ridge spruce thorn umber velvet willow yarrow zebra amber birch cedar daisy elm frost grove"""
NAMES = tuple(_WORDS.split())
TURNS = 4
"""Of an episode: three to explore, and the answer."""
SPAN, HITS = 4, 6
"""Lines that a read shows, and hits that a search shows."""
ANSWER, NEXT, LAST, NONE, MORE = "answer\n", "Next:\n", "Last:\n", "none\n", "more\n"
PHRASES = (
    *(*SOURCES, *MENTIONS, *NAMES, ANSWER, NEXT, LAST, NONE, MORE),
    *("Find ", ".\n", "grep ", "glob ", "read ", "def ", ": ", "(a):", "(a)", "check(", "core/*"),
    *("util/*", "test/*", "    a = ", "    return "),
)
CALL = re.compile(r"(grep|glob) ([^\n]{1,40})|read (\S{1,40}) (\d{1,3})")
SIZES = {"train": 600, "test": 120}
_STEPS = tuple(op.code for op in described.OPS if not op.constants)
_FINALS = ("sum(a)", "len(a)", "max(a, default=0)")

Files = Mapping[str, Sequence[str]]
Place = tuple[str, int]
"""A line: its file and its number, from 1."""
Range = tuple[str, int, int]
"""A file, its first line and its last one."""


@dataclass(frozen=True)
class Repository:
    """Files, where each function stands, what it calls, and the function that is asked for."""

    files: Files
    ranges: Mapping[str, Range]
    calls: Mapping[str, tuple[str, ...]]
    name: str

    @property
    def needed(self) -> list[Range]:
        """The ranges of the function that is asked for and of what it calls."""
        return [self.ranges[name] for name in (self.name, *self.calls[self.name])]


def draw(rng: random.Random) -> Repository:
    """A repository, and a function of it that calls nothing, one or two others, alike often."""
    names = rng.sample(NAMES, 3 * len(SOURCES))
    leaves, callers = names[:14], names[14:]
    bodies: dict[str, list[str]] = {}
    calls: dict[str, tuple[str, ...]] = dict.fromkeys(leaves, ())
    for place, name in enumerate(leaves):  # of every other one a list comes out
        final = "a" if place % 2 else rng.choice(_FINALS)
        bodies[name] = [f"    a = {rng.choice(_STEPS)}", f"    return {final}"]
    for place, name in enumerate(callers):
        last = rng.choice(leaves)
        first = rng.choice([one for one in leaves[1::2] if one != last])
        calls[name] = (first, last) if place % 2 else (last,)
        bodies[name] = [f"    a = {rng.choice(_STEPS)}"] * (rng.random() < 0.5)
        bodies[name] += [f"    a = {first}(a)"] * (place % 2) + [f"    return {last}(a)"]
    asked = rng.choice((leaves, callers[::2], callers[1::2]))
    name = rng.choice(asked)
    rng.shuffle(names)
    files: dict[str, list[str]] = {}
    ranges: dict[str, Range] = {}
    for place, path in enumerate(SOURCES):
        lines = files[path] = []
        for one in names[3 * place : 3 * place + 3]:
            begin = len(lines) + 1
            lines += [f"def {one}(a):", *bodies[one]]
            ranges[one] = (path, begin, len(lines))
    files |= {path: [f"check({one})" for one in rng.sample(names, 4)] for path in MENTIONS}
    return Repository(files, ranges, calls, name)


def look(files: Files, call: str) -> tuple[str, set[Place]] | None:
    """What a tool shows, and which lines that are; None where the call is malformed. A pattern of
    ``glob`` has one star at most.
    """
    if not (found := CALL.fullmatch(call)):
        return None
    kind, text, path, line = found.groups()
    if kind == "glob":
        head, star, tail = text.partition("*")
        named = [p for p in files if p == text or (star and p[len(head) :].endswith(tail))]
        return "".join(f"{p}\n" for p in named if p.startswith(head)) or NONE, set()
    if kind == "grep":
        hits = [(p, n) for p, lines in files.items() for n, x in enumerate(lines, 1) if text in x]
        shown = "".join(f"{p} {n}: {files[p][n - 1]}\n" for p, n in hits[:HITS])
        return shown + MORE * (len(hits) > HITS) or NONE, set(hits[:HITS])
    first, lines = int(line), files.get(path, ())
    numbers = [n for n in range(first, first + SPAN) if 1 <= n <= len(lines)]
    shown = "".join(f" {n}: {lines[n - 1]}\n" for n in numbers)
    return (f"{path}\n{shown}" if shown else NONE), {(path, n) for n in numbers}


def observation(results: Sequence[str], turn: int) -> str:
    """What is shown after a turn (from 1) that explored; the last says that an answer is due."""
    return "\n" + "".join(results) + (LAST if turn == TURNS - 1 else NEXT)


@cache
def load_search(split: Split) -> tuple[Problem, ...]:
    """Queries on repositories of their own; which lines are needed is hidden."""
    rng = random.Random(f"search-{split}")
    found = []
    for number in range(SIZES[split]):
        one = draw(rng)
        bodies = ["\n".join(one.files[path][i - 1 : j]) for path, i, j in one.needed]
        source = "\n".join([*bodies, f"print({one.name}(list(map(int, input().split()))))", ""])
        inputs = [described.draw_input(rng) for _ in range(3)]
        found.append(
            Problem(
                id=f"search/{split}/{number}",
                statement=f"Find {one.name}.\n",
                form="stdin",
                tests=tuple(test_of(source, "stdin", values) for values in inputs),
                difficulty=("easy", "medium", "hard")[len(one.needed) - 1],
                kind=f"{len(one.needed)} functions",
                source="search",
                references=(source,),
                metadata={
                    "name": one.name,
                    "files": {path: list(lines) for path, lines in one.files.items()},
                    "needed": [list(place) for place in one.needed],
                },
            )
        )
    return tuple(found)


ASTRAY, EARLY, EXACT, SLIPS = 0.2, 0.15, 0.6, 0.02
"""Of the demonstrator: that a call is about something else, or an answer has one more range; that
it answers before all is known; that a range ends where the function does; that a turn is no call.
"""


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of (what was said so far, the next turn)."""
    rng = random.Random(f"search-corpus-{seed}")
    while True:
        one = draw(rng)
        said, seen, wanted, read = f"Find {one.name}.\n", set[Place](), [one.name], set[str]()
        for turn in range(1, TURNS + 1):
            known = [name for name in wanted if one.ranges[name][:2] in seen]
            calls = _calls(rng, one, wanted, known, read)
            if not calls or turn == TURNS or (known and rng.random() < EARLY):
                yield said, ANSWER + _answer(rng, one, known, seen)
                break
            if rng.random() < SLIPS:
                yield said, f"{calls[0].split(' ')[0]}\n"
                break
            text = "".join(f"{call}\n" for call in calls)
            yield said, text
            shown = [found for call in calls if (found := look(one.files, call))]
            said += text + EOS + observation([told for told, _ in shown], turn)
            seen |= {place for _, places in shown for place in places}
            if f"read {one.ranges[one.name][0]} {one.ranges[one.name][1]}" in calls:
                read, wanted = {one.name}, [one.name, *one.calls[one.name]]


def _calls(
    rng: random.Random,
    one: Repository,
    wanted: Sequence[str],
    known: Sequence[str],
    read: set[str],
) -> list[str]:
    """Search for what is wanted and not known, else read the function that is asked for."""
    calls = [f"grep {'def ' * (rng.random() < 0.4)}{name}" for name in wanted if name not in known]
    if not calls and not read:
        calls = ["read {} {}".format(*one.ranges[one.name])]
    others = ("glob core/*", "glob util/*", "glob test/*", f"grep {rng.choice(NAMES)}")
    return [rng.choice(others) if rng.random() < ASTRAY else call for call in calls]


def _answer(rng: random.Random, one: Repository, known: Sequence[str], seen: set[Place]) -> str:
    """The ranges of what is known, some of them too short or too long, and of something else where
    nothing is.
    """
    ranges = [one.ranges[name] for name in known]
    if not ranges or rng.random() < ASTRAY:
        path, line = rng.choice(sorted(seen) or [(rng.choice(SOURCES), 1)])
        ranges.append((path, line, line))
    ends = [j if rng.random() < EXACT else i + rng.randint(0, 4) for _, i, j in ranges]
    return "".join(f"{p} {i} {end}\n" for (p, i, _), end in zip(ranges, ends, strict=True))


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


class Search(Environment):
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
    return judged_alone(Search(evaluator, reward, turns=1), problems, responses)


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
