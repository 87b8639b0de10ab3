"""Rewards denser than 1 or 0, for programs with a branch (:mod:`mcbench.worlds.branches`).

Every response is run on all its tests and, unless they alone reward, once more on their inputs
with its lines traced, in the sandbox. It is one of four outcomes: no program (the fence is missing,
or no Python), a runtime error (or a limit), wrong answers, right ones. The rewards, by name:

- ``tests``: 1 if right, else 0; the control.
- ``outcomes``: 1, -0.3 (wrong), -0.6 (runtime), -1 (no program), as CodeRL (Le et al. 2022, arXiv
  2207.01780, Eq. 4) and StepCoder (Dou et al. 2024, arXiv 2402.01391) have it.
- ``ratio``: RLTF's (Liu et al. 2023, arXiv 2307.04349): as before, but -0.3 + 1.3 x the share of
  tests that are right (``datasets/utils.py`` of Zyq-scut/RLTF).
- ``ppocoder``: PPOCoder's (Shojaee et al. 2023, arXiv 2301.13816): 1 if it compiles, else -1, plus
  its likeness to the reference, whether it compiles or not (:mod:`mcbench.worlds.code_bleu`;
  ``get_reward`` in its ``reward.py``). It never asks the tests.

:func:`blamed` and the traced lines become weights of tokens (:mod:`mcbench.grpo.tokens`). The trace
is printed by the process that runs the response, which could forge it: it decides no reward.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Collection, Sequence
from typing import Any

from mcbench.data.schema import Problem
from mcbench.evaluator import Submission
from mcbench.evaluator.submission import Result, StdioTest
from mcbench.worlds.base import TESTS, Judged, Task
from mcbench.worlds.branches import LIMIT_S, NAME, load
from mcbench.worlds.code_bleu import matches
from mcbench.worlds.words import FENCE_CLOSE

NO_PROGRAM, RUNTIME, WRONG, RIGHT = range(4)
"""Outcomes, as CodeRL's critic numbers them from bad to good."""
OUTCOMES = ("no program", "runtime error", "wrong answer", "")
COARSE = (-1.0, -0.6, -0.3, 1.0)
MOST = 2000
"""Characters of a program; a longer answer is no program."""
Trace = tuple[list[int], list[tuple[str, int]]]
"""Lines that ran on any input; what each input's run that broke off said last, and its line."""
LIMITS = ("TLE", "MLE", "OLE")
WHOLE = (0, 10**9)
"""The span of a whole response."""
NOBODY = (
    "inconsistent use of tabs", "unindent does not match", "EOF while scanning triple-quoted",
    "duplicate argument", "import * only allowed",
)  # fmt: skip
ENDS_EARLY = ("unexpected EOF while parsing", "invalid syntax", "EOL while scanning")

_TRACER = """\
import sys, io, json
SOURCE, INPUTS = json.loads(sys.stdin.read())
ran, failed = set(), []
def trace(frame, event, arg):
    if frame.f_code.co_filename != "<answer>":
        return None
    ran.add(frame.f_lineno)
    return trace
out, code = sys.stdout, compile(SOURCE, "<answer>", "exec")
for text in INPUTS:
    sys.stdin, sys.stdout = io.StringIO(text), io.StringIO()
    sys.settrace(trace)
    try:
        exec(code, {"__name__": "__main__"})
    except BaseException as error:
        sys.settrace(None)
        step, line = error.__traceback__, 0
        while step is not None:
            if step.tb_frame.f_code.co_filename == "<answer>":
                line = step.tb_lineno
            step = step.tb_next
        said = str(error)[:200]
        failed.append([type(error).__name__ + (": " + said if said else ""), line])
    sys.settrace(None)
sys.stdin, sys.stdout = sys.__stdin__, out
print(json.dumps([sorted(ran), failed]))
"""


def program_of(problem: Problem, response: str) -> str | None:
    """What was given of the program with the response up to its closing fence; None without one,
    or if it is too long.
    """
    code, fence, _ = response.partition(FENCE_CLOSE)
    return problem.metadata["given"] + code if fence and len(code) <= MOST else None


def parsed(code: str | None) -> ast.Module | SyntaxError | None:
    """The tree of a program, or why it does not compile; None without a program or a reason."""
    if code is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "answer", "exec", dont_inherit=True)
            return ast.parse(code)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):
        return None


def outcome_of(result: Result | None) -> int | None:
    """Which of the four, of a program that was run or not; None where our own infrastructure
    failed.
    """
    if result is None:
        return NO_PROGRAM
    found = set(result.verdicts)
    if "IE" in found:
        return None
    if found & {"RE", *LIMITS}:
        return RUNTIME
    return WRONG if "WA" in found else RIGHT


def fault(
    code: str, error: SyntaxError | None, failed: Sequence[tuple[str, int]], verdicts: Sequence[str]
) -> str | None:
    """RLTF's fine-grained feedback (section 3.3 and Table 1; ``ErrorFinder`` in its
    ``program_feedback.py``): the text that is at fault in a program, empty for all of it; None
    where nothing is to blame.

    A program that does not compile: its line, without the space around it; all of it where the
    parser gave up on the last line; nothing for errors that may come from elsewhere, such as a
    wrong dedent. One that breaks off: the line it did so at; all of it where time or recursion was
    too much; nothing for a ``RuntimeError``, for an exit and where the process was ended.

    Args:
        failed: (last line of the traceback, line from 1) of each run that broke off.
    """
    lines = code.removesuffix("\n").split("\n")
    if error is not None:
        told = str(error.msg)
        if any(one in told for one in NOBODY):
            return None
        at = error.lineno or 0
        if any(one in told for one in ENDS_EARLY) and at == len(lines):
            return ""
        line = lines[at - 1] if 0 < at <= len(lines) else ""
        return (line if "unexpected indent" in told else line.strip()) or None
    if "TLE" in verdicts:
        return ""
    for told, at in failed:
        if "RuntimeError" in told or told.startswith("SystemExit"):
            return None
        if "RecursionError" in told:
            return ""
        if told in code:  # such as a bare ``raise NAME``
            return told
        return (lines[at - 1].strip() if 0 < at <= len(lines) else "") or None
    return None


