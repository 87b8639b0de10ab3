"""``mcbench data``: build a data set of verified problems, look into one, hand it on."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm  # type: ignore[import-untyped]

_EVERY_S = 15.0


@click.group()
def data() -> None:
    """Build a data set of verified problems, look into one, or hand it on."""


@data.command()
@click.argument("config", metavar="CONFIG.yaml")
@click.option("--out", help="Instead of the file's out.")
@click.option("--workers", type=int, help="Instead of the file's workers.")
@click.option("--dry-run", is_flag=True, help="Check the configuration and print it.")
def build(config: str, out: str | None, workers: int | None, dry_run: bool) -> None:
    """Build a data set from a YAML file; killed, the same command resumes it."""
    from mcbench.data.build import build as build_set
    from mcbench.data.collect.source import load_sources, local_size
    from mcbench.data.config import load_config

    settings = load_config(Path(config))
    changes = {"out": out, "workers": workers}
    settings = settings.changed(**{name: v for name, v in changes.items() if v is not None})
    if dry_run:
        given = load_sources([*settings.sources, *settings.against])
        print(settings.model_dump_json(indent=1))
        for source in given:
            print(local_size(source), file=sys.stderr)
        return
    with closing(_Progress()) as progress:
        built = build_set(settings, progress=progress)
    print(built)
    if built.tests_run:
        rate = built.tests_run / built.evaluator_s
        print(f"verification: {built.tests_run} runs of the evaluator, {rate:.0f} a second")
    print(f"written to {built.out}; mcbench data inspect {built.out} shows what was dropped")


class _Progress:
    """A bar for each stage, one after the other; off a terminal a line only now and then."""

    def __init__(self) -> None:
        self.bar: Any = None

    def __call__(self, stage: str, done: int, of: int) -> None:
        if self.bar is None:
            every = 0.1 if sys.stderr.isatty() else _EVERY_S
            self.bar = tqdm(total=of, desc=stage, mininterval=every)
        self.bar.update(done - self.bar.n)
        if done == of:
            self.close()

    def close(self) -> None:
        """Also of a stage that ended early."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


@data.command()
@click.argument("folder")
@click.option("--examples", type=int, default=2, show_default=True, help="Per rule.")
def inspect(folder: str, examples: int) -> None:
    """Check a built data set and show its funnel and examples of what was dropped."""
    from mcbench.data.report import inspect as inspect_set

    print(inspect_set(Path(folder), examples))


@data.command()
@click.argument("name", required=False)
def sources(name: str | None) -> None:
    """List what problems are read from, or describe the one called NAME."""
    from mcbench.data.collect.source import describe_sources

    print(describe_sources(name))


@data.command()
@click.argument("folder")
@click.option("--form", required=True, help="trl or verl.")
@click.option("--out", required=True, help="Folder of train.parquet and its card.")
def export(folder: str, form: str, out: str) -> None:
    """Write a built data set in the form another trainer reads."""
    from mcbench.data.export import export as export_set

    print(export_set(Path(folder), form, Path(out)))


@data.command()
@click.argument("problems")
@click.option("--model", required=True, help="A checkpoint, a run directory or a hub id.")
@click.option("--out", required=True, metavar="FILE.jsonl", help="Where the pass rates go.")
@click.option("--attempts", type=int, default=8, show_default=True, help="Per problem.")
@click.option("--length", type=int, default=4096, show_default=True, help="Tokens of a response.")
@click.option("--temperature", type=float, default=1.0, show_default=True)
@click.option("--limit", type=int, help="Only this many problems, evenly spread.")
@click.option("--backend", type=click.Choice(["transformers", "vllm"]), default="transformers")
@click.option("--batch-size", type=int, default=256, help="Responses sampled at once.")
@click.option("--workers", type=int, default=2, help="Sandboxes that run programs.")
def calibrate(problems: str, model: str, out: str, length: int, **options: Any) -> None:
    """Measure pass rates of MODEL on PROBLEMS (a built set); killed, the same command resumes.

    The file is what difficulty: {pass_rates: FILE.jsonl} of a build's configuration names.
    """
    from mcbench.runs.evaluate_command import calibrate as measure

    print(measure(problems, model, Path(out), lengths=[length], **options))
