"""Repair: generated bugs to be fixed, and tests to be written that show them.

A bug is a line of a described pipeline's program that was mutated (:mod:`mcbench.data.mutants`),
which the problem's tests notice. The prompt shows the statement and the program with the bug; the
right program and the tests stay here. Two roles, the ``kind`` of a problem (Kimi-Dev, Yang et al.
2025, arXiv 2509.23045):

- ``fix``: answer with a thought and search/replace edits, as in SWE-RL (Wei et al. 2025, arXiv
  2502.18449; code: facebookresearch/swe-rl, ``core/reward.py``). It passed if the edited program
  passes all hidden tests.
- ``write``: answer with a thought and a test, an input line and what is printed for it. It passed
  if the program with the bug fails it **and** the right one passes it. What the right one prints is
  computed here: no child process ever gets that program.

Rewards: ``tests`` is Kimi-Dev's 1 or 0, whatever went wrong. ``similarity`` is SWE-RL's: -1 for any
error of format (a tag that does not occur exactly once, an empty thought, no edit, search equal to
replacement, a text that does not occur at the start of a line), else the mean over the union of the
changed files of difflib's ratio (without autojunk) of the two unified diffs (3 lines of context, no
file headers); a file that only one side changes counts 0, no change on either side is 1. It has no
other reward for ``write``, which keeps 1 or 0. An answer of more than ``MAX_ANSWER`` characters is
an error of format here: SWE-RL leaves length to the limit of tokens.

:func:`summary` is Kimi-Dev's choice of a patch at test time: with F and P the written tests that
fail and pass before any patch, patch i scores (of F passed after it) / |F| + (of P) / |P|.
"""

from __future__ import annotations

import difflib
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mcbench.data.mutants import mutants
from mcbench.data.schema import Problem
from mcbench.evaluator import Submission
from mcbench.evaluator.submission import StdioTest
from mcbench.worlds import described
from mcbench.worlds.base import TESTS, Judged, Task, outcome, run_submissions
from mcbench.worlds.problems import (
    Split,
    described_problem,
    draw_described,
    execute,
    pipeline_named,
)
from mcbench.worlds.words import FENCE_CLOSE, FENCE_OPEN, GIVE_UPS

UNSOLVED = Path(__file__).with_name("repair_unsolved.json")
"""Ids of the bugs to train on that the base never fixed, and of how many attempts."""
SIZES = {"train": 300, "test": 60}
"""Bugs of a split; each is a problem to fix and one to write a test for."""
DEPTHS = (2, 3, 4)
MAX_ANSWER = 4000
MAX_VALUES = 12
"""Numbers in the input of a written test."""
PATH = "main.py"
FIX, WRITE, BREAK = "fix", "write", "break"
SAID = {FIX: "Fix the bug.", WRITE: "Write a test that fails.", BREAK: "Break the code."}
"""How a prompt begins, by role; the last is self-play's (:mod:`.self_play`)."""
TAGS = ("<think>", "</think>", "<solution>", "</solution>")
EDIT = re.compile(
    r"```.*?\n### (.*)\n<<<<<<< SEARCH\n([\s\S]*?)\n=======\n([\s\S]*?)\n>>>>>>> REPLACE\n```"
)
TEST = re.compile(r"<test>\nin((?: \d{1,6})+) out((?: -?\d{1,9})*)\n</test>\s*")
OK, NO = " ok\n", " no\n"
PHRASES = (
    *(f"{SAID[role]}\nSteps: " for role in (FIX, WRITE)),
    *("\nCode:\n", "Answer:\n", "<think>\n", "</think>\n", "<solution>\n", "\n</solution>"),
    *(f"### {PATH}\n", "<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n"),
    *("<test>\nin", "\n</test>", OK, NO),
    *("[v", " for v in a", " if v", " //", " >=", " <=", " ==", " !=", "[::"),
)


class FormatError(Exception):
    """What is wrong with an answer."""


# SWE-RL's reward ----------------------------------------------------------------------------------


def _check_form(answer: str, tags: Sequence[str]) -> None:
    if len(answer) > MAX_ANSWER:
        raise FormatError("oversized")
    if any(answer.count(tag) != 1 for tag in tags):
        raise FormatError("tags")
    if not answer.split(TAGS[0])[1].split(TAGS[1])[0].strip():
        raise FormatError("no thought")


