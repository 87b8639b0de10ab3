"""Execution traces: what a program does, line by line, predicted before it runs.

CWM (Copet et al. 2025, arXiv 2510.02387) is trained on traces of ``sys.settrace``: the source with
a mark where the trace starts, then frames of four kinds, each with the line it is at. ``call`` and
``line`` frames carry the local variables as JSON whose values are strings, what Python shows of
them, and ``..`` for a variable that is as it was in the frame before; ``return`` and ``exception``
frames carry no locals but a string of what is returned or raised (``PROMPTING_GUIDE.md`` and
``demos/cwmdbg.py`` of facebookresearch/cwm). Its reinforcement is on programs, not on traces; that
of the ``frames`` arm is ours, with its 1 or -1 at the end.

Here the program is a described pipeline as a function of a list, and a response is its frames. It
passed if all frames are right, which is reward 1 (else -1, also where it is malformed); ``frames``
is the share that is right place by place, of the longer of both traces, ``malformed`` whether any
line is no frame, ``first_wrong`` where it goes wrong first, as a share. Truth is traced here, in
the trusted process: these programs are written by this package, and no response is ever run.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from types import FrameType
from typing import Any

from mcbench.data.schema import Problem
from mcbench.worlds import described
from mcbench.worlds.base import TESTS, Judged, Task
from mcbench.worlds.corpus import LOOPING
from mcbench.worlds.corpus import demonstrations as programs
from mcbench.worlds.problems import Split, draw_described

SIZES = {"train": 600, "test": 120}
DEPTHS = (1, 2, 3)
LARGEST = 199
"""Values that a trace may hold: those that are one token."""
MAX_ANSWER = 4000
HEAD = "def solve(a):"
START = "  # << START_OF_TRACE\n"
KINDS = ("call", "line", "return", "exception")
PHRASES = (
    *(f"<{kind}>" for kind in KINDS),
    *("<at>", '<arg>"', '"\n', '{"a": "[', ']"}', '{"a": ".."}', HEAD, START, "Trace.\n"),
    *("solve([", "])\n"),
    *("Answer:\n", "    a = ", "    return ", "return ", "max(a)", "ValueError"),
)
FRAME = re.compile(r"<(call|line)>(\{.*\})<at>(.*)|<(return|exception)>(.*)<arg>(.*)")
SAME = ".."
Frame = tuple[str, Any, str]
"""Kind; locals, or what is returned or raised; the line, without its indentation."""


def source_of(task: described.Described) -> str:
    """The pipeline as a function; the largest value of an empty list is an error here."""
    lines = [f"    {described.step_line(step)}" for step in task.steps]
    result = described.FINALS[task.final].code.replace("max(a, default=0)", "max(a)")
    return f"{HEAD}\n{''.join(lines)}    return {result}\n"


def trace(source: str, values: Sequence[int]) -> list[Frame]:
    """The frames of ``solve(values)``, by ``sys.settrace``; frames of nested code are left out."""
    frames: list[Frame] = []
    lines = source.splitlines()
    scope: dict[str, Any] = {}
    code = compile(source, "<traced>", "exec")
    exec(code, scope)

    def look(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not scope["solve"].__code__:
            return None
        if event == "line" and "v" in frame.f_locals:  # a comprehension, inlined since Python 3.12
            return look
        told = arg[0].__name__ if event == "exception" else arg
        if event in ("call", "line"):
            told = {name: list(one) for name, one in frame.f_locals.items()}
        frames.append((event, told, lines[frame.f_lineno - 1].strip()))
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        scope["solve"](list(values))
    except ValueError:
        pass
    finally:
        sys.settrace(before)
    return frames


def write(frames: Sequence[Frame]) -> str:
    """Frames as text, one a line."""
    text, last = "", dict[str, Any]()
    for kind, told, line in frames:
        if kind in ("call", "line"):
            shown = {
                name: SAME if name in last and last[name] == value else _shown(value)
                for name, value in told.items()
            }
            text, last = text + f"<{kind}>{json.dumps(shown)}<at>{line}\n", told
        else:
            shown_value = told if kind == "exception" else _shown(told)
            text += f"<{kind}>{line}<arg>{json.dumps(shown_value)}\n"
    return text


def _shown(value: Any) -> str:
    """A value as Python shows it, but for a space before every number, which keeps it one token."""
    return re.sub(r"(?<![\w-])(?=-?\d)", " ", repr(value)).replace(",  ", ", ")


def _value(shown: str) -> Any:
    return None if shown == "None" else json.loads(shown)


def read(text: str) -> tuple[list[Frame | None], bool]:
    """The frames of a response, None for a line that is none; and whether all lines are frames."""
    frames: list[Frame | None] = []
    last: dict[str, Any] = {}
    for line in text[:MAX_ANSWER].strip("\n").split("\n"):
        frame = None
        if found := FRAME.fullmatch(line):
            try:
                if found[1]:
                    told = json.loads(found[2]).items()
                    last = {k: last[k] if one == SAME else _value(one) for k, one in told}
                    frame = (found[1], last, found[3].strip())
                else:
                    said = json.loads(found[6])
                    value = said if found[4] == "exception" else _value(said)
                    frame = (found[4], value, found[5].strip())
            except (ValueError, RecursionError, TypeError, KeyError):
                frame = None
        frames.append(frame)
    return frames, None not in frames and len(text) <= MAX_ANSWER


def judge(
    problems: Sequence[Problem], responses: Sequence[str], reward: str, evaluator: Any
) -> list[Judged]:
    """1 where all frames are right, else -1; nothing is run."""
    judged = []
    for problem, text in zip(problems, responses, strict=True):
        truth = [tuple(one) for one in problem.metadata["frames"]]
        frames, whole = read(text)
        right = [repr(a) == repr(b) for a, b in zip_longest(frames, truth)]
        passed = whole and all(right)
        first = right.index(False) if False in right else len(right)
        parts = {
            "frames": sum(right) / len(right),
            "first_wrong": first / len(right),
            "malformed": float(not whole),
        }
        message = "" if passed else "wrong frame" if whole else "malformed"
        judged.append(Judged(1.0 if passed else -1.0, passed, parts, message))
    return judged


def draw(rng: random.Random, split: Split) -> tuple[described.Described, str, list[Frame], str]:
    """A pipeline of a split, its source, the frames of a call, and what is asked."""
    while True:
        task = draw_described(rng, split)
        if len(task.steps) not in DEPTHS:
            continue
        source, values = source_of(task), [rng.randint(1, 9) for _ in range(rng.choice((3, 4)))]
        frames = trace(source, values)
        held = [v for _, told, _ in frames for v in _numbers(told)]
        if held and min(held) >= 0 and max(held) <= LARGEST:
            shown = _shown(values)
            asked = f"Trace.\n{source.replace(HEAD, HEAD + START.rstrip())}solve({shown})\n"
            return task, source, frames, asked + "Answer:\n"


def _numbers(told: Any) -> list[int]:
    values = told["a"] if isinstance(told, dict) else told
    return values if isinstance(values, list) else [values] if isinstance(values, int) else []


@cache
def load(name: str) -> tuple[Problem, ...]:
    """The problems of ``traces:train`` or ``traces:test``: other programs in each."""
    split: Split = "test" if name.endswith("test") else "train"
    rng = random.Random(f"traces-{split}")
    found: dict[str, Problem] = {}
    while len(found) < SIZES[split]:
        task, source, frames, asked = draw(rng, split)
        found.setdefault(
            asked,
            Problem(
                id=f"traces/{split}/{len(found)}",
                statement=asked,
                form="call",
                fn_name="solve",
                tests=({"args": [list(frames[0][1]["a"])], "expected": frames[-1][1]},),
                difficulty=("easy", "medium", "hard")[len(task.steps) - 1],
                kind="raises" if frames[-2][0] == "exception" else "returns",
                source="traces",
                references=(source,),
                metadata={"program": task.key, "frames": [list(one) for one in frames]},
            ),
        )
    return tuple(found.values())


def demonstrations(seed: int) -> Iterator[tuple[str, str]]:
    """An endless stream, half of it traces of programs of the train split, half nano's programs."""
    rng = random.Random(f"traces-corpus-{seed}")
    others = untraced(seed)
    while True:
        yield next(others)
        _, _, frames, asked = draw(rng, "train")
        yield asked, write(frames)


def untraced(seed: int) -> Iterator[tuple[str, str]]:
    """The control: nano's programs alone."""
    return programs(seed, LOOPING)


TASK = Task("traces", ("traces:train", "traces:test"), load, (TESTS,), judge)