def blamed(response: str, text: str | None) -> tuple[int, int] | None:
    """The span of characters of a response that :func:`fault` blames: where the text first stands,
    as RLTF's ``find_position`` has it; None where it was given.
    """
    if not text:
        return None if text is None else WHOLE
    at = response.find(text)
    return None if at < 0 else (at, at + len(text))


def unexecuted(tree: ast.AST, ran: Collection[int]) -> list[int]:
    """The lines of statements that no run reached, for StepCoder's mask; of a statement with a body
    its first line alone. Lines that hold no statement, such as ``else:``, are never among them.
    """
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno not in ran:
            end = node.lineno if hasattr(node, "body") else node.end_lineno or node.lineno
            lines.update(range(node.lineno, end + 1))
    return sorted(lines)


def reward_of(reward: str, outcome: int, ratio: float, alike: float) -> float:
    """One of the rewards.

    Args:
        ratio: share of the tests that are right.
        alike: both :func:`mcbench.worlds.code_bleu.matches`, 0 to 2.
    """
    if reward == TESTS:
        return float(outcome == RIGHT)
    if reward == "ppocoder":
        return (-1.0 if outcome == NO_PROGRAM else 1.0) + alike
    if reward == "ratio" and outcome == WRONG:
        return -0.3 + 1.3 * ratio
    return COARSE[outcome]


def judge(
    problems: Sequence[Problem], responses: Sequence[str], reward: str, evaluator: Any
) -> list[Judged]:
    """See the module."""
    codes = [program_of(p, text) for p, text in zip(problems, responses, strict=True)]
    trees = [parsed(code) for code in codes]
    places = [place for place, tree in enumerate(trees) if isinstance(tree, ast.Module)]
    asked = [problems[place].submission(codes[place] or "") for place in places]
    if reward != TESTS:
        asked += [_traced(problems[place], codes[place] or "") for place in places]
    results = evaluator.evaluate(asked) if asked else []
    known = dict(zip(places, results[: len(places)], strict=True))
    traces = dict(zip(places, map(_trace, results[len(places) :]), strict=False))
    return [
        _judged(reward, problem, text, tree, known.get(place), traces.get(place))
        for place, (problem, text, tree) in enumerate(zip(problems, responses, trees, strict=True))
    ]


def _traced(problem: Problem, code: str) -> Submission:
    """A run on all inputs that prints the executed lines and what broke off; plain data, since it
    may be run on another machine.
    """
    inputs = [test["stdin"] for test in problem.tests]
    test = StdioTest(json.dumps([code, inputs]), "", keep_output=True)
    return Submission(_TRACER, [test], time_limit_s=2 * LIMIT_S)


def _trace(result: Result) -> Trace | None:
    """What such a run printed; None where it was anything else, or the run was ended."""
    try:
        ran, failed = json.loads(result.tests[0].output or "")
        return [int(one) for one in ran], [(str(n), int(line)) for n, line in failed]
    except (ValueError, TypeError, RecursionError, OverflowError):  # forged
        return None


def _judged(
    reward: str,
    problem: Problem,
    response: str,
    tree: ast.Module | SyntaxError | None,
    result: Result | None,
    trace: Trace | None,
) -> Judged:
    outcome = outcome_of(result)
    if outcome is None:
        return Judged(None, None)
    given = problem.metadata["given"]
    code = given + response.partition(FENCE_CLOSE)[0][:MOST]
    syntax, flow = matches(code, problem.references[0])
    ratio, (ran, failed), verdicts = 0.0, trace or ([], []), list[str]()
    skipped: list[int] = []
    if result is not None and isinstance(tree, ast.Module):
        verdicts = list(result.verdicts)
        ratio = verdicts.count("AC") / len(problem.tests)
        skipped = unexecuted(tree, ran) if trace else []
    error = tree if isinstance(tree, SyntaxError) else None
    parts = {
        "no_program": float(outcome == NO_PROGRAM),
        "runtime_error": float(outcome == RUNTIME),
        "ast_match": syntax,
        "data_flow_match": flow,
    }
    notes = {
        "outcome": outcome,
        "blamed": blamed(response, fault(code, error, failed, verdicts)),
        "unexecuted": [one for line in skipped if (one := line - given.count("\n")) > 0],
    }
    value = reward_of(reward, outcome, ratio, syntax + flow)
    return Judged(value, outcome == RIGHT, parts, OUTCOMES[outcome], json.dumps(notes))


TASK = Task(
    NAME,
    ("branches:train", "branches:test", "branches-steps:train"),
    load,
    (TESTS, "outcomes", "ratio", "ppocoder"),
    judge,
    # All that the reference has; what compiles has 1 or more, whatever it does.
    thresholds={"ppocoder": (3.0, 0.99)},
    answer=lambda one: one.references[0].removeprefix(one.metadata["given"]) + FENCE_CLOSE,
)
