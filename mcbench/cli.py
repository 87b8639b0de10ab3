"""The command line. Heavy imports happen inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench import __version__
from mcbench.data.command import add_data
from mcbench.errors import UserError
from mcbench.evaluate_command import add_evaluate
from mcbench.report_command import add_report
from mcbench.sweep_command import add_sweep

if TYPE_CHECKING:
    from mcbench.runs.config import Config
    from mcbench.scale.launch import Launch

EXIT_FAILED, EXIT_USER_ERROR, EXIT_INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 2 for wrong input, 1 for a failure."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except UserError as error:
        print(f"mcbench: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except _Failed as error:
        print(f"mcbench: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("mcbench: interrupted; the same command resumes", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


class _Failed(Exception):
    """The command ran and did not succeed."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mcbench", description="Reinforcement learning of code models, on top of TRL."
    )
    parser.add_argument("--version", action="version", version=f"mcbench {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_train(commands)
    add_sweep(partial(_command, commands), _integers, _add_changes)
    _add_run(commands)
    add_evaluate(commands, _integers)
    add_data(commands)
    add_report(partial(_command, commands))
    _add_nano(commands)
    _add_doctor(commands)
    return parser


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=run)
    return parser


def _add_changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change one value of the profile or the algorithm, such as --set learning_rate=1e-4; "
        "VALUE is JSON, or plain text; may be given several times",
    )
    parser.add_argument("--steps", type=int, help="optimizer updates (default: the profile's)")
    parser.add_argument("--runs-dir", default="runs", help="where runs are kept (default: runs)")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be done and do nothing"
    )


# train -------------------------------------------------------------------------------------------


def _add_train(commands: Any) -> None:
    parser = _command(
        commands,
        "train",
        _train,
        "Train one run; resumes an interrupted one, reuses a finished one.",
    )
    parser.add_argument("--profile", default="nano", help="the scale (default: nano)")
    parser.add_argument(
        "--recipe", default="microcoder", help="the algorithm (default: microcoder)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a resolved configuration, or the run.json of a run, instead of the options above; "
        "- reads it from standard input",
    )
    parser.add_argument("--label", help="how progress lines name the run")
    _add_launch(parser)
    _add_changes(parser)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="with --dry-run: time some updates here, for about 30 s",
    )


def _add_launch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--launch",
        metavar="CONFIG",
        help="train with several processes: cpu, ddp, fsdp2, zero2, zero3, or the path of an "
        "accelerate configuration",
    )
    parser.add_argument(
        "--processes", type=int, help="of all machines together (default: the configuration's)"
    )
    parser.add_argument("--machines", type=int, default=1, help="machines (default: 1)")
    parser.add_argument("--machine-rank", type=int, default=0, help="which of them this is, from 0")
    parser.add_argument(
        "--main-address", metavar="HOST:PORT", help="of machine 0, where there are several"
    )


def _launch_of(options: argparse.Namespace) -> Launch | None:
    """The launch that the options ask for; None where they ask for none."""
    from mcbench.scale.launch import launch

    several = (options.processes, options.machines, options.machine_rank, options.main_address)
    if options.launch is not None:
        return launch(options.launch, *several)
    if several[:3] != (None, 1, 0):
        raise UserError("--processes, --machines and --machine-rank need --launch CONFIG")
    return None


def _train_arguments(options: argparse.Namespace) -> list[str]:
    """The options that say what is trained, for the commands that a dry run shows."""
    if options.config is not None:
        chosen = ["--config", options.config]
    else:
        chosen = ["--profile", options.profile, "--recipe", options.recipe]
        chosen += ["--seed", str(options.seed)]
        for change in options.set:
            chosen += ["--set", change]
        if options.steps is not None:
            chosen += ["--steps", str(options.steps)]
    if options.label is not None:
        chosen += ["--label", options.label]
    return [*chosen, "--runs-dir", options.runs_dir]


def _train(options: argparse.Namespace) -> None:
    from mcbench.scale.launch import LaunchFailedError, train_here, train_launched
    from mcbench.scale.process import end_with_parent

    end_with_parent()
    config = _train_config(options)
    launch = _launch_of(options)
    if options.dry_run:
        from mcbench.scale.dry_run import dry_run

        arguments = _train_arguments(options)
        for line in dry_run(config, options.runs_dir, launch, arguments, options.measure):
            print(line, flush=True)
    elif launch is None:
        train_here(config, options.runs_dir, options.label)
    else:
        try:
            train_launched(config, options.runs_dir, launch, options.label)
        except LaunchFailedError as error:
            raise _Failed(str(error)) from error


