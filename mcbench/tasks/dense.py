"""Rewards denser than 1 or 0, for programs with a branch (:mod:`mcbench.tasks.branches`).

Every response is run on all its tests and, unless they alone reward, once more on their inputs
with its lines traced, in the sandbox. It is one of four outcomes: no program (the fence is missing,
or no Python), a runtime error (or a limit), wrong answers, right ones. The rewards, by name:

- ``tests``: 1 if right, else 0; the control.
- ``outcomes``: 1, -0.3 (wrong), -0.6 (runtime), -1 (no program), as CodeRL (Le et al. 2022, arXiv
  2207.01780, Eq. 4) and StepCoder (Dou et al. 2024, arXiv 2402.01391) have it.
- ``ratio``: RLTF's (Liu et al. 2023, arXiv 2307.04349): as before, but -0.3 + 1.3 x the share of
  tests that are right.
- ``similarity``: PPOCoder's (Shojaee et al. 2023, arXiv 2301.13816): 1 if it compiles, else -1,
  plus :func:`ast_match` and :func:`data_flow_match` with the reference. It never asks the tests.

:func:`blamed` and the traced lines become weights of tokens (:mod:`mcbench.grpo.tokens`). The trace
is printed by the process that runs the response, which could forge it: it decides no reward.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from mcbench.data.schema import Problem
from mcbench.evaluator import Submission
from mcbench.evaluator.submission import Result, StdioTest
from mcbench.nano.words import FENCE_CLOSE
from mcbench.tasks.base import TESTS, Judged, Task
from mcbench.tasks.branches import LIMIT_S, NAME, load

NO_PROGRAM, RUNTIME, WRONG, RIGHT = range(4)
"""Outcomes, as CodeRL's critic numbers them from bad to good."""
OUTCOMES = ("no program", "runtime error", "wrong answer", "")
COARSE = (-1.0, -0.6, -0.3, 1.0)
BLAME = -0.3
"""RLTF's, of a token on a blamed line."""
MOST = 2000
"""Characters of a program; a longer answer is no program."""
Trace = tuple[list[int], list[tuple[str, int]]]
"""Lines that ran on any input; the exception and line of each input's run that broke off."""
_WHOLE_TEXT = ("TLE", "MLE", "OLE")

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
        failed.append([type(error).__name__, line])
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


def parsed(code: str | None) -> ast.Module | int:
    """The tree of a program; where it does not compile the line that is at fault, 0 where none is
    or there is no program.
    """
    if code is None:
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, "answer", "exec", dont_inherit=True)
            return ast.parse(code)
    except SyntaxError as error:
        return error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return 0


def outcome_of(result: Result | None) -> int | None:
    """Which of the four, of a program that was run or not; None where our own infrastructure
    failed.
    """
    if result is None:
        return NO_PROGRAM
    found = set(result.verdicts)
    if "IE" in found:
        return None
    if found & {"RE", *_WHOLE_TEXT}:
        return RUNTIME
    return WRONG if "WA" in found else RIGHT


def ast_match(ours: ast.AST, gold: ast.AST) -> float:
    """Share of the reference's subtrees that ours has too, each as often at most as it has them
    (CodeBLEU's syntactic match, Ren et al. 2020, arXiv 2009.10297, section 3.2: names and constants
    are leaves that do not count).
    """
    wanted, found = _subtrees(gold), _subtrees(ours)
    return sum((wanted & found).values()) / max(1, wanted.total())


def _subtrees(tree: ast.AST) -> Counter[str]:
    return Counter(
        text for node in ast.walk(tree) if "(" in (text := _shape(node)).partition("(")[2]
    )


def _shape(node: ast.AST) -> str:
    children = ast.iter_child_nodes(node)
    inner = ",".join(_shape(one) for one in children if not isinstance(one, ast.expr_context))
    return f"{type(node).__name__}({inner})"


def data_flow_match(ours: ast.AST, gold: ast.AST) -> float:
    """Share of the reference's data-flow edges that ours has too (CodeBLEU, section 3.3): an edge
    says which variables a variable's value comes from; variables are numbered by appearance. 1
    where the reference has none.
    """
    wanted, found = _flows(gold), _flows(ours)
    return sum((wanted & found).values()) / wanted.total() if wanted else 1.0


