"""The command line. Heavy imports happen inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from mcbench.cli import checks, data, evaluate, notebook, report, runs, sweep, train, watch
from mcbench.errors import FailedError, UserError
from mcbench.version import __version__

EXIT_FAILED, EXIT_USER_ERROR, EXIT_INTERRUPTED, EXIT_PIPE = 1, 2, 130, 141


@click.group(
    help="Reinforcement learning of code models, on top of TRL.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="mcbench %(version)s")
def app() -> None:
    """The commands, in the order of their use."""


for command in (
    train.train,
    sweep.sweep,
    notebook.run,
    runs.runs,
    watch.watch,
    evaluate.evaluate,
    data.data,
    report.report,
    checks.settings,
    checks.doctor,
    checks.nano,
):
    app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 2 for wrong input, 1 for a failure."""
    try:
        app.main(args=None if arguments is None else list(arguments), standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return EXIT_USER_ERROR
    except (click.ClickException, UserError, FailedError) as error:
        told = error.format_message() if isinstance(error, click.ClickException) else error
        print(f"mcbench: {told}", file=sys.stderr)
        return EXIT_FAILED if isinstance(error, FailedError) else EXIT_USER_ERROR
    except (KeyboardInterrupt, click.Abort):
        same = "the same command"
        if "--fresh" in (sys.argv if arguments is None else arguments):
            same += " without --fresh"
        print(f"mcbench: interrupted; {same} resumes", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `mcbench ... | head`: nobody reads on, and that is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    return 0
