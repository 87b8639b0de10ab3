"""What a run would be and take, in lines of text: its configuration, its memory by part, its time
by updates that were made, and how to start it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from mcbench.errors import UserError
from mcbench.runs.arguments import trainer_arguments
from mcbench.runs.canonical import check_trainable
from mcbench.runs.config import Config
from mcbench.runs.say import clock
from mcbench.runs.store import RunStore
from mcbench.runs.trend import stretches
from mcbench.scale.estimate import Estimate, estimate, gib
from mcbench.scale.launch import Launch, launch
from mcbench.scale.machine import Machine, gpu_here, known_gpu, processor_here
from mcbench.scale.pace import Pace, measured_pace, most_seconds, pace_of, timed

# Where a GPU profile is looked at without one: one GPU of either size, and a node.
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
        measure: time some updates on this machine.

    Raises:
        UserError: what training would refuse.
    """
    if measure and chosen is not None:
        raise UserError("--measure times one process; leave out --launch")
    check_trainable(config)
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
        yield f"timing updates here, for at most {most_seconds(config):.0f} s"
        yield _by_pace(config, measured_pace(config))
    elif pace := pace_of(config, timed(runs_dir)):
        yield f"{_by_pace(config, pace)} in {runs_dir}"
    else:
        yield (
            f"time: not known, as {runs_dir} has no finished run of {config.profile} with this "
            f"model; --measure times some updates, for at most {most_seconds(config):.0f} s"
        )
    if chosen is not None:
        yield f"command: {chosen.shown(arguments)}"


def _by_pace(config: Config, pace: Pace) -> str:
    return (
        f"time {clock(config.steps * pace.seconds)} = {config.steps} updates x "
        f"{pace.seconds:,.2f} s, {pace.source}"
    )


def estimate_lines(
    config: Config, chosen: Launch | None = None, arguments: Sequence[str] = ()
) -> Iterator[str]:
    """The memory of a configuration.

    A profile in bf16 is one for GPUs: those of this machine or, without any, the common ones. The
    others are estimated for this machine.
    """
    if config.backend == "vllm_server":
        yield "the server samples on GPUs of its own; the memory below is the trainer's"
    for machine, processes, sharding in _places(config, chosen):
        try:
            found = estimate(config, machine, processes, sharding)
        except UserError as error:
            yield f"no estimate: {error}"
            return
        yield from describe(found)
        if chosen is None and machine.gpu:
            name = "ddp" if sharding == "none" else sharding
            yield f"  start: {launch(name, processes).shown(arguments)}"


def _places(config: Config, chosen: Launch | None) -> Iterator[tuple[Machine, int, str]]:
    here = gpu_here()
    if config.precision == "fp32":
        yield processor_here(), 1 if chosen is None else chosen.processes, "none"
    elif chosen is not None:
        for machine in [here] if here else [known_gpu(_SMALL), known_gpu(_LARGE)]:
            yield machine, chosen.processes, chosen.sharding
    elif here is not None:
        yield here, here.devices, "none" if here.devices == 1 else "fsdp2"
    else:
        yield known_gpu(_SMALL), 1, "none"
        yield known_gpu(_LARGE), 1, "none"
        yield known_gpu(_SMALL, _NODE), _NODE, "fsdp2"


def describe(found: Estimate) -> Iterator[str]:
    """The parts of an estimate and what they come to."""
    machine = found.machine
    share = "" if found.sharding == "none" else f", {found.sharding}"
    fits = "fits" if found.fits else "DOES NOT FIT"
    kept, passing = (
        [f"{name} {gib(value)}" for name, value in parts.items()]
        for parts in (found.kept, found.passing)
    )
    yield f"estimate for {found.processes} x {machine.name}{share}:"
    yield f"  memory of a process {gib(found.peak)} of {gib(machine.memory)}: {fits}"
    yield f"    = {' + '.join(kept)} + max({', '.join(passing)})"
