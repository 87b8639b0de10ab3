"""The command ``mcbench evaluate``. Heavy imports happen inside, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.errors import UserError

if TYPE_CHECKING:
    from mcbench.runs.evaluate import Problems
    from mcbench.runs.sampling import Policy
    from mcbench.runs.score_table import Cells

_BENCHMARK_LENGTHS = (4096, 8192)  # what the paper tests at
_CACHE = Path("runs/benchmarks")


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
    from mcbench.data.storage import make_writable
    from mcbench.runs.evaluate import check_request, evaluate
    from mcbench.runs.files import digest, write_json
    from mcbench.runs.problems import model_digest, model_location
    from mcbench.runs.score_table import cells_of, table_text
    from mcbench.runs.scores import summary

    for name in ("limit", "batch_size", "workers"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if options.output:
        make_writable(Path(options.output).parent, "the folder of --output,")  # before the work
    location = model_location(options.model)  # first: the most likely mistake
    tested = _test_set(options)
    settings = {
        "lengths": options.lengths or list(tested.lengths),
        "attempts": tested.attempts if options.attempts is None else options.attempts,
        "temperature": tested.temperature if options.temperature is None else options.temperature,
        "seed": options.seed,
        "prompt_style": options.prompt_style or tested.prompt_style,
    }
    about = {
        "model": options.model,
        "model_digest": model_digest(location),
        "test_set": options.test_set,
        "problems": tested.digest,
    }
    check_request(tested.problems, *(settings[n] for n in ("lengths", "attempts", "temperature")))
    key = digest([json.dumps({**about, **settings}, sort_keys=True)])[:12]
    name = Path(options.test_set).name.replace(":", "-")
    folder = Path(options.folder or _CACHE / "evaluations" / f"{name}-{key}")
    print(
        f"{options.model} on {options.test_set}, {len(tested.problems)} problems x "
        f"{settings['attempts']} attempts, temperature {settings['temperature']:g}",
        flush=True,
    )
    results = evaluate(
        partial(_load, options),
        tested.problems,
        **settings,
        workers=options.workers,
        folder=folder,
        about=about,
        progress=True,
    )
    rows = {}
    for result in results:
        print("\n".join(summary(result)))
        label = f"up to {result.max_completion_length} tokens"
        rows[label] = cells_of(result.per_problem, tested.by, tested.title)
    for line in tested.notes:
        print(line)
    print(table_text({**rows, **(paper_rows() if tested.is_the_papers else {})}))
    print(f"samples and verdicts: {folder}")
    if options.output:
        write_json(Path(options.output), [result.to_dict() for result in results])


def _load(options: argparse.Namespace) -> Policy:
    from mcbench.runs.sampling import load_policy

    return load_policy(options.model, options.backend, options.batch_size)


@dataclass(frozen=True)
class _TestSet:
    """Problems, and what is usual for them; ``by`` says what a problem's source is in the table."""

    problems: Problems
    digest: str
    title: str = "all"
    by: str = "form"
    lengths: tuple[int, ...] = _BENCHMARK_LENGTHS
    prompt_style: str = "plain"
    attempts: int = 4
    temperature: float = 1.0
    notes: tuple[str, ...] = ()
    is_the_papers: bool = False


def _test_set(options: argparse.Namespace) -> _TestSet:
    from mcbench.data.benchmarks import is_benchmark, open_benchmark
    from mcbench.runs.evaluate import select_problems
    from mcbench.runs.presets import PROFILES
    from mcbench.runs.problems import SETS, load_problems, problems_digest

    name = options.test_set
    if name in SETS or not is_benchmark(name):
        if options.data or options.start or options.end:
            raise UserError(f"--data, --from and --to are for benchmarks; {name} is none")
        problems = select_problems(load_problems(name), options.limit)
        lengths = PROFILES["nano"]["eval_lengths"]
        return _TestSet(problems, problems_digest(problems), lengths=lengths)
    opened = open_benchmark(name, _CACHE, options.data, progress=True)
    if options.start or options.end:
        opened = opened.window(options.start, options.end)
    opened = opened.spread(options.limit)
    left_out = f"{len(opened.refused)} published problems or tests were left out, the first: "
    known = opened.benchmark
    return _TestSet(
        opened,
        opened.digest,
        title=known.title,
        by="kind",
        prompt_style="chat",
        attempts=known.attempts,
        temperature=known.temperature,
        notes=tuple(left_out + one for one in opened.refused[:1]),
        is_the_papers=opened.is_the_papers,
    )


def paper_rows() -> dict[str, Cells]:
    """The paper's Table 1 before training and after MicroCoder-GRPO, as rows of our table."""
    from mcbench.report import paper

    columns = [
        (source if source == "LiveCodeBench" else source.lower(), level.lower())
        for source in paper.SOURCES
        for level in paper.LEVELS
    ]
    rows = {}
    for (size, length), values in paper.NOT_TRAINED.items():
        trained = paper.TRAINED[size, length]["microcoder"]
        rows[f"paper: {paper.MODELS[size]}, {length}"] = values
        rows[f"paper: {size} MicroCoder-GRPO, {length}"] = trained
    return {label: dict(zip(columns, values, strict=True)) for label, values in rows.items()}
