"""``mcbench data``: build a data set of verified problems, look into one."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.group()
def data() -> None:
    """Build a data set of verified problems, or look into one."""


@data.command()
@click.argument("config", metavar="CONFIG.yaml")
@click.option("--out", help="Instead of the file's out.")
@click.option("--workers", type=int, help="Instead of the file's workers.")
@click.option("--dry-run", is_flag=True, help="Check the configuration and print it.")
def build(config: str, out: str | None, workers: int | None, dry_run: bool) -> None:
    """Build a data set from a YAML file; killed, the same command resumes it."""
    from mcbench.data.build import build as build_set
    from mcbench.data.collect import load_sources
    from mcbench.data.config import load_config

    settings = load_config(Path(config))
    changes = {"out": out, "workers": workers}
    settings = settings.changed(**{name: v for name, v in changes.items() if v is not None})
    if dry_run:
        load_sources([*settings.sources, *settings.against])
        print(settings.model_dump_json(indent=1))
        return
    built = build_set(settings, progress=_progress)
    print(built)
    if built.tests_run:
        rate = built.tests_run / built.evaluator_s
        print(
            f"verification: {built.tests_run} runs, {rate:.0f} a second; "
            f"{built.verify_share:.0%} of its time in the evaluator"
        )
    print(f"written to {built.out}; mcbench data inspect {built.out} shows what was dropped")


def _progress(stage: str, done: int, of: int) -> None:
    end = "\n" if done == of or not sys.stderr.isatty() else "\r"
    if sys.stderr.isatty() or done == of:
        print(f"{stage}: {done} of {of} shards", end=end, file=sys.stderr, flush=True)


@data.command()
@click.argument("folder")
@click.option("--examples", type=int, default=2, show_default=True, help="Per rule.")
def inspect(folder: str, examples: int) -> None:
    """Check a built data set and show its funnel and examples of what was dropped."""
    from mcbench.data.report import inspect as inspect_set

    print(inspect_set(Path(folder), examples))
