"""Generated repositories to search: where a function stands, and all that it calls.

Twelve files: eight of three functions each, of which some call one or two others, and four that
only mention names. A query names a function; needed are its lines and those of what it calls, which
only the function itself tells. The tools are a search for a fixed string, a list of files and a few
lines of a file, on text in memory. The demonstrator acts on what it was shown alone, often astray.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mcbench.data.schema import Problem
from mcbench.nano import described
from mcbench.nano.problems import Split, test_of
from mcbench.nano.words import EOS

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


ASTRAY, EARLY, EXACT, MALFORMED = 0.2, 0.15, 0.6, 0.02
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
            if rng.random() < MALFORMED:
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