def edits_of(answer: str) -> dict[str, list[tuple[str, str]]]:
    """The (search, replacement) pairs of an answer by path.

    Raises:
        FormatError: a tag does not occur exactly once, an empty thought, no edit.
    """
    _check_form(answer, TAGS)
    found: dict[str, list[tuple[str, str]]] = {}
    for path, search, put in EDIT.findall(answer.split(TAGS[2])[1].split(TAGS[3])[0].strip()):
        found.setdefault(path, []).append((search, put))
    if not found:
        raise FormatError("no edit")
    return found


def edited(files: dict[str, str], edits: dict[str, list[tuple[str, str]]]) -> dict[str, str]:
    """The files that are edited, by path, as they are afterwards: every occurrence of a search text
    that starts a line is replaced.

    Raises:
        FormatError: search and replacement are equal, or the text is not there.
    """
    changed = {}
    for path, pairs in edits.items():
        text = "\n" + files.get(path, "")
        for search, put in pairs:
            if search == put:
                raise FormatError("no change")
            if "\n" + search not in text:
                raise FormatError("not found")
            text = text.replace("\n" + search, "\n" + put)
        changed[path] = text[1:]
    return changed


def diff(old: str, new: str) -> str:
    """The unified diff with 3 lines of context and no file headers; empty where nothing changed."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=3, lineterm="")
    return "\n".join(list(lines)[2:])


def similarity(files: dict[str, str], ours: dict[str, str], gold: dict[str, str]) -> float:
    """SWE-RL's reward of edited files against the right ones, 0 to 1."""
    sides = [
        {path: found for path, new in side.items() if (found := diff(files.get(path, ""), new))}
        for side in (ours, gold)
    ]
    paths = sides[0].keys() | sides[1].keys()
    if not paths:
        return 1.0
    ratios = [
        difflib.SequenceMatcher(None, sides[0][path], sides[1][path], autojunk=False).ratio()
        for path in sides[0].keys() & sides[1].keys()
    ]
    return sum(ratios) / len(paths)


# What an answer is --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """A patched program, or a test, or what is wrong with the answer."""

    program: str = ""
    similarity: float = 0.0
    test: StdioTest | None = None
    error: str = ""


def read(problem: Problem, text: str) -> Answer:
    """What a response is to a problem of either kind."""
    try:
        if problem.kind == WRITE:
            return Answer(test=_written(text))
        files = {PATH: problem.metadata["buggy"]}
        changed = edited(files, edits_of(text))
        alike = similarity(files, changed, {PATH: problem.references[0]})
        return Answer(changed.get(PATH, files[PATH]), alike)
    except FormatError as error:
        return Answer(error=str(error))


def _written(text: str) -> StdioTest:
    _check_form(text, TAGS[:2])
    found = TEST.fullmatch(text.split(TAGS[1])[1].lstrip())
    if found is None:
        raise FormatError("no test")
    if len(found[1].split()) > MAX_VALUES:
        raise FormatError("oversized")
    return StdioTest(found[1].strip() + "\n", found[2].strip() + "\n")


def right_output(problem: Problem, stdin: str) -> str:
    """What the right program prints, computed from the pipeline that the problem names."""
    named = pipeline_named(problem.metadata["program"])
    assert named is not None  # written by this module
    value = described.run(*named, list(map(int, stdin.split())))
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _submission(problem: Problem, answer: Answer) -> Submission | None:
    """What is run for an answer: the patched program on the hidden tests, or the program with the
    bug on a written test, unless that is wrong anyway.
    """
    if answer.error:
        return None
    if answer.test is None:
        return problem.submission(answer.program)
    right = right_output(problem, answer.test.stdin)
    if right.split() != answer.test.expected.split():
        return None
    return Submission(problem.metadata["buggy"], [answer.test])


def judge(
    problems: Sequence[Problem], responses: Sequence[str], reward: str, evaluator: Any
) -> list[Judged]:
    """Both roles; see the module."""
    answers = [read(*both) for both in zip(problems, responses, strict=True)]
    asked = [_submission(*both) for both in zip(problems, answers, strict=True)]
    results = run_submissions(asked, evaluator)
    judged = []
    for problem, answer, result in zip(problems, answers, results, strict=True):
        written = problem.kind == WRITE
        passed: bool | None = False
        message = answer.error or "wrong output"
        if result is not None:
            passed, message = outcome(result)
            if written and passed is not None:  # it shows the bug where the program fails
                passed, message = not passed, "" if not passed else "bug not shown"
        malformed = bool(answer.error)
        parts = {"malformed": float(malformed)}
        if passed is not None:
            parts["killed" if written else "fixed"] = float(passed)
        value: float | None = None if passed is None else float(passed)
        if not written:
            parts["similarity"] = answer.similarity
            if reward == "similarity":
                value = -1.0 if malformed else answer.similarity
        judged.append(Judged(value, passed, parts, message))
    return judged


