"""Several processes for one run: which accelerate configuration, and training with it.

``mcbench train ... --launch CONFIG`` runs accelerate's launcher in its own process; every process
that it starts executes ``mcbench train`` with the same configuration, and the main one writes the
record. Whatever ends one of them ends all, and the record says which went first and why; the same
command resumes from the last checkpoint. On several machines accelerate's own command is given on
each (:func:`train_here` is one of its processes); all of them must see the same folder of runs.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcbench.errors import FailedError, UserError
from mcbench.files import read_data
from mcbench.runs.config import Config
from mcbench.runs.provenance import processes_here, sharding_here
from mcbench.runs.store import INTERRUPTED, Run, RunStore
from mcbench.runs.trend import stretches
from mcbench.scale.estimate import check_memory, known_estimate, with_engine_memory
from mcbench.scale.machine import Machine, gpu_here, visible_gpus
from mcbench.scale.process import (
    PARENT,
    REFUSED,
    Ended,
    RunJob,
    follow,
    how_it_ended,
    start,
)

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

Sharding = Literal["none", "fsdp2"]

_SHIPPED = Path(__file__).with_name("launch_configs")
LAUNCH_CONFIGS: dict[str, Path] = {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}
_SEEN_WITHIN_S = 10  # the launcher looks ten times a second, on a machine that may be busy


@dataclass(frozen=True)
class Launch:
    """An accelerate configuration and where its processes run.

    ``sharding``: what is divided over them, which the estimate of memory needs to know.
    ``on_gpus``: whether they have a GPU each.
    """

    config: Path
    processes: int
    sharding: Sharding
    on_gpus: bool

    @property
    def environment(self) -> dict[str, str]:
        """What the processes need in their environment beside the command."""
        return {} if self.on_gpus else {"ACCELERATE_USE_CPU": "true"}

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command for ``mcbench train`` with these arguments."""
        command = [sys.executable, "-m", "accelerate.commands.launch"]
        command += ["--config_file", str(self.config), "--num_processes", str(self.processes)]
        command += ["--main_process_port", "0"]  # any free one, so that launches do not meet
        return [*command, "-m", "mcbench", "train", *arguments]

    def shown(self, arguments: Sequence[str]) -> str:
        """The command as one types it into a shell."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*variables, shlex.join(self.command(arguments))])


def launch(name: str, processes: int | None = None) -> Launch:
    """The launch of a shipped configuration or of a file.

    Args:
        name: one of :data:`LAUNCH_CONFIGS`, or the path of an accelerate configuration.
        processes: those of the configuration where None.

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
    if processes < 1:
        raise UserError(f"processes must be at least 1, got {processes}")
    if (machines := settings.get("num_machines", 1)) != 1:
        raise UserError(
            f"{path} is for {machines} machines; give each the command that --dry-run prints with "
            f"--launch ddp or fsdp2, with --num_machines {machines} --machine_rank RANK "
            "--main_process_ip HOST --main_process_port PORT before -m mcbench"
        )
    return Launch(path, processes, _sharding(path, settings), not settings.get("use_cpu"))


def _sharding(path: Path, settings: Mapping[str, Any]) -> Sharding:
    kind = settings["distributed_type"]
    if kind in ("MULTI_GPU", "NO"):
        return "none"
    if kind != "FSDP":
        raise UserError(
            f"{path}: distributed_type {kind!r} is not supported; allowed: MULTI_GPU, FSDP, NO"
        )
    version = (settings.get("fsdp_config") or {}).get("fsdp_version", 1)
    if version != 2:
        raise UserError(f"{path} asks for FSDP version {version}; 2 is supported")
    return "fsdp2"


def check_placed(tasks: Iterable[RunJob], here: Machine) -> None:
    """Refuse runs that do not fit on such GPUs before they are placed there, one of each profile.

    Raises:
        UserError: which, what it needs, and what would fit.
    """
    configs = {task: Config.from_dict(read_data(task.config)) for task in tasks if task.gpus}
    for task, config in {one.profile: (task, one) for task, one in configs.items()}.values():
        chosen = None if task.launch is None else launch(task.launch)
        try:
            check_memory(config, here, *((chosen.processes, chosen.sharding) if chosen else ()))
        except UserError as error:
            raise UserError(f"{task.label}: {error}") from None


