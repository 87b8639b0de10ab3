"""What a model is asked.

A problem is asked with its statement, a benchmark's in the words that are usual for the benchmark.
LiveCodeBench asks a chat model with a system message that casts it as a Python expert, and a user
message of three headed parts: the question, the format (fill in the starter code; or read stdin
and write stdout, without testing on the examples) with a code block to follow, and the answer.
The parts and their order are kept, the wording is ours. MBPP's paper casts the model as a Python
expert too, states the task and shows the tests; HumanEval's was given the function to complete,
which a chat model is asked for in words.
"""

from __future__ import annotations

from mcbench.data.schema import Problem
from mcbench.errors import unknown

Prompt = str | list[dict[str, str]]

STYLES = ("chat", "plain")
BENCHMARK_PROMPTS = ("humaneval", "humanevalplus", "mbpp", "mbppplus", "livecodebench")
"""Sources whose problems are asked in the words of their benchmark."""

# What a chat model is told beside the statement: the rule of `mcbench.evaluator.extract`.
CHAT_INSTRUCTION = (
    "Write the complete program in one ```python code block at the end of your answer. The last "
    "block that is marked as python, or not marked at all, is judged."
)
_SYSTEM = (
    "You are an expert in Python. You are given a programming problem and answer with a correct "
    "Python program that does what the problem asks and passes all of its tests."
)
_WITH_STARTER = "Complete the starter code below and put the whole solution in one code block."
_COMPLETE = (
    "Complete this function so that it does what its docstring says. Put the whole program, with "
    "its imports and helper functions, in one code block."
)
_PASS = "Your program must pass these tests. Put the whole program in one code block."
_WITHOUT_STARTER = (
    "Write a program that reads the input from stdin, solves the problem and writes the answer to "
    "stdout; do not run it on the examples. Put the whole program in one code block like this."
)


def prompt_for(problem: Problem, style: str = "chat") -> Prompt:
    """Messages for a chat model (``chat``), or one text for any other (``plain``).

    Raises:
        UserError: an unknown style.
    """
    if style not in STYLES:
        raise unknown("prompt style", style, STYLES)
    question = _of_benchmark(problem)
    if question:
        if style == "plain":
            return f"{_SYSTEM}\n\n{question}"
        return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": question}]
    if style == "plain":
        return problem.statement
    return [{"role": "user", "content": f"{problem.statement}\n\n{CHAT_INSTRUCTION}"}]


def _of_benchmark(problem: Problem) -> str:
    """The user's text for a problem of a benchmark; empty for any other."""
    if problem.source in ("humaneval", "humanevalplus"):
        return f"{_COMPLETE}\n\n```python\n{problem.starter_code.strip()}\n```\n"
    if problem.source in ("mbpp", "mbppplus") and problem.metadata.get("shown_tests"):
        shown = "\n".join(problem.metadata["shown_tests"])
        return f"{problem.statement.strip()}\n\n{_PASS}\n\n```python\n{shown}\n```\n"
    if problem.source == "livecodebench":
        starter = problem.starter_code.strip("\n")
        return (
            f"### Question\n{problem.statement}\n\n"
            f"### Format\n{_WITH_STARTER if starter else _WITHOUT_STARTER}\n"
            f"```python\n{starter or '# your program'}\n```\n\n### Answer\n"
        )
    return ""
