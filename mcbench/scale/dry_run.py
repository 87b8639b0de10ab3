"""What a run would be and take, in lines of text: its configuration, the estimate with its formula,
and how to start it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from mcbench.errors import UserError
from mcbench.runs.arguments import trainer_arguments
from mcbench.runs.config import Config
from mcbench.runs.store import RunStore
from mcbench.runs.trend import stretches
from mcbench.scale.estimate import Estimate, check_backend, estimate, gib
from mcbench.scale.formulas import Memory
from mcbench.scale.launch import Launch, launch
from mcbench.scale.machine import Machine, gpu_here, nominal_gpu, processor_here
from mcbench.scale.pace import MEASURED_SECONDS, Pace, measured_pace, recorded_pace
from mcbench.scale.shapes import shape_of

# Where a GPU profile is looked at: one GPU of either size, and a node.
_SMALL, _LARGE, _NODE = "H100-80GB", "H200-141GB", 8


def dry_run(
    config: Config,
    runs_dir: str,
    chosen: Launch | None = None,
    arguments: Sequence[str] = (),
    measure: bool = False,
) -> Iterator[str]:
    """What ``mcbench train`` would do. Nothing is written.

    Args:
        chosen: the launch that was asked for.
        arguments: of ``mcbench train``, for the commands shown.
        measure: time some updates on this machine, for about half a minute.

    Raises:
        UserError: what training would refuse.
    """
    if measure and chosen is not None:
        raise UserError("--measure times one process; leave out --launch")
    run = RunStore(runs_dir).run(config)
    trainer_arguments(config, run.checkpoints)
    batch = config.batch()
    yield json.dumps(config.to_dict(), indent=1)
    yield f"run id: {config.run_id} ({run.state} in {runs_dir})"
    yield f"steps: {config.steps}"
    yield f"updates per generation: {batch.updates_per_generation}"
    yield batch.describe()
    if before := stretches(config):
        at = ", ".join(f"{t:g}" for t in before)
        updates = sum(one.steps for one in before.values())
        yield (
            f"T(D) by trend: {len(before)} stretches come first, of {updates} updates together "
            f"(T = {at}); what follows is about the run itself"
        )
    yield from estimate_lines(config, chosen, arguments)
    if measure:
        yield f"timing updates here, for at most {MEASURED_SECONDS:.0f} s"
        yield from _by_pace(config, measured_pace(config))
    elif pace := recorded_pace(config, runs_dir):
        yield from _by_pace(config, pace)
    elif config.precision == "fp32":
        yield (
            f"time: not known, as {runs_dir} has no finished run of {config.profile} with this "
            f"model; --measure times some updates, for about {MEASURED_SECONDS:.0f} s"
        )
    if chosen is not None:
        yield f"command: {chosen.shown(arguments)}"


def _by_pace(config: Config, pace: Pace) -> Iterator[str]:
    yield (
        f"time {hours(config.steps * pace.seconds)} = {config.steps} updates x "
        f"{pace.seconds:,.2f} s, {pace.source}"
    )


def estimate_lines(
    config: Config, chosen: Launch | None = None, arguments: Sequence[str] = ()
) -> Iterator[str]:
    """The estimate of a configuration.

    A profile in bf16 is one for GPUs: those of this machine or, without any, the common ones by
    their published numbers. The others are estimated for this machine.
    """
    try:
        shape_of(config.model)
        check_backend(config, gpu=config.precision == "bf16")
    except UserError as error:
        yield f"no estimate: {error}"
        return
    if config.precision == "fp32":
        processes = 1 if chosen is None else chosen.processes
        yield from describe(estimate(config, processor_here(), processes))
        return
    if config.backend == "vllm_server":
        yield "the server samples on GPUs of its own; the memory below is the trainer's"
    for machine, processes, sharding in _places(chosen):
        yield from describe(estimate(config, machine, processes, sharding))
        if chosen is None:
            name = "ddp" if sharding == "none" else sharding
            yield f"  start: {launch(name, processes).shown(arguments)}"


def gpu_hours(config: Config) -> tuple[float, str] | None:
    """GPU-hours of a run and where, by the formulas: on the first of the usual machines that it
    fits; None of a profile for processors, or where there is no estimate.
    """
    if config.precision == "fp32":
        return None
    try:
        shape_of(config.model)
        check_backend(config, gpu=True)
    except UserError:
        return None
    for machine, processes, sharding in _places(None):
        found = estimate(config, machine, processes, sharding)
        if found.fits and found.time is not None:
            return processes * found.time.total / 3600, f"{processes} x {machine.name}"
    return None


def _places(chosen: Launch | None) -> Iterator[tuple[Machine, int, str]]:
    here = gpu_here()
    if chosen is not None:
        for machine in [here] if here else [nominal_gpu(_SMALL), nominal_gpu(_LARGE)]:
            yield machine.with_devices(chosen.processes), chosen.processes, chosen.sharding
    elif here is not None:
        yield here, here.devices, "none" if here.devices == 1 else "fsdp2"
    else:
        yield nominal_gpu(_SMALL), 1, "none"
        yield nominal_gpu(_LARGE), 1, "none"
        yield nominal_gpu(_SMALL, _NODE, cores=64), _NODE, "fsdp2"


def describe(found: Estimate) -> Iterator[str]:
    """The numbers of an estimate in the order of the formula."""
    machine, memory, time = found.machine, found.memory, found.time
    share = "" if found.sharding == "none" else f", {found.sharding}"
    origin = " (published numbers, not measured)" if machine.gpu else ""
    fits = "fits" if found.fits else "DOES NOT FIT"
    yield f"estimate for {found.processes} x {machine.name}{share}{origin}:"
    yield f"  memory of a process {gib(memory.peak)} of {gib(machine.memory)}: {fits}"
    yield f"    = {_memory_formula(memory)}"
    if time is None:
        return
    yield (
        f"  time of a generation and its updates {time.cycle:,.1f} s = generation "
        f"{time.generation:,.1f} + max(reward {time.reward:,.1f}, scoring {time.scoring:,.1f}) + "
        f"{time.updates_per_cycle} x update {time.update:,.2f}"
    )
    yield (
        f"  whole run {hours(time.total)} = {time.cycles:g} x {time.cycle:,.1f} s + "
        f"{time.evaluations:.0f} evaluations of all problems x {time.evaluation:,.1f} s + "
        f"{time.checkpoints:.0f} checkpoints x {time.checkpoint:,.1f} s, for responses of "
        f"{found.workload.mean_length:,.0f} tokens on average"
    )


def _memory_formula(memory: Memory) -> str:
    kept = ("base", "weights", "optimizer", "reference", "engine")
    parts = [f"{name} {gib(getattr(memory, name))}" for name in kept if getattr(memory, name)]
    scoring = memory.gathered + memory.update
    passing = [
        f"gradients {gib(memory.gradients)} + update {gib(memory.update)}",
        *([f"reference gathered + scoring {gib(scoring)}"] if memory.gathered else []),
        f"sampling {gib(memory.sampling)}",
        f"evaluation {gib(memory.evaluation)}",
    ]
    return f"{' + '.join(parts)} + max({', '.join(passing)})"


def hours(seconds: float) -> str:
    """A duration as people read it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
