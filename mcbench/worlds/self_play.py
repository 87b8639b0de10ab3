"""Self-play on repair: one model writes bugs into right programs, and fixes them.

Source: Self-play SWE-RL (Wei et al. 2025, arXiv 2512.18552), known at second hand; its code is not
public. The injector is shown a right program (there a repository) and answers in the form of a fix
(:mod:`.repair`): a thought, and search/replace edits that break it. The bug is valid if the edits
apply and change the program, which then ends on every hidden test and is wrong on one: a program
that breaks off, or that no test tells from the right one, is none. The solver is shown the program
with the bug, and passes if all hidden tests pass. What either is rewarded with is the trainer's
(:mod:`mcbench.grpo.self_play`).

Every set is of the same ``PROGRAMS`` programs, as an injector has a fixed number of repositories:

- ``self-play:train`` has one bug of each, a mutated line that its tests notice;
- ``self-play-mutants:train`` every such mutant of each: bugs at random, without a model;
- ``self-play:test`` has ``HELD_OUT`` bugs in programs of the test split.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from mcbench.data.schema import Problem
from mcbench.worlds import described, repair
from mcbench.worlds.base import TESTS, Judged, Poser, Task
from mcbench.worlds.problems import Split, name_of
from mcbench.worlds.repair import BREAK, FIX, SAID

PROGRAMS, HELD_OUT = 48, 120
PHRASES = (f"{SAID[BREAK]}\nSteps: ", *repair.PHRASES)


# What an injection is -----------------------------------------------------------------------------


def asked(problem: Problem) -> Problem:
    """What the injector is asked of a program: its problem without a bug, to break."""
    name = problem.id.replace("/fix/", "/break/")
    return repair.as_role(BREAK, problem, problem.references[0], id=name)


def broken(problem: Problem, answer: str) -> tuple[str, str]:
    """The program that an injection leaves, or what is wrong with it."""
    files = {repair.PATH: problem.references[0]}
    try:
        program = repair.edited(files, repair.edits_of(answer)).get(repair.PATH, files[repair.PATH])
    except repair.FormatError as error:
        return "", str(error)
    return (program, "") if program != problem.references[0] else ("", "no change")


def posed(
    problems: Sequence[Problem], responses: Sequence[str], evaluator: Any
) -> list[tuple[Problem | None, Judged]]:
    """The problem that each injection poses, and what became of it; response i breaks the program
    of problem i. None where it is no valid bug.
    """
    read = [broken(*both) for both in zip(problems, responses, strict=True)]
    run = [p.submission(code) for p, (code, why) in zip(problems, read, strict=True) if not why]
    results = iter(evaluator.evaluate(run) if run else [])
    made: list[tuple[Problem | None, Judged]] = []
    for problem, (program, error) in zip(problems, read, strict=True):
        if why := error or _invalid(set(next(results).verdicts)):
            passed = None if why == "IE" else False
            made.append((None, Judged(None, passed, message=why)))
        else:
            bug = _with_bug(problem, program, f"injected-{name_of(program)}")
            made.append((bug, Judged(None, True)))
    return made


def _invalid(verdicts: set[str]) -> str:
    """Why a program that was run is no bug; empty where it is one."""
    if "IE" in verdicts:
        return "IE"
    if verdicts == {"AC"}:
        return "not noticed"
    return "" if verdicts <= {"AC", "WA"} else "breaks off"


def _with_bug(problem: Problem, buggy: str, name: str) -> Problem:
    """A problem with another bug in its program; its id says which program and where from."""
    about = {**problem.metadata, "buggy": buggy}
    return repair.as_role(FIX, problem, buggy, id=f"{problem.id}-{name}", metadata=about)


# Problems and demonstrations ----------------------------------------------------------------------


@cache
def load(name: str) -> tuple[Problem, ...]:
    """The problems of a set; see the module."""
    kind, _, which = name.partition(":")
    split: Split = "test" if which == "test" else "train"
    rng = random.Random(f"self-play-{split}")
    found: dict[str, Problem] = {}
    while len(found) < (HELD_OUT if split == "test" else PROGRAMS):
        drawn = repair.drawn_bug(rng, split)
        if drawn is None:
            continue
        problem, buggy = drawn
        program = problem.metadata["program"]
        if program in found or not repair.is_noticed(buggy, problem.tests):
            continue
        about = {**problem.metadata, "buggy": buggy}
        named = f"self-play/fix/{problem.id.rpartition('/')[2]}"
        found[program] = repair.as_role(
            FIX, problem, buggy, id=named, source="self-play", metadata=about
        )
    if kind == "self-play":
        return tuple(found.values())
    return tuple(one for problem in found.values() for one in every_mutant(problem))


def every_mutant(problem: Problem) -> Iterator[Problem]:
    """A problem for each mutated line of a program that its tests notice."""
    first, *steps, last = problem.references[0].splitlines()
    count = 0
    for place, line in enumerate(steps):
        for wrong in repair.wrong_lines(line):
            lines = [first, *steps[:place], wrong, *steps[place + 1 :], last]
            program = "".join(f"{one}\n" for one in lines)
            if repair.is_noticed(program, problem.tests):
                yield _with_bug(problem, program, f"mutant-{count}")
                count += 1


MUTANT, SLIP = 0.5, 0.1
"""Of the demonstrator who breaks programs: that a line becomes one of its mutants, else another
step's; that it writes the line as it was."""


def breaking(rng: random.Random, task: described.Described) -> str:
    """A response to ``break``: a step is chosen, and its line replaced."""
    place = rng.randrange(len(task.steps))
    line = described.step_line(task.steps[place]).strip()
    put = described.step_line(described.draw_step(rng)).strip()
    mutants = repair.wrong_lines(line)
    if mutants and rng.random() < MUTANT:
        put = rng.choice(mutants)
    if rng.random() < SLIP:
        put = line
    thought = described.step_name(task.steps[place]) + repair.NO
    return repair.written_edit(thought, line, put)


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of prompts and responses of both roles, without pipelines of the test
    split.
    """
    rng = random.Random(f"self-play-corpus-{seed}")
    while True:
        task = repair.draw_task(rng, "train")
        buggy, place = repair.with_bug(rng, task)
        if rng.random() < 0.5:
            shown = repair.prompt(task.statement(), buggy, SAID[FIX])
            yield shown, repair.fixing(rng, task, buggy, place)
        else:
            right = described.program(task.steps, task.final, "stdin")
            yield repair.prompt(task.statement(), right, SAID[BREAK]), breaking(rng, task)


TASK = Task(
    "self-play",
    ("self-play:train", "self-play-mutants:train", "self-play:test"),
    load,
    (TESTS,),
    repair.judge,
    poser=Poser(asked, posed),
)
