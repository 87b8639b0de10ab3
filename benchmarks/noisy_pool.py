"""A large noisy pool of nano problems with planted defects, so that the truth is known.

Nano problems are short and made from few templates, which two settings of the pipeline answer to:
numbers tell statements apart (the examples of a hidden function are all that does), and statements
must be almost equal to be duplicates.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.planted import Pool, needs_program, plant
from mcbench.data.config import BuildConfig
from mcbench.data.decontaminate import DecontaminateConfig
from mcbench.data.dedup import DedupConfig
from mcbench.data.filter import FilterConfig
from mcbench.data.process import ProcessConfig
from mcbench.data.schema import Problem
from mcbench.data.verify import VerifyConfig
from mcbench.worlds.problems import MIN_TESTS, load_split

DEFECTS = (
    *("mojibake", "html", "noise", "spaces", "cut_off", "empty"),
    *("foreign", "short", "repetitive", "irrelevant", "contradictory_tests"),
    *("copy", "reworded_copy", "broken_test", "wrong_reference", "constant"),
)
"""Those of `benchmarks.planted` that suit nano problems; two more are planted here."""
SHARE = 0.02
SETTINGS: dict[str, object] = {
    # Statements say how input goes in nano's own words.
    "process": ProcessConfig(state_form=False),
    "filter": FilterConfig(min_words=8, min_tests=MIN_TESTS),
    # Rewording two words of a dozen leaves few runs of three. Half of the tests in common, as
    # two problems with one hidden function have them, make no copy yet.
    "dedup": DedupConfig(threshold=0.95, threshold_same_tests=0.55, min_shared_tests=1, run=2),
    "decontaminate": DecontaminateConfig(numbers=True),
    # One of three tests may be broken. Tests that no shorter program passes come with the problem.
    "verify": VerifyConfig(min_tests=MIN_TESTS - 1, mutants=0),
}


def as_record(problem: Problem) -> Problem:
    """The problem as a source would publish it, with its reference and without a difficulty."""
    return replace(problem, language="en", difficulty="", metadata={})


def sound(problems: Iterable[Problem]) -> list[Problem]:
    """Those without a defect of nano's own, told by how they were made and not by the pipeline.

    Left out are problems that a constant, an echo or, on some test, an empty program solves, and
    those that have the program of an earlier one and at least three of its four examples.
    """
    kept: list[Problem] = []
    seen: dict[tuple[str, str], list[set[str]]] = {}
    for problem in problems:
        empty = {str(test["expected"]).strip() for test in problem.tests} & {"", "[]"}
        if empty or not needs_program(problem.tests):
            continue
        shown = set(re.findall(r"in \d+ out -?\d+", problem.statement)) or {problem.statement}
        alike = seen.setdefault((problem.form, problem.metadata["program"]), [])
        if any(len(shown & other) >= min(3, len(shown)) for other in alike):
            continue
        alike.append(shown)
        kept.append(problem)
    return kept


def noisy_pool(problems: Sequence[Problem], share: float = SHARE, seed: int = 0) -> Pool:
    """Sound problems with each defect planted in ``share`` of them, in random order.

    Beside ``DEFECTS`` there are problems with too few tests, and problems of the held-out set in
    other case, as many each.

    Raises:
        UserError: too few problems for so many defects.
    """
    rng = random.Random(f"noisy-pool-{seed}")
    problems = sound(problems)
    each = max(round(share * len(problems)), 1)
    few, rest = problems[:each], problems[each:]
    pool = plant(map(as_record, rest), share, seed, DEFECTS)
    records = list(pool.records)
    for problem in few:
        record = as_record(problem)
        records.append(replace(record, tests=record.tests[: rng.randint(0, MIN_TESTS - 1)]))
        pool.defects[record.id] = "few_tests"
    evaluation = tuple(as_record(problem) for problem in load_split("test"))
    leaking = [as_record(problem) for problem in sound(load_split("test"))]
    for record in rng.sample(leaking, min(each, len(leaking))):
        leak = replace(record, id=f"{record.id}-leaked", statement=record.statement.upper())
        records.append(leak)
        pool.defects[leak.id] = "contaminated"
    rng.shuffle(records)
    return replace(pool, records=tuple(records), evaluation=evaluation)


def pool_config(name: str, folder: Path, workers: int = 1, **changes: object) -> BuildConfig:
    """The build of a pool below ``folder``; all builds there share what the stages gave."""
    values = {**SETTINGS, "skip": ("difficulty",), **changes}
    return BuildConfig(
        name=name,
        out=str(folder / name),
        cache=str(folder / "cache"),
        workers=workers,
        **values,  # type: ignore[arg-type]
    )
