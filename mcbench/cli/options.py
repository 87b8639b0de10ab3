"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from mcbench.errors import UserError

Command = Callable[..., Any]


class Integers(click.ParamType):
    """Whole numbers such as ``0,1,2``."""

    name = "0,1,2"

    def convert(self, value: Any, param: Any, ctx: Any) -> list[int]:
        """The numbers; a sentence with an example where the text is none."""
        if isinstance(value, list):
            return value
        try:
            return [int(part) for part in value.split(",")]
        except ValueError:
            self.fail(f"expected whole numbers such as 0,1,2, got {value!r}", param, ctx)


def settings_options(command: Command) -> Command:
    """``--set``, ``--steps``, ``--runs-dir`` and ``--dry-run``."""
    for option in reversed(
        (
            click.option(
                "--set",
                "changed",
                multiple=True,
                metavar="NAME=VALUE",
                help="Change one setting (mcbench settings lists them), such as --set "
                "learning_rate=1e-4; VALUE is JSON, or plain text. May be given several times.",
            ),
            click.option("--steps", type=int, help="Optimizer updates (default: the profile's)."),
            runs_dir_option,
            click.option(
                "--dry-run", is_flag=True, help="Print what would be done and do nothing."
            ),
        )
    ):
        command = option(command)
    return command


runs_dir_option = click.option(
    "--runs-dir", default="runs", show_default=True, help="Where runs are kept."
)


def read_arms(text: str | None) -> Mapping[str, Any] | list[str] | None:
    """``--arms``: names such as ``none,all``, or arms as JSON.

    Raises:
        UserError: braces that are no JSON.
    """
    if text is None or not text.lstrip().startswith("{"):
        return text.split(",") if text else None
    try:
        arms: Mapping[str, Any] = json.loads(text)
    except ValueError as error:
        raise UserError(
            f"--arms is not JSON: {error}; write it as "
            '\'{"mine": {"recipe": "microcoder", "mask_ratio": 0.5}}\''
        ) from None
    return arms