def scores(before: Sequence[bool], after: Sequence[Sequence[bool]]) -> list[float]:
    """Kimi-Dev's score of every patch: which tests pass ``before`` any, and ``after`` each."""
    passing, passed = np.array(before, bool), np.array(after, bool)
    shares = [passed[:, which].sum(1) / max(1, which.sum()) for which in (~passing, passing)]
    return list((shares[0] + shares[1]).tolist())


def summary(
    problems: Sequence[Problem], responses: Sequence[Sequence[str]], evaluator: Any
) -> dict[str, float]:
    """Shares of bugs fixed by the patch that written tests choose (``selected``), by a patch at
    random (``single``) and by any (``any``), over bugs with both roles and at least one patch.
    """
    bugs: dict[str, dict[str, tuple[Problem, list[Answer]]]] = defaultdict(dict)
    for problem, texts in zip(problems, responses, strict=True):
        answers = [read(problem, text) for text in texts]
        bugs[problem.metadata["bug"]][problem.kind] = problem, answers
    runs: list[Submission] = []
    places = []
    for roles in bugs.values():
        if set(roles) != {FIX, WRITE}:
            continue
        problem, answers = roles[FIX]
        tests = [one.test for one in roles[WRITE][1] if one.test is not None]
        programs = [problem.metadata["buggy"], *(one.program for one in answers if not one.error)]
        places.append((len(programs), len(problem.tests), len(answers)))
        for program in programs:
            hidden = problem.submission(program)
            runs.append(replace(hidden, tests=[*hidden.tests, *tests]))
    results = iter(evaluator.evaluate(runs) if runs else [])
    found = []
    for n_programs, n_hidden, n_answers in places:
        passes = [[one == "AC" for one in next(results).verdicts] for _ in range(n_programs)]
        right = [all(row[:n_hidden]) for row in passes[1:]]
        if not right:
            found.append((0.0, 0.0, 0.0))
            continue
        before, *after = (row[n_hidden:] for row in passes)
        best = scores(before, after)
        chosen = right[best.index(max(best))]
        found.append((float(chosen), sum(right) / n_answers, float(any(right))))
    if not found:
        return {}
    means = np.mean(found, axis=0).tolist()
    return dict(zip(("selected", "single", "any"), means, strict=True))


# Problems and demonstrations ----------------------------------------------------------------------


@cache
def wrong_lines(line: str) -> tuple[str, ...]:
    """The mutants of one line of a program."""
    return tuple(one.strip() for one in mutants(line, 40))


def draw_task(rng: random.Random, split: Split) -> described.Described:
    """A pipeline of a split, some line of which has a mutant."""
    while True:
        task = replace(draw_described(rng, split), form="stdin")
        found = any(wrong_lines(described.step_line(step)) for step in task.steps)
        if found and len(task.steps) in DEPTHS:
            return task


def with_bug(rng: random.Random, task: described.Described) -> tuple[str, int]:
    """The program of a pipeline with one line mutated, and the place of its step."""
    places = [i for i, one in enumerate(task.steps) if wrong_lines(described.step_line(one))]
    place = rng.choice(places)
    lines = described.program(task.steps, task.final, "stdin").splitlines()
    lines[place + 1] = rng.choice(wrong_lines(lines[place + 1]))
    return "\n".join(lines) + "\n", place


def is_noticed(program: str, tests: Sequence[dict[str, Any]]) -> bool | None:
    """Whether tests tell a mutant from the right program; None where it breaks off on one."""
    try:
        outputs = [execute(program, "stdin", test["stdin"]).split() for test in tests]
    except Exception:  # a mutant may fail in any way
        return None
    return outputs != [test["expected"].split() for test in tests]


def drawn_bug(rng: random.Random, split: Split) -> tuple[Problem, str] | None:
    """A pipeline's problem and its program with a bug; None where the tests see none."""
    task = draw_task(rng, split)
    buggy, _ = with_bug(rng, task)
    problem = described_problem(task, rng)
    if problem is None or is_noticed(buggy, problem.tests) is False:
        return None
    return problem, buggy


def prompt(statement: str, program: str, said: str) -> str:
    """What is asked: what is ``said`` of the role, the steps of a statement, the program."""
    _, _, steps = statement.partition("\nSteps: ")
    steps = re.split(r"\n(?:Answer|Code):\n", steps)[0]
    return f"{said}\nSteps: {steps}\nCode:\n### {PATH}\n{program}Answer:\n"


