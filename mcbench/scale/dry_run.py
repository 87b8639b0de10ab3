"""What a run would take, in lines of text: the estimate with its formula, and how to start it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.files import digest, write_json
from mcbench.runs.config import Config
from mcbench.scale.estimate import Estimate, Memory, check_backend, estimate, gib
from mcbench.scale.machine import GPU_NAMES, Machine, Rates, nominal_gpu, probe
from mcbench.scale.shapes import shape_of

# Where a GPU profile is looked at: one GPU of either size, and a node.
_SMALL, _LARGE, _NODE = "H100-80GB", "H200-141GB", 8


def estimate_lines(
    config: Config, launch: Any = None, arguments: Sequence[str] = ()
) -> Iterator[str]:
    """The estimate of a configuration.

    A profile in bf16 is one for GPUs: those of this machine or, without any, the common ones by
    their published numbers. The others are estimated for this machine, which is measured once.

    Args:
        launch: a :class:`mcbench.scale.launch.Launch`, where one was asked for.
        arguments: of ``mcbench train``, for the commands shown.
    """
    try:
        shape_of(config.model)
        check_backend(config, gpu=config.precision == "bf16")
    except UserError as error:
        yield f"no estimate: {error}"
        return
    if config.precision == "fp32":
        machine = machine_here(print)
        yield from describe(estimate(config, machine, 1 if launch is None else launch.processes))
        return
    if config.backend == "vllm_server":
        yield "the server samples on GPUs of its own; the memory below is the trainer's"
    for machine, processes, sharding in _settings(launch):
        yield from describe(estimate(config, machine, processes, sharding))
        if launch is None:
            yield f"  start: {_command(processes, sharding, arguments)}"


def _settings(launch: Any) -> Iterator[tuple[Machine, int, str]]:
    here = gpu_here()
    if launch is not None:
        for machine in [here] if here else [nominal_gpu(_SMALL), nominal_gpu(_LARGE)]:
            yield machine.with_devices(launch.processes), launch.processes, launch.sharding
        return
    if here is not None:
        yield here, here.devices, "none" if here.devices == 1 else "fsdp2"
        return
    yield nominal_gpu(_SMALL), 1, "none"
    yield nominal_gpu(_LARGE), 1, "none"
    yield nominal_gpu(_SMALL, _NODE, cores=64), _NODE, "fsdp2"


def _command(processes: int, sharding: str, arguments: Sequence[str]) -> str:
    from mcbench.scale.launch import launch

    name = "ddp" if sharding == "none" else sharding
    return launch(name, processes).shown(arguments)


def describe(found: Estimate) -> Iterator[str]:
    """The numbers of an estimate in the order of the formula."""
    machine, memory, time = found.machine, found.memory, found.time
    origin = "measured" if machine.measured else "published numbers, not measured"
    share = "" if found.sharding == "none" else f", {found.sharding}"
    fits = "fits" if found.fits else "DOES NOT FIT"
    yield f"estimate for {found.processes} x {machine.name}{share} ({origin}):"
    yield f"  memory of a process {gib(memory.peak)} of {gib(machine.memory)}: {fits}"
    yield f"    = {_memory_formula(memory)}"
    yield (
        f"  time of a generation and its updates {time.cycle:,.1f} s = generation "
        f"{time.generation:,.1f} + max(reward {time.reward:,.1f}, scoring {time.scoring:,.1f}) + "
        f"{time.updates_per_cycle} x update {time.update:,.2f} + record {time.record:,.2f}"
    )
    yield (
        f"  whole run {hours(time.total)} = {time.cycles:g} x {time.cycle:,.1f} s + "
        f"{time.evaluations} evaluations x {time.evaluation:,.1f} s, for responses of "
        f"{found.workload.mean_length:,.0f} tokens on average"
    )


def _memory_formula(memory: Memory) -> str:
    kept = ("base", "weights", "optimizer", "reference", "engine")
    parts = [f"{name} {gib(getattr(memory, name))}" for name in kept if getattr(memory, name)]
    passing = [
        f"gradients {gib(memory.gradients)} + update {gib(memory.update)}",
        f"sampling {gib(memory.sampling)}",
        f"evaluation {gib(memory.evaluation)}",
    ]
    return f"{' + '.join(parts)} + max({', '.join(passing)})"


def hours(seconds: float) -> str:
    """A duration as people read it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def gpu_here() -> Machine | None:
    """The GPUs of this machine by their published numbers; None without any, or of a kind that is
    not known.
    """
    import torch

    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name(0)
    for known in GPU_NAMES:
        kind, _, size = known.partition("-")
        memory = torch.cuda.get_device_properties(0).total_memory
        if kind in name and memory > 0.9 * float(size.removesuffix("GB")) * 1e9:
            return nominal_gpu(known, torch.cuda.device_count(), len(os.sched_getaffinity(0)))
    return None


def machine_here(say: Callable[[str], None]) -> Machine:
    """The constants of this machine: measured once, and kept in the user's cache directory."""
    import torch

    from mcbench.runs.provenance import hardware

    key = digest([json.dumps([hardware(), torch.__version__], sort_keys=True)])[:12]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcbench"
    path = folder / f"machine-{key}.json"
    try:
        return read_machine(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        say("measuring this machine once, about 25 s")
    machine = probe()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(machine))
    except OSError as error:
        say(f"the measurement cannot be kept for the next time: {error.strerror} ({folder})")
    return machine


def read_machine(data: dict[str, Any]) -> Machine:
    """The inverse of ``dataclasses.asdict``."""
    rates = {name: Rates(**data[name]) for name in ("decode", "update", "engine")}
    return Machine(**{**data, **rates})
