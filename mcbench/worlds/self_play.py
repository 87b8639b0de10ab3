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
from dataclasses import replace
from functools import cache
from typing import Any

from mcbench.data.schema import Problem
from mcbench.worlds import described, repair
from mcbench.worlds.base import TESTS, Judged, Poser, Task
from mcbench.worlds.problems import Split, execute, name_of
from mcbench.worlds.words import FENCE_CLOSE, FENCE_OPEN

PROGRAMS, HELD_OUT = 48, 120
BREAK = "break"
SAID = "Break the code."
PHRASES = (f"{SAID}\nSteps: ", *repair.PHRASES)


# What an injection is -----------------------------------------------------------------------------


def asked(problem: Problem) -> Problem:
    """What the injector is asked of a program: its problem without a bug, to break."""
    return replace(
        problem,
        id=problem.id.replace("/fix/", f"/{BREAK}/"),
        statement=repair.prompt(problem.statement, problem.references[0], SAID),
        kind=BREAK,
    )


def broken(problem: Problem, answer: str) -> str:
    """The program that an injection leaves.

    Raises:
        FormatError: what is wrong with it.
    """
    files = {repair.PATH: problem.references[0]}
    program = repair.edited(files, repair.edits_of(answer)).get(repair.PATH, "")
    if program == problem.references[0]:
        raise repair.FormatError("no change")
    return program


def posed(
    problems: Sequence[Problem], responses: Sequence[str], evaluator: Any
) -> list[tuple[Problem | None, Judged]]:
    """The problem that each injection poses, and what became of it; response i breaks the program
    of problem i. None where it is no valid bug.
    """
    programs: list[str | None] = []
    errors: list[str] = []
    for problem, answer in zip(problems, responses, strict=True):
        try:
            programs.append(broken(problem, answer))
            errors.append("")
        except repair.FormatError as error:
            programs.append(None)
            errors.append(str(error))
    run = [(a, b) for a, b in zip(problems, programs, strict=True) if b is not None]
    found = evaluator.evaluate([one.submission(code) for one, code in run]) if run else []
    verdicts = iter([set(one.verdicts) for one in found])
    made: list[tuple[Problem | None, Judged]] = []
    for place, (problem, program) in enumerate(zip(problems, programs, strict=True)):
        if program is None:
            made.append((None, Judged(None, False, message=errors[place])))
            continue
        seen = next(verdicts)
        if "IE" in seen:
            made.append((None, Judged(None, None, message="IE")))
        elif seen == {"AC"}:
            made.append((None, Judged(None, False, message="not noticed")))
        elif not seen <= {"AC", "WA"}:
            made.append((None, Judged(None, False, message="breaks off")))
        else:
            made.append(
                (_with_bug(problem, program, f"injected-{name_of(program)}"), Judged(None, True))
            )
    return made


def _with_bug(problem: Problem, buggy: str, name: str) -> Problem:
    """A problem with another bug in its program; its id says which program and where from."""
    return replace(
        problem,
        id=f"{problem.id}-{name}",
        statement=repair.prompt(problem.statement, buggy, repair.TASKS_SAID[repair.FIX]),
        metadata={**problem.metadata, "buggy": buggy},
    )


# Problems and demonstrations ----------------------------------------------------------------------


def is_noticed(program: str, tests: Sequence[dict[str, Any]]) -> bool:
    """Whether a mutant ends on every test, and is wrong on one."""
    try:
        outputs = [execute(program, "stdin", test["stdin"]).split() for test in tests]
    except Exception:  # a mutant may fail in any way
        return False
    return outputs != [test["expected"].split() for test in tests]


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
        task, buggy, problem = drawn
        if task.key in found or not is_noticed(buggy, problem.tests):
            continue
        said = repair.prompt(task.statement(), buggy, repair.TASKS_SAID[repair.FIX])
        found[task.key] = replace(
            problem,
            id=f"self-play/fix/{problem.id.rpartition('/')[2]}",
            statement=said,
            kind=repair.FIX,
            source="self-play",
            metadata={**problem.metadata, "buggy": buggy},
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
            if is_noticed(program, problem.tests):
                yield _with_bug(problem, program, f"mutant-{count}")
                count += 1


MUTANT, SLIP = 0.5, 0.1
"""Of the demonstrator who breaks programs: that a line becomes one of its mutants, else another
step's; that it writes the line as it was."""


def breaking(rng: random.Random, task: described.Described) -> str:
    """A response to ``break``: a step is chosen, and its line replaced."""
    place = rng.randrange(len(task.steps))
    op, k = task.steps[place]
    line = described.step_line(task.steps[place]).strip()
    put = described.step_line(described.draw_step(rng)).strip()
    mutants = repair.wrong_lines(line)
    if mutants and rng.random() < MUTANT:
        put = rng.choice(mutants)
    if rng.random() < SLIP:
        put = line
    thought = f" {described.OPS[op].name}" + ("" if k is None else f" {k}") + repair.NO
    return (
        f"<think>\n{thought}</think>\n<solution>\n{FENCE_OPEN}### {repair.PATH}\n"
        f"<<<<<<< SEARCH\n{line}\n=======\n{put}\n>>>>>>> REPLACE\n{FENCE_CLOSE}\n</solution>"
    )


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream of prompts and responses of both roles, without pipelines of the test
    split.
    """
    rng = random.Random(f"self-play-corpus-{seed}")
    while True:
        task = repair.draw_task(rng, "train")
        buggy, place = repair.with_bug(rng, task)
        if rng.random() < 0.5:
            said = repair.TASKS_SAID[repair.FIX]
            yield (
                repair.prompt(task.statement(), buggy, said),
                repair.fixing(rng, task, buggy, place),
            )
        else:
            right = described.program(task.steps, task.final, "stdin")
            yield repair.prompt(task.statement(), right, SAID), breaking(rng, task)


TASK = Task(
    "self-play",
    ("self-play:train", "self-play-mutants:train", "self-play:test"),
    load,
    (TESTS,),
    repair.judge,
    poser=Poser(asked, posed),
)
