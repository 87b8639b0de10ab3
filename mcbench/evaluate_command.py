"""The command ``mcbench evaluate``. Heavy imports happen inside, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcbench.errors import UserError

_BENCHMARK_LENGTHS = (4096, 8192)  # what the paper tests at


def add_evaluate(commands: Any, integers: Callable[[str], list[int]]) -> None:
    """Add ``evaluate`` to the commands; ``integers`` reads a list such as 96,192."""
    text = "pass@1 of a model or checkpoint on a benchmark or a problem set."
    parser = commands.add_parser("evaluate", help=text, description=text)
    parser.set_defaults(command=_evaluate)
    add = parser.add_argument
    add("model", help="nano-s, a checkpoint or run directory, or a hub id")
    add(
        "--test-set",
        default="nano:test",
        help="livecodebench, humaneval, mbpp, a subset of one such as livecodebench:release_v5, "
        "nano:test (default), or a .jsonl file of problems",
    )
    add("--data", default="", metavar="PATH", help="a local copy of the benchmark (default: hub)")
    add("--from", dest="start", default="", metavar="DATE", help="only problems from that day on")
    add("--to", dest="end", default="", metavar="DATE", help="only problems up to that day")
    add("--limit", type=int, help="only this many problems, evenly spread")
    add("--attempts", type=int, help="per problem (default: 4)")
    add(
        "--lengths",
        type=integers,
        metavar="96,192",
        help="maximum response lengths in tokens (default: 4096,8192 for benchmarks, those of the "
        "nano profile for any other set)",
    )
    add("--temperature", type=float, help="default: 1")
    add(
        "--prompt-style",
        choices=("plain", "chat"),
        help="default: chat for benchmarks, plain for any other set",
    )
    add("--backend", choices=("transformers", "vllm"), default="transformers")
    add("--batch-size", type=int, default=256, help="responses sampled at once")
    add("--workers", type=int, default=2, help="sandboxes that run programs")
    add("--seed", type=int, default=0)
    add("--folder", help="where samples and verdicts are kept (default: one for these settings)")
    add("-o", "--output", help="also write the results to this JSON file")


def _evaluate(options: argparse.Namespace) -> None:
    from mcbench.data.benchmarks import is_benchmark

    for name in ("limit", "batch_size", "workers"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if options.output:
        from mcbench.files import make_writable

        make_writable(Path(options.output).parent, "the folder of --output,")  # before the work
    results = _benchmark(options) if is_benchmark(options.test_set) else _problem_file(options)
    if options.output:
        from mcbench.files import write_json

        write_json(Path(options.output), [result.to_dict() for result in results])


# Benchmarks --------------------------------------------------------------------------------------


def _benchmark(options: argparse.Namespace) -> list[Any]:
    from mcbench.runs.benchmark import EvaluationRequest, evaluate_benchmark
    from mcbench.runs.benchmark_scores import summary, table_cells
    from mcbench.runs.presets import PROFILES
    from mcbench.runs.score_table import table_text

    nano = options.test_set.startswith("nano")
    lengths = PROFILES["nano"]["eval_lengths"] if nano else _BENCHMARK_LENGTHS
    request = EvaluationRequest(
        model=options.model,
        benchmark=options.test_set,
        lengths=tuple(options.lengths or lengths),
        path=options.data,
        start=options.start,
        end=options.end,
        limit=options.limit,
        attempts=options.attempts,
        temperature=options.temperature,
        seed=options.seed,
        prompt_style=options.prompt_style or ("plain" if nano else "chat"),
        backend=options.backend,
        batch_size=options.batch_size,
        workers=options.workers,
        folder=Path(options.folder) if options.folder else None,
    )
    run, results = evaluate_benchmark(request, progress=True)
    rows = {}
    for result in results:
        print("\n".join(summary(run, result)))
        rows[f"up to {result.max_completion_length} tokens"] = table_cells(
            run.problems.benchmark, result
        )
    if run.problems.is_the_papers:
        from mcbench.report.table import paper_rows

        rows |= paper_rows()
    print(table_text(rows))
    print(f"samples and verdicts: {run.folder}")
    return results


# Problem files -----------------------------------------------------------------------------------


def _problem_file(options: argparse.Namespace) -> list[Any]:
    from mcbench.runs.evaluate import check_request, evaluate_model, select_problems
    from mcbench.runs.presets import PROFILES
    from mcbench.runs.problems import load_problems, model_location

    if options.backend != "transformers":
        raise UserError("--backend vllm is for benchmarks; a problem set takes transformers")
    lengths = options.lengths or list(PROFILES["nano"]["eval_lengths"])
    model_location(options.model)  # first: the most likely mistake, and the cheapest check
    problems = select_problems(load_problems(options.test_set), options.limit)
    attempts = 4 if options.attempts is None else options.attempts
    temperature = 1.0 if options.temperature is None else options.temperature
    check_request(problems, lengths, attempts, temperature)

    from mcbench.evaluator import Evaluator
    from mcbench.runs.train import load_model

    model, tokenizer = load_model(options.model)
    print(f"{options.model}: {len(problems)} problems x {attempts} attempts", flush=True)
    with Evaluator(workers=options.workers) as evaluator:
        results = evaluate_model(
            model,
            tokenizer,
            problems,
            evaluator=evaluator,
            lengths=lengths,
            attempts=attempts,
            temperature=temperature,
            seed=options.seed,
            prompt_style=options.prompt_style or "plain",
            batch_size=options.batch_size,
        )
    for result in results:
        _print_result(result)
    return results


def _print_result(result: Any) -> None:
    print(
        f"up to {result.max_completion_length} tokens: pass@1 {result.pass_at_1:.1%}, "
        f"mean length {result.mean_length:.0f}, truncated {result.truncated_share:.1%}, "
        f"Distinct-4 {result.distinct_4:.3f}"
    )
    levels = [level for level in ("easy", "medium", "hard") if (level,) in result.by("difficulty")]
    cells = result.by("form", "difficulty")
    print("  form   " + "".join(f"{level:>9}" for level in levels) + "      all")
    for (form,), overall in result.by("form").items():
        row = [cells.get((form, level)) for level in levels]
        texts = "".join("        -" if cell is None else f"{cell:9.1%}" for cell in row)
        print(f"  {form:7}{texts}{overall:9.1%}")
    totals = result.by("difficulty")
    texts = "".join(f"{totals[(level,)]:9.1%}" for level in levels)
    print(f"  all    {texts}{result.pass_at_1:9.1%}")
