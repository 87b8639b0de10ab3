"""The nano problem sets: generated problems whose expected outputs come from running a program.

Train and test are disjoint by reference program and by example set. Demonstrations for the base
models cover every induced function, or a base model would learn which ones are never the answer,
and so which ones are kept for test; they never show an example set of the test split.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from mcbench.data.schema import DIFFICULTIES, Form, Problem
from mcbench.errors import UserError, unknown
from mcbench.worlds import described, induced

Split = Literal["train", "test"]
SPLITS = ("train", "test")
SIZES = {"train": 1500, "test": 120}
BALANCED_SIZES = {"train": 1500, "test": 240}
INDUCED_SHARE = 0.65
MIN_TESTS = 3
PROBES = 60
"""Random inputs on which a shorter program must differ somewhere, or the problem is rejected."""


def split_of(key: str) -> Split:
    """The split that owns a reference program or an example set: a fifth are kept for test."""
    return "test" if _hash(key)[0] % 5 == 0 else "train"


def _hash(key: str) -> bytes:
    return hashlib.blake2b(key.encode()).digest()


def name_of(text: str) -> str:
    """Ten hex digits that name a problem by what it shows."""
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest()


def lot(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64


@cache
def induced_programs(split: Split) -> tuple[tuple[int, int], ...]:
    """The (feature, constant) pairs that a split may use as hidden functions."""
    pairs = [(f, k) for f in range(len(induced.FEATURES)) for k in induced.CONSTANTS]
    return tuple(p for p in pairs if split_of(induced.Induced(*p, (), "stdin").key) == split)


@cache
def balanced_programs(split: Split) -> tuple[tuple[int, int], ...]:
    """As :func:`induced_programs`, with the same number of constants for every feature: two of nine
    are kept for test.
    """
    found = []
    for f in range(len(induced.FEATURES)):
        order = sorted(induced.CONSTANTS, key=lambda k: _hash(f"{induced.FEATURES[f].expr}+{k}"))
        found += [(f, k) for k in (order[:2] if split == "test" else order[2:])]
    return tuple(found)


def draw_induced(
    rng: random.Random, programs: Sequence[tuple[int, int]], split: Split
) -> induced.Induced:
    """Draw an induced problem with one of ``programs`` and an example set that ``split`` owns."""
    while True:
        task = induced.draw(rng, programs)
        if split_of(f"{task.key} {sorted(task.examples)}") == split:
            return task


def draw_described(rng: random.Random, split: Split) -> described.Described:
    """Draw a described problem that ``split`` owns."""
    while True:
        task = described.draw(rng)
        if split_of(task.key) == split:
            return task


def execute(source: str, form: Form, value: Any) -> Any:
    """Run a reference program (trusted: written by this package) on one input.

    For ``stdin`` the value is the input text and the result the printed text; for ``call`` it is
    the argument of ``solve`` and the result what it returns.
    """
    if form == "call":
        namespace: dict[str, Any] = {}
        exec(source, namespace)
        return namespace["Solution"]().solve(value)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(source, {"input": lambda: value})
    return out.getvalue()


def test_of(source: str, form: Form, value: Any) -> dict[str, Any]:
    """A test of one input (of ``stdin`` numbers or a text), with what the program answers."""
    if form == "stdin":
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        return {"stdin": text + "\n", "expected": execute(source, form, text)}
    return {"args": [value], "expected": execute(source, form, value)}


def _problem(
    task: induced.Induced | described.Described, source: str, inputs: list[Any]
) -> Problem:
    statement = task.statement()
    return Problem(
        id=f"nano/{task.kind}/{name_of(statement)}",
        statement=statement,
        form=task.form,
        tests=tuple(test_of(source, task.form, value) for value in inputs),
        difficulty=task.difficulty,
        fn_name="solve" if task.form == "call" else "",
        kind=task.kind,
        source="nano",
        references=(source,),
        metadata={"program": task.key},
    )


def induced_problem(task: induced.Induced, rng: random.Random) -> Problem:
    """Tests on inputs that were not shown, as many as it takes to single out the function."""
    shown = {x for x, _ in task.examples}
    hidden = [x for x in induced.DOMAIN if x not in shown]
    rng.shuffle(hidden)
    table = induced.values(task.feature, task.k)
    n = MIN_TESTS
    while n < len(hidden) and len(induced.consistent(tuple((x, table[x]) for x in hidden[:n]))) > 1:
        n += 1
    return _problem(task, induced.program(task.feature, task.k, task.form), hidden[:n])


def described_problem(task: described.Described, rng: random.Random) -> Problem | None:
    """Tests that no shorter pipeline passes; None when one computes the same or nothing changes.

    Rejected are the identity, constant results, and pipelines with a step that has no effect.
    """
    steps, final = task.steps, task.final
    probes = [described.draw_input(rng) for _ in range(PROBES)]
    wanted = [described.run(steps, final, a) for a in probes]
    if len(set(map(str, wanted))) < PROBES // 4:
        return None  # (nearly) constant
    if any(isinstance(w, int) and abs(w) > 10**6 for w in wanted):
        return None
    inputs = list(range(MIN_TESTS))
    for other in described.shorter(steps):
        for other_final in range(len(described.FINALS)):
            if all(described.run(other, other_final, probes[i]) == wanted[i] for i in inputs):
                differs = (
                    i
                    for i, a in enumerate(probes)
                    if described.run(other, other_final, a) != wanted[i]
                )
                if (i := next(differs, None)) is None:
                    return None
                inputs.append(i)
    source = described.program(steps, final, task.form)
    return _problem(task, source, [probes[i] for i in inputs])


MORE_INPUTS = 8


def more_tests(problem: Problem) -> tuple[dict[str, Any], ...]:
    """Tests on inputs that those of a nano problem leave out: for an induced one the rest of the
    domain, for a described one ``MORE_INPUTS`` drawn ones, the same ones every time.

    The program is built anew from the name that ``metadata`` gives it, so that nothing is executed
    that a file brings along. Empty for any problem that names none.
    """
    name = problem.metadata.get("program")
    if problem.source != "nano" or not isinstance(name, str):
        return ()
    inputs: list[Any]
    if found := _induced_named(name):
        source, inputs = induced.program(*found, problem.form), list(induced.DOMAIN)
    elif pipeline := pipeline_named(name):
        rng = random.Random(f"more-{problem.id}")
        source = described.program(*pipeline, problem.form)
        inputs = [described.draw_input(rng) for _ in range(MORE_INPUTS)]
    else:
        return ()
    made = (test_of(source, problem.form, value) for value in inputs)
    known = [(test.get("stdin"), test.get("args")) for test in problem.tests]
    return tuple(test for test in made if (test.get("stdin"), test.get("args")) not in known)


def _induced_named(name: str) -> tuple[int, int] | None:
    """Index of the feature, and the constant, of an ``Induced.key``."""
    expr, _, k = name.removeprefix("induced:").rpartition("+")
    features = [feature.expr for feature in induced.FEATURES]
    return (features.index(expr), int(k)) if expr in features and k.isdigit() else None


def feature_of(problem: Problem) -> str:
    """The expression whose constant an induced problem leaves open, such as ``2 * x``; empty for
    any other problem. Of an embedded set: what a file says of itself is not looked at more closely.
    """
    found = _induced_named(str(problem.metadata.get("program", "")))
    return induced.FEATURES[found[0]].expr if found else ""


def pipeline_named(name: str) -> tuple[tuple[described.Step, ...], int] | None:
    """Steps and final of a ``Described.key``."""
    *steps, final = name.removeprefix("described:").split(",")
    ops, finals = ([one.name for one in table] for table in (described.OPS, described.FINALS))
    parsed = [re.fullmatch(r"([a-z]+)(\d*)", step) for step in steps]
    if final not in finals or not all(found and found[1] in ops for found in parsed):
        return None
    found = [(ops.index(one[1]), int(one[2]) if one[2] else None) for one in parsed if one]
    return tuple(found), finals.index(final)


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)


@cache
def load_split(split: Split, size: int | None = None, seed: int = 0) -> tuple[Problem, ...]:
    """The problems of a split; the same arguments give the same problems on every machine.

    Kinds stand in the proportion 65 : 35 (induced : described); every form and difficulty occurs
    equally often.

    Args:
        split: ``train`` or ``test``.
        size: how many problems, at least 12; default 1500 and 120.
        seed: of the draw. The default sets have seed 0.

    Raises:
        UserError: an unknown split, or a size that is too small.
    """
    _check_split(split)
    size = SIZES[split] if size is None else size
    if size < 12:
        raise UserError(f"a split of {size} problems is too small; at least 12 are needed")
    rng = random.Random(f"nano-{split}-{seed}")
    return _filled(rng, split, induced_programs(split), size, ("difficulty", DIFFICULTIES))


@cache
def load_balanced(split: Split) -> tuple[Problem, ...]:
    """1500 problems to train on or 240 to test with: as :func:`load_split`, but every one of the 16
    features occurs equally often in both splits (and so the difficulties of induced problems stand
    4 : 5 : 7, as the features do).

    Raises:
        UserError: an unknown split.
    """
    _check_split(split)
    rng = random.Random(f"nano-balanced-{split}")
    level = ("feature", range(len(induced.FEATURES)))
    return _filled(rng, split, balanced_programs(split), BALANCED_SIZES[split], level)


def _filled(
    rng: random.Random,
    split: Split,
    programs: Sequence[tuple[int, int]],
    size: int,
    level: tuple[str, Sequence[Any]],
) -> tuple[Problem, ...]:
    """Problems drawn until there are enough of every kind, form and level; ``level`` is the
    attribute of induced tasks whose values occur equally often, and these values.
    """
    levels = {"induced": level, "described": ("difficulty", DIFFICULTIES)}
    n_induced = round(size * INDUCED_SHARE)
    missing: dict[tuple[str, str, Any], int] = {}
    for kind, n in (("induced", n_induced), ("described", size - n_induced)):
        cells = [(kind, form, value) for form in ("stdin", "call") for value in levels[kind][1]]
        missing |= {cell: n // len(cells) + (i < n % len(cells)) for i, cell in enumerate(cells)}
    problems: dict[str, Problem] = {}
    while any(missing.values()):
        task: induced.Induced | described.Described = (
            draw_induced(rng, programs, split)
            if rng.random() < INDUCED_SHARE
            else draw_described(rng, split)
        )
        cell = (task.kind, task.form, getattr(task, levels[task.kind][0]))
        if task.statement() in problems or not missing[cell]:
            continue
        found = (
            induced_problem(task, rng)
            if isinstance(task, induced.Induced)
            else described_problem(task, rng)
        )
        if found:
            missing[cell] -= 1
            problems[found.statement] = found
    return tuple(problems.values())