def _train_config(options: argparse.Namespace) -> Config:
    from mcbench.runs.config import Config, parse_settings, resolve

    if options.config is None:
        changes = parse_settings(options.set, "--set")
        return resolve(options.profile, options.recipe, changes, options.seed, options.steps)
    if options.set or options.steps is not None:
        raise UserError("--config is a whole configuration; --set and --steps cannot change it")
    return Config.from_dict(_read_config(options.config))


def _read_config(name: str) -> dict[str, Any]:
    try:
        data = json.loads(sys.stdin.read() if name == "-" else Path(name).read_text())
    except OSError as error:
        raise UserError(f"configuration {name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"configuration {name} is not JSON: {error}") from error
    config = data.get("config", data) if isinstance(data, dict) else None
    if not isinstance(config, dict):
        raise UserError(f"configuration {name} is not a JSON object")
    return config


def _integers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        message = f"expected whole numbers such as 0,1,2, got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


# run ---------------------------------------------------------------------------------------------


def _add_run(commands: Any) -> None:
    parser = _command(
        commands, "run", _run, "Execute a notebook with parameters and keep it with its outputs."
    )
    parser.add_argument("notebook", help="the notebook, such as notebooks/07_results.ipynb")
    parser.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a parameter, as in papermill; VALUE is JSON, or plain text",
    )
    parser.add_argument(
        "-o", "--output", help="the executed notebook (default: runs/notebooks/<name>.ipynb)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check and print the parameters and do nothing"
    )


def _run(options: argparse.Namespace) -> None:
    from mcbench.experiments.notebook import (
        NotebookFailedError,
        check_parameters,
        notebook_parameters,
        run_notebook,
    )
    from mcbench.runs.config import json_or_text

    defaults = notebook_parameters(options.notebook)
    given = {
        # a text parameter stays text even where it looks like JSON
        name: value if isinstance(defaults.get(name), str) else json_or_text(value)
        for name, value in options.p
    }
    if options.dry_run:
        print(json.dumps(check_parameters(defaults, given), indent=1))
        return
    output = options.output or Path("runs", "notebooks", Path(options.notebook).name)
    try:
        run_notebook(options.notebook, given, output)
    except NotebookFailedError as error:
        from mcbench.report.batch import after_failure

        resolved = check_parameters(defaults, given)
        page = after_failure(options.notebook, Path(output), resolved, str(error))
        raise _Failed(f"{error}\nreport of what there was: {page}") from error
    print(f"executed notebook: {output}")


# nano, doctor ------------------------------------------------------------------------------------


def _add_nano(commands: Any) -> None:
    parser = _command(commands, "nano", _nano_help, "The embedded base models.")
    nested = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    build = _command(nested, "build", _nano_build, "Train a nano base model from scratch on CPU.")
    build.add_argument("name", help="nano-s, nano-m or nano-old")
    build.add_argument("-o", "--output", help="folder (default: build/<name>)")
    build.add_argument("--seed", type=int, default=0)
    build.add_argument("--steps", type=int, help="optimizer steps (default: the model's own)")


def _nano_help(options: argparse.Namespace) -> None:
    raise UserError("mcbench nano needs a command: build")


def _nano_build(options: argparse.Namespace) -> None:
    from mcbench.errors import unknown
    from mcbench.nano import MODEL_NAMES

    if options.name not in MODEL_NAMES:
        raise unknown("nano model", options.name, MODEL_NAMES)

    from mcbench.nano.build import build

    output = Path(options.output or Path("build", options.name))
    print(f"model: {build(options.name, output, seed=options.seed, steps=options.steps)}")


def _add_doctor(commands: Any) -> None:
    _command(commands, "doctor", _doctor, "Check the machine and the installation.")


def _doctor(options: argparse.Namespace) -> None:
    from mcbench.scale.doctor import report

    bad = report(print)
    if bad:
        raise _Failed(f"{bad} problem{'s' if bad > 1 else ''} found")
