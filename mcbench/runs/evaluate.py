"""Accuracy of a model on a set of problems: pass@1 as the mean of several sampled attempts.

A response cut at L tokens is the first L tokens of the response cut at 2L, because sampling goes
from left to right. So each problem is sampled once at the longest length and judged at every one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcbench.data.judge import submission
from mcbench.data.schema import Problem
from mcbench.errors import UserError, unknown
from mcbench.runs.problems import prompt_for

GROUPINGS = ("form", "difficulty", "kind")


@dataclass(frozen=True)
class EvalResult:
    """One evaluation at one length.

    ``per_problem`` has one dict a problem: id, form, difficulty, kind, passes, attempts (the number
    that was judged: attempts lost to an infrastructure failure do not count).
    """

    max_completion_length: int
    temperature: float
    attempts: int
    pass_at_1: float
    mean_length: float
    truncated_share: float
    distinct_4: float
    per_problem: tuple[dict[str, Any], ...]

    def pass_at(self, k: int) -> float:
        """Unbiased pass@k, mean over problems.

        Raises:
            UserError: k is not between 1 and the attempts judged for every problem.
        """
        return mean_pass_at(self.per_problem, k)

    def by(self, *names: str) -> dict[tuple[str, ...], float]:
        """pass@1 by form, difficulty or kind, or by several of them together."""
        for name in names:
            if name not in GROUPINGS:
                raise unknown("grouping", name, GROUPINGS)
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in self.per_problem:
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
        return {key: mean_pass_at(rows, 1) for key, rows in sorted(groups.items())}

    def to_dict(self) -> dict[str, Any]:
        """The line of evals.jsonl, less step and data set."""
        return {**vars(self), "per_problem": list(self.per_problem)}


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass@k from ``n`` attempts of which ``c`` passed (Chen et al. 2021).

    1 - C(n-c, k) / C(n, k).

    Raises:
        UserError: k above n, or numbers that cannot be.
    """
    if not 1 <= k <= n:
        raise UserError(f"pass@{k} needs 1 <= k <= attempts, and there are {n} attempts")
    if not 0 <= c <= n:
        raise UserError(f"{c} of {n} attempts cannot have passed")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at(per_problem: Sequence[dict[str, Any]], k: int) -> float:
    """Mean over problems of the unbiased pass@k; problems without a judged attempt are left out."""
    judged = [row for row in per_problem if row["attempts"]]
    if not judged:
        return float("nan")
    return float(np.mean([pass_at_k(row["attempts"], row["passes"], k) for row in judged]))


def select_problems(problems: Sequence[Problem], limit: int | None) -> tuple[Problem, ...]:
    """``limit`` problems spread evenly over the set; all of them where None."""
    if limit is None or limit >= len(problems):
        return tuple(problems)
    return tuple(problems[i * len(problems) // limit] for i in range(limit))


def evaluate_model(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    *,
    evaluator: Any,
    lengths: Sequence[int],
    attempts: int = 4,
    temperature: float = 1.0,
    seed: int = 0,
    prompt_style: str = "plain",
    batch_size: int = 256,
    sampler: Any = None,
) -> list[EvalResult]:
    """Sample ``attempts`` responses a problem and judge them at each of ``lengths``.

    The model's training mode and the global random state are left as they were; the same seed gives
    the same responses.

    Args:
        evaluator: a :class:`mcbench.evaluator.Evaluator`.
        lengths: maximum response lengths in tokens.
        sampler: a :data:`mcbench.runs.sampling.Sampler`; ``model.generate`` where None.

    Returns:
        One result per length, in the order given.

    Raises:
        UserError: a temperature, length or number of attempts that is not greater than 0.
    """
    from mcbench.runs.sampling import end_tokens, prompt_ids, transformers_sampler

    check_request(problems, lengths, attempts, temperature)
    sample = sampler or transformers_sampler(model, tokenizer, batch_size)
    prompts = prompt_ids(tokenizer, [prompt_for(problem, prompt_style) for problem in problems])
    repeated = [ids for ids in prompts for _ in range(attempts)]
    responses = sample(repeated, max(lengths), temperature, seed)
    ends = set(end_tokens(model, tokenizer))
    texts = {
        length: tokenizer.batch_decode([r[:length] for r in responses], skip_special_tokens=True)
        for length in lengths
    }
    verdicts = judge(evaluator, problems, texts, attempts)
    return [
        _result(problems, [r[:length] for r in responses], ends, verdicts[length], length,
                attempts, temperature)
        for length in lengths
    ]  # fmt: skip


def check_request(
    problems: Sequence[Problem], lengths: Sequence[int], attempts: int, temperature: float
) -> None:
    """Refuse an evaluation that cannot be made, before anything is loaded."""
    if not problems:
        raise UserError("the problem set is empty; at least one problem is needed")
    if not lengths or min(lengths) < 1:
        raise UserError(f"lengths must be whole numbers from 1, got {list(lengths)}")
    if attempts < 1:
        raise UserError(f"attempts must be at least 1, got {attempts}")
    if not (math.isfinite(temperature) and temperature > 0):
        raise UserError(f"temperature must be greater than 0, got {temperature}")


def judge(
    evaluator: Any, problems: Sequence[Problem], texts: dict[int, list[str]], attempts: int
) -> dict[int, list[bool | None]]:
    """Whether each response passes; None where our own infrastructure failed (IE).

    Response i belongs to problem i // attempts. Equal programs for one problem run once, which also
    covers every response that ended before the shortest length.
    """
    from mcbench.evaluator import extract_code

    keys = {
        length: [(i // attempts, extract_code(text)) for i, text in enumerate(rows)]
        for length, rows in texts.items()
    }
    programs = dict.fromkeys(key for rows in keys.values() for key in rows if key[1] is not None)
    submissions = [submission(problems[index], code or "") for index, code in programs]
    results = evaluator.evaluate(submissions, early_exit=True) if submissions else []
    passed: dict[tuple[int, str | None], bool | None] = {
        key: None if "IE" in result.verdicts else result.passed
        for key, result in zip(programs, results, strict=True)
    }
    return {length: [passed.get(key, False) for key in rows] for length, rows in keys.items()}


def _result(
    problems: Sequence[Problem],
    responses: list[list[int]],
    ends: set[int],
    passed: list[bool | None],
    length: int,
    attempts: int,
    temperature: float,
) -> EvalResult:
    from mcbench.grpo.diversity import distinct_n

    per_problem = []
    for index, problem in enumerate(problems):
        judged = [p for p in passed[index * attempts : (index + 1) * attempts] if p is not None]
        per_problem.append(
            {
                "id": problem.id,
                "form": problem.form,
                "difficulty": problem.difficulty,
                "kind": problem.kind,
                "passes": sum(judged),
                "attempts": len(judged),
            }
        )
    groups = [responses[i : i + attempts] for i in range(0, len(responses), attempts)]
    return EvalResult(
        max_completion_length=length,
        temperature=temperature,
        attempts=attempts,
        pass_at_1=mean_pass_at(per_problem, 1),
        mean_length=float(np.mean([len(r) for r in responses])),
        truncated_share=float(np.mean([r[-1] not in ends for r in responses])),
        distinct_4=distinct_n(groups, (4,))[4],
        per_problem=tuple(per_problem),
    )
