"""Several processes for one run: which accelerate configuration, and the command that starts it.

``mcbench train ... --launch CONFIG`` starts ``accelerate launch`` as a process of its own and
follows it (``launcher.py``); every process of the run then executes ``mcbench train ...``, and the
main one writes the record. On several machines the same command is given on each, with its
``--machine-rank``; all of them must see the same folder of runs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from mcbench.errors import UserError

Sharding = Literal["none", "fsdp2", "zero2", "zero3"]

_SHIPPED = Path(__file__).with_name("launch_configs")
LAUNCH_CONFIGS: dict[str, Path] = {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}
DEFAULT_PORT = 29500


@dataclass(frozen=True)
class Launch:
    """An accelerate configuration and where its processes run.

    ``processes`` counts those of all ``machines`` together. ``main_address`` is "HOST:PORT" of the
    machine of rank 0, needed where there are several.

    Raises:
        UserError: a configuration that is none, or numbers that do not fit.
    """

    config: Path
    processes: int
    machines: int = 1
    machine_rank: int = 0
    main_address: str | None = None

    def __post_init__(self) -> None:
        for name in ("processes", "machines"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.processes % self.machines:
            raise UserError(
                f"{self.processes} processes cannot be divided evenly over {self.machines} "
                "machines; --processes counts those of all machines"
            )
        if not 0 <= self.machine_rank < self.machines:
            raise UserError(
                f"machine rank must be between 0 and {self.machines - 1}, got {self.machine_rank}"
            )
        if self.machines > 1 and self.main_address is None:
            raise UserError(
                "several machines need --main-address HOST:PORT, an address of the machine with "
                "rank 0 that all of them reach"
            )
        _host_and_port(self.main_address or "localhost")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The content of the configuration file."""
        return _read(self.config)

    @property
    def sharding(self) -> Sharding:
        """What is divided over the processes: what the estimate of memory needs to know.

        Raises:
            UserError: a kind of configuration that is not supported.
        """
        kind = self.settings["distributed_type"]
        if kind == "FSDP":
            version = (self.settings.get("fsdp_config") or {}).get("fsdp_version", 1)
            if version == 2:
                return "fsdp2"
            raise UserError(
                f"{self.config} asks for FSDP version {version}; version 2 is supported"
            )
        if kind == "DEEPSPEED":
            stage = (self.settings.get("deepspeed_config") or {}).get("zero_stage")
            if stage in (2, 3):
                return "zero2" if stage == 2 else "zero3"
            raise UserError(f"{self.config} asks for ZeRO stage {stage}; 2 and 3 are supported")
        if kind in ("MULTI_GPU", "NO"):
            return "none"
        raise UserError(
            f"{self.config}: distributed_type {kind!r} is not supported; allowed: MULTI_GPU, FSDP, "
            "DEEPSPEED, NO"
        )

    @property
    def environment(self) -> dict[str, str]:
        """What the processes need in their environment beside the command."""
        return {"ACCELERATE_USE_CPU": "true"} if self.settings.get("use_cpu") else {}

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command for ``mcbench train`` with these arguments."""
        host, port = _host_and_port(self.main_address or "localhost")
        command = [sys.executable, "-m", "accelerate.commands.launch"]
        command += ["--config_file", str(self.config)]
        command += ["--num_processes", str(self.processes), "--num_machines", str(self.machines)]
        if self.machines == 1:
            command += ["--main_process_port", "0"]  # any free one, so that launches do not meet
        else:
            command += ["--machine_rank", str(self.machine_rank)]
            command += ["--main_process_ip", host, "--main_process_port", str(port)]
        return [*command, "-m", "mcbench", "train", *arguments]

    def shown(self, arguments: Sequence[str]) -> str:
        """The command as one types it into a shell."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*variables, shlex.join(self.command(arguments))])


def launch(
    name: str,
    processes: int | None = None,
    machines: int = 1,
    machine_rank: int = 0,
    main_address: str | None = None,
) -> Launch:
    """The launch of a shipped configuration or of a file.

    Args:
        name: one of :data:`LAUNCH_CONFIGS`, or the path of an accelerate configuration.
        processes: of all machines together; those of the configuration where None.

    Raises:
        UserError: an unknown name, a file that is no configuration, or numbers that do not fit.
    """
    path = LAUNCH_CONFIGS.get(name, Path(name))
    if not path.is_file():
        raise UserError(
            f"unknown launch configuration {name!r}; allowed: {', '.join(LAUNCH_CONFIGS)}, or the "
            "path of an accelerate configuration file"
        )
    settings = _read(path)
    if processes is None:
        processes = settings.get("num_processes", 1)
        if machines > 1:
            processes *= machines  # the shipped files count those of one machine
    chosen = Launch(path, processes, machines, machine_rank, main_address)
    _ = chosen.sharding  # refuses what is not supported
    return chosen


def add_launch(parser: argparse.ArgumentParser) -> None:
    """The options that :func:`launch_of` reads."""
    parser.add_argument(
        "--launch",
        metavar="CONFIG",
        help=f"train with several processes: {', '.join(LAUNCH_CONFIGS)}, or the path of an "
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


def train_arguments(options: argparse.Namespace) -> list[str]:
    """The options of ``mcbench train`` that say what is trained, as its processes need them."""
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


def launch_of(options: argparse.Namespace) -> Launch | None:
    """The launch that the options of a command ask for; None where they ask for none.

    Raises:
        UserError: as :func:`launch`, or options that need ``--launch``.
    """
    if options.launch is None:
        if (options.processes, options.machines, options.machine_rank) != (None, 1, 0):
            raise UserError("--processes, --machines and --machine-rank need --launch CONFIG")
        return None
    return launch(
        options.launch,
        options.processes,
        options.machines,
        options.machine_rank,
        options.main_address,
    )


def launch_command(name: str, arguments: Sequence[str], processes: int | None = None) -> list[str]:
    """The command that trains with ``arguments`` on one machine; see :func:`launch`."""
    return launch(name, processes).command(arguments)


def processes_of(name: str) -> int:
    """How many processes a configuration starts on one machine."""
    return launch(name).processes


def sharding_of(name: str) -> Sharding:
    """What a configuration divides over its processes."""
    return launch(name).sharding


def launched() -> bool:
    """Whether this process is one of several that ``accelerate launch`` or torchrun started."""
    return "LOCAL_RANK" in os.environ


def sharding_here() -> Sharding:
    """What is divided over the processes of the run that this process belongs to."""
    if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true":
        return "fsdp2"
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true":
        return "zero3" if os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE") == "3" else "zero2"
    return "none"


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        settings = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"launch configuration {path} cannot be read: {reason}") from error
    if not isinstance(settings, dict) or "distributed_type" not in settings:
        raise UserError(
            f"{path} is not an accelerate configuration: it needs at least distributed_type; "
            "`accelerate config` writes one"
        )
    return settings


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    if not host or not (port or "0").isdigit():
        raise UserError(f"main address must be HOST:PORT, got {address!r}")
    return host, int(port or DEFAULT_PORT)
