"""What ``mcbench evaluate`` and ``mcbench data calibrate`` do: a model by name on problems by name,
kept in a folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.data.benchmarks import BenchmarkSet, check_window, is_benchmark, open_benchmark
from mcbench.errors import UserError
from mcbench.files import digest, make_writable, write_atomic, write_json
from mcbench.runs.evaluate import Asked, Problems, check_any, evaluate, select_problems
from mcbench.runs.presets import PROFILES
from mcbench.runs.problems import (
    SETS,
    has_chat_template,
    is_run,
    load_problems,
    model_digest,
    model_location,
    problems_digest,
)
from mcbench.runs.scores import Cells, EvalResult, cells_of, summary, table_text
from mcbench.runs.store import read_run
from mcbench.worlds import task_of
from mcbench.worlds.multi_turn import Environment

if TYPE_CHECKING:
    from mcbench.runs.sampling import Policy

_OF_BENCHMARKS: Mapping[str, Any] = {"eval_lengths": (4096, 8192)}  # what the paper tests at
_CACHE = Path("runs/benchmarks")
BATCH_SIZE = 256


def evaluate_request(
    model: str,
    test_set: str | None = None,
    *,
    data: str = "",
    start: str = "",
    end: str = "",
    limit: int | None = None,
    attempts: int | None = None,
    lengths: Sequence[int] | None = None,
    temperature: float | None = None,
    prompt_style: str | None = None,
    enable_thinking: bool | None = None,
    stop_at_fence: bool | None = None,
    backend: str = "transformers",
    batch_size: int = BATCH_SIZE,
    workers: int = 2,
    seed: int = 0,
    folder: str | None = None,
    output: str | None = None,
    dry_run: bool = False,
    published: Callable[[], Mapping[str, Cells]] | None = None,
) -> list[EvalResult]:
    """Evaluate a model, print its scores and return them; what is None is as in the model's own run
    or profile (nano's where it has neither), or usual for a benchmark.

    Args:
        test_set: as :func:`mcbench.runs.problems.load_problems` takes it.
        enable_thinking: of the chat template; None: the template's default where neither says.
        stop_at_fence: whether a response ends with its first code block.
        batch_size: responses sampled at once, at most.
        data, start, end: of a benchmark: a local copy, and the dates of its problems.
        folder: where samples and verdicts are kept; one that the settings name where None.
        output: a JSON file for the results.
        dry_run: whether to say what would be sampled instead; there are no results then.
        published: rows to print below ours where the problems are those of the paper.

    Raises:
        UserError: wrong input; nothing was sampled.
    """
    for name, value in (("limit", limit), ("batch-size", batch_size), ("workers", workers)):
        if value is not None and value < 1:
            raise UserError(f"--{name} must be at least 1, got {value}")
    check_window(start, end)
    if output:
        make_writable(Path(output).parent, "the folder of --output,")  # before the work
    location = model_location(model)  # first: the most likely mistake
    usual = _usual(model)
    test_set = test_set or str(usual["test_set"])
    problems, content = _test_set(test_set, data, start, end, limit)
    of_set = _OF_BENCHMARKS if isinstance(problems, BenchmarkSet) else usual
    attempts = of_set.get("eval_attempts", 4) if attempts is None else attempts
    temperature = of_set.get("eval_temperature", 1.0) if temperature is None else temperature
    lengths = list(lengths or of_set["eval_lengths"])
    style, told = _style(prompt_style, location)
    thinking = usual.get("enable_thinking") if enable_thinking is None else enable_thinking
    told += {None: "", True: ", thinking on", False: ", thinking off"}[thinking]
    fence = bool(usual.get("stop_at_fence") if stop_at_fence is None else stop_at_fence)
    told += ", up to the end of their code block" * fence
    check_any(problems)
    asked = Asked(lengths, attempts, temperature, style, seed)
    about = {
        "model": model,
        "model_digest": model_digest(model),
        "test_set": test_set,
        "problems": content,
    }
    environment, told_too = _environment(usual, problems)
    about |= told_too
    about |= _sampled_how(thinking, backend, batch_size, fence)
    key = digest([json.dumps([about, lengths, attempts, temperature, seed, style])])[:12]
    where = Path(
        folder or _CACHE / "evaluations" / f"{Path(test_set).name.replace(':', '-')}-{key}"
    )
    print(
        f"{model} on {test_set}, {len(problems)} problems x {attempts} attempts, "
        f"temperature {temperature:g}, {style} prompts ({told})",
        flush=True,
    )

    if dry_run:
        count = len(problems) * attempts
        limits = ", ".join(f"{length:,}" for length in lengths)
        known = "is there: what it holds is not sampled again" if where.exists() else "is new"
        print(f"{count:,} responses at each maximum length of {limits} tokens, with {backend}")
        print(f"samples and verdicts: {where}, which {known}")
        return []

    def load() -> Policy:
        from mcbench.runs.sampling import load_policy

        policy = load_policy(model, backend, batch_size, fence)
        return replace(policy, enable_thinking=thinking)

    results = evaluate(
        load, problems, workers=workers, folder=where, about=about, progress=True,
        environment=environment, **vars(asked),
    )  # fmt: skip
    _print_scores(results, problems, published)
    print(f"samples and verdicts: {where}")
    if output:
        write_json(Path(output), [result.to_dict() for result in results])
    return results


def _print_scores(
    results: Sequence[EvalResult],
    problems: Problems,
    published: Callable[[], Mapping[str, Cells]] | None,
) -> None:
    """Each length in lines, then all of them in one table."""
    opened = problems if isinstance(problems, BenchmarkSet) else None
    source, together = ("kind", opened.benchmark.title) if opened else ("form", "all")
    rows: dict[str, Cells] = {}
    for result in results:
        print("\n".join(summary(result)))
        label = f"up to {result.max_completion_length} tokens"
        rows[label] = cells_of(result.per_problem, source, together)
    if opened and (refused := opened.refused):
        print(f"{len(refused)} published problems or tests were left out, the first: {refused[0]}")
    if published is not None and opened and opened.is_the_papers:
        rows |= published()
    print(table_text(rows))


def _style(asked: str | None, location: str) -> tuple[str, str]:
    """How a model is prompted, and why."""
    if asked is not None:
        return asked, "as asked"
    if has_chat_template(location):
        return "chat", "its tokenizer has a chat template"
    return "plain", "its tokenizer has no chat template"


def _usual(model: str) -> Mapping[str, Any]:
    """Settings of the run or profile whose model it is; nano's of any other."""
    if is_run(model):
        return read_run(model).config.model_dump()
    return PROFILES.get(model, PROFILES["nano"])


def _sampled_how(
    thinking: bool | None, backend: str, batch_size: int, fence: bool
) -> dict[str, str]:
    """What else decides which responses are drawn, where it is not the usual."""
    usual = {
        "enable_thinking": "None",
        "backend": "transformers",
        "batch_size": str(BATCH_SIZE),
        "stop_at_fence": "False",
    }
    values = map(str, (thinking, backend, batch_size, fence))
    return {name: one for name, one in zip(usual, values, strict=True) if one != usual[name]}


def _environment(
    usual: Mapping[str, Any], problems: Any
) -> tuple[partial[Environment] | None, dict[str, str]]:
    """What episodes are played in, as the model is trained, and what is told of it; None where
    responses are of one turn.
    """
    task = task_of(getattr(problems, "entries", problems))
    feedback = usual.get("feedback")
    if task.environment is None or feedback not in task.feedback:
        return None, {}
    return partial(task.environment, feedback=feedback, training=False), {"feedback": feedback}


def _test_set(
    name: str, data: str, start: str, end: str, limit: int | None
) -> tuple[Problems, str]:
    """The problems, and a hash of them."""
    if name in SETS or not is_benchmark(name):
        if data or start or end:
            raise UserError(f"--data, --from and --to are for benchmarks; {name} is none")
        problems = select_problems(load_problems(name), limit)
        return problems, problems_digest(problems)
    opened = open_benchmark(name, _CACHE, data, progress=True)
    if start or end:
        opened = opened.window(start, end)
    opened = replace(opened, entries=select_problems(opened.entries, limit))
    return opened, opened.digest


def calibrate(problems: str, model: str, out: Path, **options: Any) -> str:
    """Sample and judge as ``mcbench evaluate`` does, and write JSON lines {"id", "pass_rate"}.

    What was sampled is kept, so that an interrupted measurement goes on. A problem of which every
    attempt ended with our own infrastructure's failure has no rate.

    Returns:
        What was measured, and how a build uses it.

    Raises:
        UserError: as :func:`evaluate_request`.
    """
    make_writable(out.parent, "the folder of --out,")
    (result,) = evaluate_request(model, problems, **options)
    rows = [row for row in result.per_problem if row["attempts"]]
    lines = ({"id": row["id"], "pass_rate": row["passes"] / row["attempts"]} for row in rows)
    write_atomic(out, "".join(json.dumps(line) + "\n" for line in lines))
    always = sum(row["passes"] == row["attempts"] for row in rows)
    never = sum(row["passes"] == 0 for row in rows)
    return (
        f"{len(rows)} problems measured, {always} always and {never} never solved; "
        f"written to {out}\n"
        f"in a build's configuration: difficulty: {{pass_rates: {out}}}"
    )
