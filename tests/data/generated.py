"""Generated problems for measuring the pipeline: varied statements over lists of integers.

No two have much text in common, every one has a right reference solution and tests, and nothing
needs to be repaired. `benchmarks.planted` adds known defects.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mcbench.data.schema import Problem


def _words(text: str, between: str = " ") -> list[str]:
    return text.split(between)


_ACTORS = _words(
    "Alba Bruno Chiara Dmitri Elif Farid Greta Hiro Ines Jonas Keiko Luca Mira Nils Olga Pavel Qiu "
    "Rosa Samir Tove Uma Viktor Wanda Ximena Yusuf Zoe"
)
_ROLES = _words(
    "baker gardener pilot librarian captain tailor miner painter courier teacher farmer engineer "
    "goldsmith sailor botanist watchmaker mechanic architect"
)
_THINGS = _words(
    "coins stones parcels ribbons lamps barrels tickets marbles bricks stamps planks bottles seeds "
    "crates tokens bells shells candles"
)
_PLACES = _words(
    "harbour market orchard museum workshop station castle valley island theatre warehouse "
    "lighthouse village factory laboratory greenhouse"
)
_WHEN = _words(
    "every morning, before the winter, during a long storm, on the last day of spring, after the "
    "harvest, once a month, late in the evening, in the year of the comet, while others sleep, "
    "when the ferry leaves",
    between=", ",
)
_GOALS = (
    "wants to know what becomes of them",
    "has promised a report to the council",
    "needs a program to do this quickly",
    "is preparing for an inspection",
    "lost the old notebook with the results",
    "wonders which number comes out",
    "must tell the owner the outcome",
    "is too tired to do this by hand",
)


@dataclass(frozen=True)
class _Step:
    texts: tuple[str, ...]
    code: str  # of the new value of a, with {k}
    run: Callable[[list[int], int], list[int]]
    low: int = 1
    high: int = 9


_STEPS = (
    _Step(("add {k} to each entry", "every value grows by {k}", "raise all numbers by {k}"),
          "[v + {k} for v in a]", lambda a, k: [v + k for v in a]),
    _Step(("multiply each entry by {k}", "every value becomes {k} times as large",
           "scale all numbers by the factor {k}"),
          "[v * {k} for v in a]", lambda a, k: [v * k for v in a], 2, 7),
    _Step(("throw away the entries that {k} divides", "remove each multiple of {k}",
           "numbers divisible by {k} disappear"),
          "[v for v in a if v % {k}]", lambda a, k: [v for v in a if v % k], 2, 5),
    _Step(("turn the order around", "reverse the sequence", "read the list from back to front"),
          "a[::-1]", lambda a, k: a[::-1]),
    _Step(("sort the values upwards", "arrange everything from small to large",
           "put the numbers in ascending order"), "sorted(a)", lambda a, k: sorted(a)),
    _Step(("cut off the first {k} entries", "forget the leading {k} values",
           "drop {k} numbers from the front"), "a[{k}:]", lambda a, k: a[k:], 1, 2),
    _Step(("replace each entry by its remainder modulo {k}", "keep of every value the rest after "
           "division by {k}", "reduce all numbers modulo {k}"),
          "[v % {k} for v in a]", lambda a, k: [v % k for v in a], 11, 40),
    _Step(("replace each entry by its distance to {k}", "every value becomes how far it is from "
           "{k}", "measure for all numbers the gap to {k}"),
          "[abs(v - {k}) for v in a]", lambda a, k: [abs(v - k) for v in a], 1, 30),
    _Step(("build the running totals", "each value becomes the sum of all up to it",
           "replace the list by its prefix sums"),
          "[sum(a[: i + 1]) for i in range(len(a))]",
          lambda a, k: [sum(a[: i + 1]) for i in range(len(a))]),
    _Step(("keep the entries larger than {k}", "everything up to {k} vanishes",
           "only numbers above {k} survive"),
          "[v for v in a if v > {k}]", lambda a, k: [v for v in a if v > k], 1, 12),
    _Step(("swap the two halves, the first being the shorter one",
           "move the first half (rounded down) behind the second",
           "rotate the list by half of its length, rounded down"),
          "a[len(a) // 2 :] + a[: len(a) // 2]",
          lambda a, k: a[len(a) // 2 :] + a[: len(a) // 2]),
    _Step(("write every entry twice in a row", "double each value in place, so that it stands "
           "there two times", "let all numbers appear two times next to each other"),
          "[v for v in a for _ in range(2)]", lambda a, k: [v for v in a for _ in range(2)]),
)  # fmt: skip

_FINALS: tuple[tuple[tuple[str, ...], str, Callable[[list[int]], int]], ...] = (
    (("print the sum of what is left", "output the total of the list"), "sum(a)", sum),
    (("print the sum of the squares", "output what the squares of all entries add up to"),
     "sum(v * v for v in a)", lambda a: sum(v * v for v in a)),
    (("print the sum of every entry times its position, counted from 1",
      "output 1 * a1 + 2 * a2 + 3 * a3 and so on"),
     "sum(i * v for i, v in enumerate(a, 1))", lambda a: sum(i * v for i, v in enumerate(a, 1))),
    (("print the alternating sum a1 - a2 + a3 and so on", "output the sum with alternating signs, "
      "beginning with plus"), "sum(a[::2]) - sum(a[1::2])", lambda a: sum(a[::2]) - sum(a[1::2])),
)  # fmt: skip


def generate(
    count: int, seed: int = 0, tests: int = 8, name: str = "generated"
) -> Iterator[Problem]:
    """``count`` clean problems; the same arguments give the same ones."""
    for number in range(count):
        rng = random.Random(f"{name}-{seed}-{number}")
        record = None
        while record is None:
            record = _problem(rng, f"{name}/{seed}-{number}", tests)
        yield record


def _problem(rng: random.Random, name: str, tests: int) -> Problem | None:
    """A problem; None when its answers hardly differ, or a step changes no answer."""
    steps = [(step, rng.randint(step.low, step.high)) for step in rng.sample(_STEPS, 5)]
    finals, final_code, final = rng.choice(_FINALS)
    size, largest = rng.choice((20, 50, 100, 200)), rng.choice((50, 100, 1000, 10000))
    inputs = [[rng.randint(0, 60) for _ in range(rng.randint(6, 14))] for _ in range(tests)]
    answers = [_run(steps, final, a) for a in inputs]
    if len(set(answers)) < 0.8 * tests or 0 in answers:
        return None
    for i in range(len(steps)):
        without = steps[:i] + steps[i + 1 :]
        if [_run(without, final, a) for a in inputs] == answers:
            return None
    return Problem(
        id=name,
        statement=_statement(rng, steps, rng.choice(finals), size, largest),
        form="stdin",
        tests=tuple(
            {"stdin": f"{len(a)}\n{' '.join(map(str, a))}\n", "expected": f"{answer}\n"}
            for a, answer in zip(inputs, answers, strict=True)
        ),
        source=name.partition("/")[0],
        date=f"20{rng.randint(20, 25)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        language="en",
        licence="CC0-1.0",
        references=(_program(steps, final_code),),
        metadata={"steps": len(steps)},
    )


def _run(steps: list[tuple[_Step, int]], final: Callable[[list[int]], int], a: list[int]) -> int:
    for step, k in steps:
        a = step.run(a, k)
    return final(a)


def _program(steps: list[tuple[_Step, int]], final: str) -> str:
    lines = ["n = int(input())", "a = list(map(int, input().split()))"]
    lines += [f"a = {step.code.format(k=k)}" for step, k in steps]
    return "\n".join([*lines, f"print({final})"]) + "\n"


def _statement(
    rng: random.Random, steps: list[tuple[_Step, int]], final: str, size: int, largest: int
) -> str:
    actor, thing = rng.choice(_ACTORS), rng.choice(_THINGS)
    first, second = rng.sample(_PLACES, 2)
    opening = rng.choice((
        f"{actor}, the {rng.choice(_ROLES)} of the {first}, counts {thing} {rng.choice(_WHEN)}",
        f"In the {first} near the {second} there are {thing}, and {actor} looks after them",
        f"{rng.choice(_WHEN).capitalize()} {actor} moves {thing} from the {first} to the {second}",
    ))  # fmt: skip
    told = [rng.choice(step.texts).format(k=k) for step, k in steps]
    links = rng.sample(("First", "Then", "After that", "Next", "Finally", "Now", "Later"), 5)
    body = " ".join(f"{link}, {text}." for link, text in zip(links, told, strict=True))
    given = rng.choice((
        f"The first line of the input holds n (1 ≤ n ≤ {size}), the second n integers between 0 "
        f"and {largest}.",
        f"You are given n, at most {size}, on one line and below it n whole numbers from 0 to "
        f"{largest}.",
        f"Read n (up to {size}), then n values, none of them negative or above {largest}.",
    ))  # fmt: skip
    return (
        f"{opening} and {rng.choice(_GOALS)}. {given}\n\n{body}\n\n"
        f"At the end {final}; {actor} will thank you.\n"
    )