def train_launched(
    config: Config,
    runs_dir: str,
    chosen: Launch,
    label: str | None = None,
) -> Run:
    """Train a run with several processes and return it when it is finished.

    Raises:
        UserError: there are fewer GPUs than processes, the batch does not divide by them, or the
            processes refused the run.
        FailedError: a process crashed before the run was finished: which, and why, as the record
            has it.
        KeyboardInterrupt: interrupted or asked to end; no process is left.
    """
    gpus = len(visible_gpus())
    if chosen.on_gpus and 0 < gpus < chosen.processes:
        raise UserError(
            f"{chosen.processes} processes need a GPU each, and {gpus} are visible here; "
            f"use --processes {gpus}"
        )
    config.batch(chosen.processes)
    config = with_engine_memory(config, chosen.processes, chosen.sharding)
    run = RunStore(runs_dir).run(config)
    if run.state == "finished":
        print(f"finished before: reusing {run.path}")
        return run
    for t, stretch in stretches(config).items():  # its processes find them finished
        train_launched(stretch, runs_dir, chosen, f"{label or 'run'}, a stretch at T = {t:g}")
    with tempfile.TemporaryDirectory(prefix="mcbench-launch-") as folder:
        path = Path(folder, "config.json")
        path.write_text(config.to_text())
        arguments = ["--config", str(path), "--runs-dir", runs_dir]
        if label is not None:
            arguments += ["--label", label]
        print(f"starting {chosen.processes} processes: {chosen.shown(arguments)}")
        try:
            reason = _launch(chosen, arguments, folder)
        except KeyboardInterrupt:
            _mark_failed(run, INTERRUPTED)
            raise
    if reason is None:
        return run
    if run.state == "finished":
        print(f"the run is finished; a process failed after that ({reason})")
        return run
    _mark_failed(run, reason)
    raise FailedError(f"{reason}; the same command resumes")


def _launch(chosen: Launch, arguments: Sequence[str], folder: str) -> str | None:
    """Run accelerate's launcher to its end: which process failed first and how, None where none.

    Each process writes its exception to a file below ``folder`` (:func:`train_here`), from which
    torch's launcher makes the failure that it raises.
    """
    from accelerate.commands.launch import launch_command, launch_command_parser
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    os.environ.update({**chosen.environment, PARENT: str(os.getpid())})
    options = launch_command_parser().parse_args(chosen.command(arguments)[3:])
    options.log_dir = folder
    sys.stdout.flush()
    try:
        launch_command(options)
    except SignalException:
        raise KeyboardInterrupt from None
    except ChildFailedError as error:
        rank, failure = min(error.failures.items(), key=_failed_at)
        said = failure.error_file_data.get("message")
        text = str(said["message"]) if isinstance(said, dict) else ""
        if failure.exitcode == REFUSED and text:
            raise UserError(text.partition(": ")[2]) from None
        why = text.partition("\n")[0] or how_it_ended(failure.exitcode)
        return f"process {rank}: {why}"
    except subprocess.CalledProcessError as error:  # a configuration of one process
        return f"process 0: {how_it_ended(error.returncode)}"
    return None


def _failed_at(failed: tuple[int, ProcessFailure]) -> float:
    """About when a process failed, in seconds since the epoch, for the order of the failures.

    torch rounds to seconds, within which those that lost their connection to it fail too. One that
    raised has written a file, at a time that is known. One that was killed has not, and was seen a
    little later; one that the launcher ended, or that aborted itself (as NCCL does after a lost
    connection), is no cause; nor is one that the launcher had to kill, 30 s after the first.
    """
    _, failure = failed
    written = Path(failure.error_file)
    if written.is_file():
        return written.stat().st_mtime
    ended = failure.exitcode in (-signal.SIGTERM, -signal.SIGABRT)
    return failure.timestamp + (1 if ended else -_SEEN_WITHIN_S)


