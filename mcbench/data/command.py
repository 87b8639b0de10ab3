"""The command ``mcbench data``. Heavy imports happen inside, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_data(commands: Any) -> None:
    """Add ``data build`` and ``data inspect`` to the commands of the parser."""
    text = "Build a data set of verified problems, or look into one."
    parser = commands.add_parser("data", help=text, description=text)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    text = "Build a data set from a YAML file; killed, the same command resumes it."
    build = actions.add_parser("build", help=text, description=text)
    build.add_argument("config", metavar="CONFIG.yaml")
    build.add_argument("--out", help="instead of the file's out")
    build.add_argument("--workers", type=int, help="instead of the file's workers")
    build.add_argument(
        "--dry-run", action="store_true", help="check the configuration and print it, build nothing"
    )
    build.set_defaults(command=_build)

    text = "Check a built data set and show its funnel and examples of what was dropped."
    inspect = actions.add_parser("inspect", help=text, description=text)
    inspect.add_argument("folder", metavar="FOLDER", help="the out folder of a build")
    inspect.add_argument("--examples", type=int, default=2, help="per rule (default: 2)")
    inspect.set_defaults(command=_inspect)


def _build(options: argparse.Namespace) -> None:
    build_set(Path(options.config), options.out, options.workers, options.dry_run, _progress)


def build_set(
    path: Path,
    out: str | None,
    workers: int | None,
    dry_run: bool,
    progress: Callable[[str, int, int], None],
) -> None:
    """Build the set of a YAML file and say what it cost; ``dry_run`` prints the configuration.

    Args:
        out, workers: instead of the file's.

    Raises:
        UserError: the file cannot be read or is wrong, or as `mcbench.data.build.build`.
    """
    from mcbench.data.build import build
    from mcbench.data.collect import load_sources
    from mcbench.data.config import load_config

    config = load_config(path)
    changes = {"out": out, "workers": workers}
    config = config.changed(**{name: v for name, v in changes.items() if v is not None})
    if dry_run:
        load_sources([*config.sources, *config.against])
        print(config.model_dump_json(indent=1))
        return
    built = build(config, progress=progress)
    print(built)
    if built.measured.tests_run:
        rate = built.measured.tests_run / built.measured.evaluator_s
        print(
            f"verification: {built.measured.tests_run} runs, {rate:.0f} a second; "
            f"{built.measured.verify_share:.0%} of its time in the evaluator"
        )
    print(f"written to {built.out}; mcbench data inspect {built.out} shows what was dropped")


def _progress(stage: str, done: int, of: int) -> None:
    end = "\n" if done == of or not sys.stderr.isatty() else "\r"
    if sys.stderr.isatty() or done == of:
        print(f"{stage}: {done} of {of} shards", end=end, file=sys.stderr, flush=True)


def _inspect(options: argparse.Namespace) -> None:
    from mcbench.data.report import inspect

    print(inspect(Path(options.folder), options.examples))