def _flows(tree: ast.AST) -> Counter[tuple[int, tuple[int, ...]]]:
    numbers: dict[str, int] = {}

    def names(node: ast.AST) -> list[int]:
        found = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
        return sorted({numbers.setdefault(name, len(numbers)) for name in found})

    flows: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for node in ast.walk(tree):
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AugAssign):
            pairs = [(node.target, node)]
        elif isinstance(node, (ast.comprehension, ast.For)):
            pairs = [(node.target, node.iter)]
        for target, value in pairs:
            sources = tuple(names(value))
            flows.update((one, sources) for one in names(target))
    return flows


def blamed(failed: Sequence[tuple[str, int]], verdicts: Sequence[str]) -> int | None:
    """RLTF's fine-grained feedback on a program that was run: the line (from 1) at which the first
    run broke off, 0 for the whole text (a limit, too deep a recursion, an unexpected end), None
    where none broke off.

    Args:
        failed: (name of the exception, line) of each run that did.
    """
    if set(verdicts) & set(_WHOLE_TEXT):
        return 0
    for name, line in failed:
        return 0 if name in ("RecursionError", "EOFError") else line
    return None


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
        alike: :func:`ast_match` plus :func:`data_flow_match`, 0 to 2.
    """
    if reward == TESTS:
        return float(outcome == RIGHT)
    if reward == "similarity":
        return -1.0 if outcome == NO_PROGRAM else 1.0 + alike
    if reward == "ratio" and outcome == WRONG:
        return -0.3 + 1.3 * ratio
    return COARSE[outcome]


def judge(
    problems: Sequence[Problem], responses: Sequence[str], reward: str, evaluator: Any
) -> list[Judged]:
    """See the module."""
    codes = [program_of(p, text) for p, text in zip(problems, responses, strict=True)]
    trees = [parsed(code) for code in codes]
    places = [place for place, tree in enumerate(trees) if not isinstance(tree, int)]
    asked = [problems[place].submission(codes[place] or "") for place in places]
    if reward != TESTS:
        asked += [_traced(problems[place], codes[place] or "") for place in places]
    results = evaluator.evaluate(asked) if asked else []
    known = dict(zip(places, results[: len(places)], strict=True))
    traces = dict(zip(places, map(_trace, results[len(places) :]), strict=False))
    return [
        _judged(reward, problem, tree, known.get(place), traces.get(place))
        for place, (problem, tree) in enumerate(zip(problems, trees, strict=True))
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
    tree: ast.Module | int,
    result: Result | None,
    trace: Trace | None,
) -> Judged:
    outcome = outcome_of(result)
    if outcome is None:
        return Judged(None, None)
    syntax = flow = ratio = 0.0
    ran, failed = trace or ([], [])
    skipped: list[int] = []
    if isinstance(tree, int) or result is None:
        line: int | None = tree if isinstance(tree, int) else 0
    else:
        gold = ast.parse(problem.references[0])
        syntax, flow = ast_match(tree, gold), data_flow_match(tree, gold)
        ratio = result.verdicts.count("AC") / len(problem.tests)
        line = blamed(failed, result.verdicts)
        skipped = unexecuted(tree, ran) if trace else []
    given = problem.metadata["given"].count("\n")
    if line:  # one that was given is nobody's fault
        line = line - given if line > given else None
    parts = {
        "no_program": float(outcome == NO_PROGRAM),
        "runtime_error": float(outcome == RUNTIME),
        "ast_match": syntax,
        "data_flow_match": flow,
    }
    notes = {
        "outcome": outcome,
        "blamed": line,
        "unexecuted": [one - given for one in skipped if one > given],
    }
    value = reward_of(reward, outcome, ratio, syntax + flow)
    return Judged(value, outcome == RIGHT, parts, OUTCOMES[outcome], json.dumps(notes))


TASK = Task(
    NAME,
    ("branches:train", "branches:test", "branches-steps:train"),
    load,
    (TESTS, "outcomes", "ratio", "similarity"),
    judge,
    # All that the reference has; what compiles has 1 or more, whatever it does.
    thresholds={"similarity": (3.0, COARSE[NO_PROGRAM])},
)
