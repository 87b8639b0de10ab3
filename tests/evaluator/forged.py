"""Results as a hostile program would forge them, and what judging one costs the trusted process."""

import base64
import random
import time
import tracemalloc
import zlib
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from decimal import Decimal
from fractions import Fraction

from mcbench.evaluator import CallTest, StdioTest, Submission
from mcbench.evaluator.encoding import dumps
from mcbench.evaluator.judge import job_for, judge
from mcbench.evaluator.pool import Job
from mcbench.evaluator.portable import write_all
from mcbench.evaluator.rule_sets import rule_set

MOST = 15 << 20  # what a program may return is 16 MiB
SECONDS, BYTES = 0.010, 2 << 20  # of the trusted process, for one result
_ALIKE = 2**61 - 1  # its multiples all hash alike
_RULES = rule_set("microcoder")
_ENDED = {"status": 0, "stopped": None, "cpu_s": 0.0, "wall_s": 0.0, "memory_mb": 0.0}


class HandedOn(Exception):
    """A further job is to find the verdict."""


def judged(test: StdioTest | CallTest, data: bytes) -> float:
    """The CPU time that this process takes for what a program is said to have written."""
    submission, started = Submission("", [test]), 0.0

    def run(asked: Job) -> dict[str, object]:
        nonlocal started
        if asked is not job:
            raise HandedOn
        asked.open()
        write_all(asked.stdout if isinstance(test, StdioTest) else asked.result, data)
        started = time.process_time()
        return _ENDED

    with closing(job_for(submission, 0, MOST)) as job, suppress(HandedOn):
        judge(submission, 0, job, run, _RULES)
    return time.process_time() - started


def cost(test: StdioTest | CallTest, data: bytes, repeats: int = 2) -> tuple[float, int]:
    """Seconds of CPU time, the least of several, and bytes that were allocated at a time."""
    seconds = min(judged(test, data) for _ in range(repeats))
    tracemalloc.start()
    try:
        judged(test, data)
        return seconds, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def forger(test: StdioTest | CallTest, data: bytes) -> Submission:
    """A program that writes such a result and ends."""
    packed = base64.b64encode(zlib.compress(data)).decode()
    descriptor = 1 if isinstance(test, StdioTest) else 3
    code = f"""import base64, os, zlib
data = zlib.decompress(base64.b64decode({packed!r}))
while data: data = data[os.write({descriptor}, data):]
os._exit(0)"""
    return Submission(code, [test])