def _mark_failed(run: Run, reason: str) -> None:
    """What a killed main process could not write itself, unless another one trains the run now."""
    if run.state not in ("absent", "finished"):
        run.fail(time.time(), reason)


def launched() -> bool:
    """Whether this process is one of several that ``accelerate launch`` or torchrun started."""
    return "LOCAL_RANK" in os.environ


LARGE = 500_000_000  # parameters, from which on a processor takes days


def check_gpu(config: Config) -> None:
    """Refuse a large model where there is no GPU, unless ``on_cpu`` insists.

    Raises:
        UserError: it would take days or weeks here.
    """
    if config.precision == "bf16" and not config.on_cpu and gpu_here() is None:
        from mcbench.scale.measure import size_of  # loads torch

        parameters = size_of(config.model).parameters
        if parameters >= LARGE:
            raise UserError(
                f"{config.profile} trains {parameters / 1e9:.1f}B parameters, and no GPU is "
                "visible here: on a processor that takes weeks, whatever samples. mcbench train "
                "--dry-run says which GPUs would do; the setting on_cpu trains here all the same: "
                "--set on_cpu=true, of a notebook -p settings '{\"on_cpu\": true}', of compare "
                'settings={"on_cpu": True}'
            )


def train_here(config: Config, runs_dir: str, label: str | None = None) -> Run:
    """Train in this process, which may be one of several; raises as `mcbench.runs.train.train`."""
    # TRL takes seconds to load, and who only starts processes does without.
    from accelerate import PartialState

    from mcbench.runs.train import train

    if not launched():
        _one_gpu(config)
        if config.backend == "vllm_colocate":  # an engine is not wholly gone before its process
            for t, stretch in stretches(config).items():
                _train_apart(stretch, runs_dir, f"{label or 'run'}, a stretch at T = {t:g}")
        return train(with_engine_memory(config), runs_dir, label=label)
    from torch.distributed.elastic.multiprocessing.errors import record

    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true":
        raise UserError("DeepSpeed is not supported; weights are divided by --launch fsdp2")
    config = with_engine_memory(config, processes_here(), sharding_here())
    # The launcher writes down an interruption: none of its processes has to, and all end at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    run = record(train)(config, runs_dir, label=label)
    assert run is not None
    # gloo's threads may still let go of tensors, which aborts an interpreter that ends meanwhile.
    PartialState().destroy_process_group()
    return run


def _train_apart(config: Config, runs_dir: str, label: str) -> None:
    """Train a run in a process of its own, unless it is finished.

    Raises:
        FailedError: it ended before that.
    """
    if RunStore(runs_dir).run(config).state == "finished":
        return
    task = RunJob(label, config.run_id, config.to_text(), runs_dir)
    for event in follow(task, start(task)):
        if isinstance(event, str):
            print(event, flush=True)
        elif isinstance(event, Ended) and event.status:
            raise FailedError(f"{label}: {how_it_ended(event.status)}; see {task.log}")


def _one_gpu(config: Config) -> None:
    """Refuse several GPUs for one process: TRL would stop after the model is loaded.

    Raises:
        UserError: the command that is meant.
    """
    gpus = visible_gpus()
    if len(gpus) < 2:
        return
    here = gpu_here()
    found = here and known_estimate(config, here, len(gpus))
    name = "fsdp2" if found and not found.fits else "ddp"
    raise UserError(
        f"{len(gpus)} GPUs are visible, and a run without --launch is one process on one GPU; use "
        f"all of them with --launch {name} --processes {len(gpus)}, or one with "
        f"CUDA_VISIBLE_DEVICES={gpus[0]} before the command"
    )


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        settings = yaml.safe_load(path.read_text())  # as accelerate reads it: YAML 1.1
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"launch configuration {path} cannot be read: {reason}") from error
    if not isinstance(settings, dict) or "distributed_type" not in settings:
        raise UserError(
            f"{path} is not an accelerate configuration: it needs at least distributed_type; "
            "`accelerate config` writes one"
        )
    return settings