def as_role(role: str, problem: Problem, program: str, **about: Any) -> Problem:
    """The problem of a role, in which a program is shown; ``about`` is what else is its own."""
    shown = prompt(problem.statement, program, SAID[role])
    return replace(problem, statement=shown, kind=role, **about)


@cache
def load(name: str) -> tuple[Problem, ...]:
    """The problems of a set, both roles of a bug one after the other; ``repair-fix`` has one.

    Those that the base never fixed (``UNSOLVED``) have pass rate 0.
    """
    never = set(json.loads(UNSOLVED.read_text())["ids"]) if UNSOLVED.exists() else set()
    kind, _, which = name.partition(":")
    split: Split = "test" if which == "test" else "train"
    rng = random.Random(f"repair-{split}")
    found: list[Problem] = []
    seen: set[str] = set()
    while len(seen) < SIZES[split]:
        drawn = drawn_bug(rng, split)
        if drawn is None:
            continue
        problem, buggy = drawn
        if (shown := prompt(problem.statement, buggy, SAID[FIX])) in seen:
            continue
        seen.add(shown)
        bug = f"{problem.id.rpartition('/')[2]}-{len(seen)}"
        about = {**problem.metadata, "bug": bug, "buggy": buggy}
        for role in (FIX, WRITE) if kind == "repair" else (FIX,):
            name = f"repair/{role}/{bug}"
            rate = 0.0 if name in never else None
            more = {"id": name, "pass_rate": rate, "source": "repair", "metadata": about}
            found.append(as_role(role, problem, buggy, **more))
    return tuple(found)


LOOK, SEE, SLIP, STEP_SLIP = 0.5, 0.9, 0.1, 0.06
"""Of the demonstrator: it looks at the steps one by one, else at none; it sees the bug, and takes
no right line for one; it slips in a line; it slips in a step of a calculation."""


def fixing(rng: random.Random, task: described.Described, buggy: str, place: int) -> str:
    """A response to ``fix``: the steps compared with the lines until one does not fit."""
    lines = buggy.splitlines()[1:]
    thought, at = "", rng.randrange(len(task.steps))
    if rng.random() < LOOK:
        for i, step in enumerate(task.steps):
            thought += described.step_name(step)
            if (rng.random() < SEE) if i == place else (rng.random() > 0.98):
                thought, at = thought + NO, i
                break
            thought += OK
    if not thought.endswith(NO):
        thought += rng.choice(GIVE_UPS)
    step = described.draw_step(rng) if rng.random() < SLIP else task.steps[at]
    return written_edit(thought, lines[at], described.step_line(step).strip())


def written_edit(thought: str, line: str, put: str) -> str:
    """An answer that replaces one line."""
    return (
        f"<think>\n{thought}</think>\n<solution>\n{FENCE_OPEN}### {PATH}\n<<<<<<< SEARCH\n"
        f"{line}\n=======\n{put}\n>>>>>>> REPLACE\n{FENCE_CLOSE}\n</solution>"
    )


def writing(rng: random.Random, task: described.Described) -> str:
    """A response to ``write``: an input, what each step makes of it, and the test."""
    values = [rng.randint(1, 9) for _ in range(rng.choice((3, 3, 4)))]
    told = " ".join(["", *map(str, values)])
    now, thought = values, ""
    for step in task.steps:
        now = list(described.run((step,), 0, now))  # type: ignore[call-overload]
        if rng.random() < STEP_SLIP and now:
            now[rng.randrange(len(now))] += rng.choice((-1, 1))
        thought += described.step_name(step) + ":" + "".join(f" {value}" for value in now) + "\n"
    final = described.run((), task.final, now)
    out = "".join(f" {value}" for value in (final if isinstance(final, list) else [final]))
    return f"<think>\n{told}\n{thought}</think>\n<test>\nin{told} out{out}\n</test>"


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of prompts and responses, without pipelines of the test split."""
    rng = random.Random(f"repair-corpus-{seed}")
    while True:
        task = draw_task(rng, "train")
        buggy, place = with_bug(rng, task)
        if rng.random() < 0.5:
            yield prompt(task.statement(), buggy, SAID[FIX]), fixing(rng, task, buggy, place)
        else:
            yield prompt(task.statement(), buggy, SAID[WRITE]), writing(rng, task)


TASK = Task(
    "repair",
    ("repair:train", "repair:test", "repair-fix:train"),
    load,
    (TESTS, "similarity"),
    judge,
    summary,
)