def _numbered(item: bytes, start: int = 1) -> Callable[[int], bytes]:
    """Items that hold a multiple each, as many as fit."""

    def fill(size: int) -> bytes:
        length = len(item % (_ALIKE << 20)) + 1
        return b",".join(item % (_ALIKE * i) for i in range(start, start + size // length))

    return fill


def _complex(item: bytes) -> Callable[[int], bytes]:
    """Items that hold a number, and a complex one; these hash alike."""

    def fill(size: int) -> bytes:
        most = size // len(item % {b"i": size, b"alike": -1000003 * size})
        return b",".join(item % {b"i": i, b"alike": -1000003 * i} for i in range(1, most))

    return fill


def _fractions(size: int) -> bytes:
    """Fractions that all hash alike, which take long to compare."""
    count = size // len(b'["v","Fraction",%d,%d],' % (_ALIKE, size))
    return b",".join(
        b'["v","Fraction",%d,%d]' % (4711 * bottom % _ALIKE, bottom)
        for bottom in range(2, count + 2)
    )


def _decimals(exponent: int, other: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Decimals that hash as -1000003 does, each followed by another number that does."""

    def fill(size: int) -> bytes:
        found, room, place = [], size, 0
        while room > 0:
            digits = (-_HASH * pow(10, exponent, _PRIME)) % _PRIME + _PRIME * place
            pair = b'["v","Decimal","-%dE-%d"],' % (digits, exponent) + other(place)
            found.append(pair)
            room, place = room - len(pair) - 1, place + 1
        return b",".join(found[:-1])

    return fill


_PRIME, _HASH = (1 << 61) - 1, -1000003


def _wide_integer(bits: int) -> Callable[[int], bytes]:
    def of(place: int) -> bytes:
        number = (1 << bits) + place * _PRIME
        return b'["i","-%x"]' % (number - number % _PRIME - _HASH)

    return of


def _wide_fraction(bits: int) -> Callable[[int], bytes]:
    def of(place: int) -> bytes:
        bottom = (1 << bits) + 2 * place + 1
        return b'["v","Fraction",["i","-%x"],["i","%x"]]' % (-_HASH * bottom % _PRIME, bottom)

    return of


def _repeated(item: bytes) -> Callable[[int], bytes]:
    return lambda size: b",".join([item] * (size // (len(item) + 1)))


def _nested(opening: bytes, core: bytes, closing: bytes) -> Callable[[int], bytes]:
    def fill(size: int) -> bytes:
        levels = size // (len(opening) + len(closing))
        return opening * levels + core + closing * levels

    return fill


# By name: what stands before and after, and what fills the space between.
FAMILIES: dict[str, tuple[bytes, Callable[[int], bytes], bytes]] = {
    "set of alike integers": (b'["s",', _numbered(b'["i","%x"]'), b"]"),
    "frozenset in a list": (b'["l",["z",', _numbered(b'["i","%x"]'), b"]]"),
    "set of alike tuples": (b'["s",', _numbered(b'["t",["i","%x"]]'), b"]"),
    "set of alike fractions": (b'["s",', _fractions, b"]"),
    "decimals and long integers": (b'["s",', _decimals(0, _wide_integer(40_000)), b"]"),
    "decimals and integers": (b'["s",', _decimals(0, _wide_integer(2000)), b"]"),
    "decimals and long fractions": (b'["s",', _decimals(9999, _wide_fraction(16_000)), b"]"),
    "decimals and fractions": (b'["s",', _decimals(390, _wide_fraction(2000)), b"]"),
    "dict of alike fractions": (
        b'["d",[',
        lambda s: _fractions(s).replace(b"],", b"],0],["),
        b",0]]",
    ),
    "set of alike long tuples": (
        b'["s",',
        _numbered(b'["t",%s["i","%%x"]]' % (b"0.5," * 60)),
        b"]",
    ),
    "sets of alike tuples": (
        b'["l",',
        _repeated(b'["s",%s]' % _numbered(b'["t",["i","%x"]]')(2400)),
        b"]",
    ),
    "set of alike complex": (b'["s",', _complex(b'["c","%(alike)d+%(i)dj"]'), b"]"),
    "alike but for numbers": (
        b'["l",["s",',
        _complex(b'["t",%(i)d,["c","%(alike)d+%(i)dj"]]'),
        b"]]",
    ),
    "sets alike but for numbers": (
        b'["s",["z",',
        _complex(b'["t",%(i)d,["c","%(alike)d+%(i)dj"]]'),
        b"]]",
    ),
    "dict of alike keys": (b'["d",', _numbered(b'[["i","%x"],0]'), b"]"),
    "OrderedDict": (b'["v","OrderedDict",["l",', _numbered(b'["t",["i","%x"],0]'), b"]]"),
    "Counter": (b'["v","Counter",["d",', _numbered(b'[["i","%x"],1]'), b"]]"),
    "alike in a list": (b'["l",', _numbered(b'["i","%x"]'), b"]"),
    "alike complex in a list": (b'["l",', _complex(b'["c","%(alike)d+%(i)dj"]'), b"]"),
    "empty lists": (b'["l",', _repeated(b'["l"]'), b"]"),
    "empty dicts": (b'["l",', _repeated(b'["d"]'), b"]"),
    "empty deques": (b'["l",', _repeated(b'["v","deque",["l"],null]'), b"]"),
    "empty Counters": (b'["l",', _repeated(b'["v","Counter",["d"]]'), b"]"),
    "equal items of a set": (b'["s",', _repeated(b"1"), b"]"),
    "integers": (b'["l",', _repeated(b"1"), b"]"),
    "floats": (b'["l",', _repeated(b"0.5"), b"]"),
    "texts": (b'["l",', _repeated(b'"ab"'), b"]"),
    "odd texts": (b'["l",', _repeated(b'"\\ud800"'), b"]"),
    "large decimals": (b'["l",', _repeated(b'["v","Decimal","1E+9999"]'), b"]"),
    "one long fraction": (
        b'["v","Fraction",["i","',
        lambda size: b"f" * (size // 2) + b'"],["i","' + b"e" * (size // 2),
        b'"]]',
    ),
    "long fractions": (
        b'["l",',
        _repeated(b'["v","Fraction",["i","%s"],["i","%s"]]' % (b"f" * 4000, b"e" * 4001)),
        b"]",
    ),
    "set of datetimes": (
        b'["s",',
        lambda size: b",".join(
            b'["v","datetime","%04d-01-01T01:01:01+01:%02d",0]' % (i % 9999 + 1, i % 60)
            for i in range(size // 50)
        ),
        b"]",
    ),
    "datetimes": (b'["l",', _repeated(b'["v","datetime","0001-01-01T01:01:01",0]'), b"]"),
    "digits": (b"", lambda size: b"9" * size, b""),
    "digits of a float": (b"", lambda size: b"9" * size, b".5"),
    "long integers": (b'["l",', _repeated(b"9" * 4000), b"]"),
    "a long integer": (b'["i","', lambda size: b"f" * size, b'"]'),
    "a long text": (b'"', lambda size: b"x" * size, b'"'),
    "escapes": (b'"', lambda size: b"\\u0000" * (size // 6), b'"'),
    "long bytes": (b'["b","', lambda size: b"00" * (size // 2), b'"]'),
    "nested lists": (b"", _nested(b'["l",', b"1", b"]"), b""),
    "nested sets": (b"", _nested(b'["z",', b"1", b"]"), b""),
    "nested keys": (b'["d",[', _nested(b'["t",', b"1", b"]"), b",0]]"),
    "open brackets": (b"", lambda size: b"[" * size, b""),
    "commas": (b"[", lambda size: b"," * size, b""),
    "quotes": (b"", lambda size: b'"' * size, b""),
    "spaces": (b"", lambda size: b" " * size, b""),
    "zeros": (b"", lambda size: b"\0" * size, b""),
    "not UTF-8": (b"", lambda size: b"\xff" * size, b""),
}
TEXTS: dict[str, bytes] = {
    "lines": b"\n",
    "words": b"1 ",
    "long words": b"9" * 4000 + b" ",
    "one word": b"9",
    "spaces": b" ",
    "not UTF-8": b"\xff",
    "beyond ASCII": "\U0001f600".encode(),
    "odd spaces": "\u3000".encode(),
    "floats": b"0.50000000001 ",
    "zeros": b"\0",
}


def forged(family: str, size: int) -> bytes:
    """A result of about that many bytes."""
    before, fill, after = FAMILIES[family]
    return before + fill(max(0, size - len(before) - len(after))) + after


# Results made at random --------------------------------------------------------------------------


def value(rng: random.Random, depth: int = 0) -> object:
    """A value that can be sent."""
    kind = rng.randrange(14)
    if depth > 3 or kind < 6:
        number = rng.randrange(-9, 9)
        scalars = [None, True, number, 10.0**number, 1 << 70, str(number), b"x", 1j * number]
        scalars += [Fraction(number, 7), Decimal(number), float("nan"), "\ud800,[", _ALIKE * number]
        return rng.choice(scalars)
    items = [value(rng, depth + 1) for _ in range(rng.choice((0, 1, 3, 9)))]
    hashable = [item for item in items if _is_hashable(item)]
    made: list[Callable[[], object]] = [
        lambda: items,
        lambda: tuple(items),
        lambda: set(hashable),
        lambda: frozenset(hashable),
        lambda: dict(zip(hashable, items, strict=False)),
        lambda: deque(items),
        lambda: OrderedDict(zip(hashable, items, strict=False)),
        lambda: Counter(hashable),
    ]
    return made[kind - 6]()


def _is_hashable(item: object) -> bool:
    try:
        hash(item)
    except TypeError:
        return False
    return True


_PIECES = [
    b'["l",',
    b'["s",',
    b'["d",',
    b'["v","deque",',
    b"]",
    b"],",
    b",",
    b'"',
    b"0",
    b"-1",
    b"null",
]
_PIECES += [
    b'["i","',
    b'["f","nan"]',
    b"1e999",
    b"NaN",
    b"{",
    b"}",
    b":",
    b"\\u",
    b"9" * 99,
    b"\xff",
]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Cut, repeated, overwritten or with foreign pieces in it."""
    for _ in range(rng.randrange(1, 4)):
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        kind = rng.randrange(5)
        if kind == 0:
            data = data[:a] + data[b:]
        elif kind == 1:
            data = data[:b] + data[a:b] * rng.choice((1, 2, 99)) + data[b:]
        elif kind == 2:
            data = data[:a] + rng.choice(_PIECES) * rng.choice((1, 2, 50)) + data[a:]
        elif kind == 3:
            data = data[:a] + rng.randbytes(rng.randrange(4)) + data[a:]
        else:
            data = data[:a] + dumps(value(rng)) + data[b:]
        data = data[:MOST]
    return data


def grammar(rng: random.Random, depth: int = 0) -> bytes:
    """Something that looks like an encoded value."""
    if depth > 5 or rng.random() < 0.3:
        family = rng.choice(list(FAMILIES))
        return forged(family, rng.choice((0, 20, 100, 1000)))
    tag = rng.choice(
        (b'"l"', b'"t"', b'"s"', b'"z"', b'"d"', b'"v","deque"', b'"v","Counter"', b"1")
    )
    parts = [grammar(rng, depth + 1) for _ in range(rng.randrange(4))]
    return b"[" + b",".join([tag, *parts]) + b"]"


def results(rng: random.Random) -> Iterator[tuple[object, bytes]]:
    """Expected values and results for them, endlessly."""
    while True:
        expected = value(rng)
        encoded = dumps(expected)
        yield expected, encoded
        yield expected, mutated(rng, encoded)
        yield expected, mutated(rng, encoded)
        yield expected, grammar(rng)
        # Few are large: a large one takes longer to write than a hundred small ones.
        size = 2 ** rng.randrange(6, 17 if rng.random() < 0.9 else 25)
        yield expected, forged(rng.choice(list(FAMILIES)), min(size, MOST - 100))
