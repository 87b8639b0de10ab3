"""Fences are found where a CommonMark parser finds them, in lists and quotations of any depth."""

import random

import pytest

from mcbench.evaluator import extract_code

TEXTS = ["Some words.", "A `code` span.", "# Head", "***", "a\nb"]
CODES = [
    *("print(1)", "if x:\n    print(2)\n\n    z = 3", "def f(a):\n  return a"),
    *("print('`')", "s = '''\n  a\n'''; print(s)", "print(0)  # c```d"),
]
PYTHON = ("python", "py", "", "python3")


def part(rng: random.Random, depth: int = 0) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(TEXTS)
    if kind < 0.7 or depth > 2:
        marks, tag = rng.choice(["```", "~~~", "````"]), rng.choice([*PYTHON, " py", "text", "sh"])
        return f"{marks}{tag}\n{rng.choice(CODES)}\n{marks}"
    inner = "\n\n".join(part(rng, depth + 1) for _ in range(rng.randint(1, 3))).split("\n")
    if kind > 0.9:
        return "\n".join(f"> {line}" for line in inner)
    mark = rng.choice(["- ", "* ", "1. ", "10. ", "2) "])
    indented = "\n".join(" " * len(mark) + line if line else "" for line in inner)
    return mark + indented[len(mark) :]


def test_blocks_are_those_of_a_parser():
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    rng, programs = random.Random(1), 0
    for _ in range(500):
        text = "\n\n".join(part(rng) for _ in range(rng.randint(1, 5)))
        blocks = [token for token in parser.parse(text) if token.type == "fence"]
        ours = [block for block in blocks if block.info.strip() in PYTHON] or blocks
        assert extract_code(text) == (ours[-1].content if ours else None), text
        programs += bool(ours)
    assert 300 < programs < 500
