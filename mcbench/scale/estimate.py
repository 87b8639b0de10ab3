"""Memory of a run before it is made, and its time on GPUs (formulas: ``formulas.py``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.runs.config import Config
from mcbench.runs.evaluate import select_problems
from mcbench.runs.presets import PROFILES
from mcbench.runs.problems import load_problems, model_location, prompt_for
from mcbench.runs.resolve import resolve
from mcbench.scale.formulas import SHARDINGS, SPARE, Formulas, Memory, Time, Workload
from mcbench.scale.machine import GIB, GPU_NAMES, Machine, gpu_here, nominal_gpu
from mcbench.scale.shapes import ModelShape, on_this_machine, shape_of

# Mean response length as a share of the limit where nothing was measured: nano-s and nano-m lie
# between 0.45 and 0.60 over their training.
MEAN_SHARE = 0.55
OWN_MEMORY = ("transformers", "vllm_server")  # backends that are given no share of the GPU


@dataclass(frozen=True)
class Estimate:
    """Of one configuration on one machine; no time on a processor."""

    machine: Machine
    processes: int
    sharding: str
    shape: ModelShape
    workload: Workload
    memory: Memory
    time: Time | None
    engine_share: float | None  # of a GPU, for vLLM or a paged cache

    @property
    def fits(self) -> bool:
        """Whether the peak leaves a twentieth of the device free."""
        return self.memory.peak <= (1 - SPARE) * self.machine.memory


def estimate(
    config: Config,
    machine: Machine,
    processes: int = 1,
    sharding: str = "none",
    mean_length: float | None = None,
    workload: Workload | None = None,
) -> Estimate:
    """Memory of a process and time of a run.

    Args:
        processes: one a device.
        sharding: what the processes divide: ``none``, ``zero2`` (gradients and moments), ``zero3``
            or ``fsdp2`` (weights too).
        mean_length: of the responses, in tokens; ``MEAN_SHARE`` of the limit where None.
        workload: instead of the one of the configuration's problems.

    Raises:
        UserError: an unknown sharding, a model whose shape is not known, an engine for GPUs on a
            CPU, or a batch that the processes do not divide.
    """
    if sharding not in SHARDINGS:
        raise unknown("sharding", sharding, SHARDINGS)
    check_backend(config, machine.gpu)
    shape = shape_of(config.model)
    load = workload or workload_of(config, mean_length)
    formulas = Formulas(config, shape, load, machine, processes, sharding)
    time = formulas.time() if machine.gpu else None
    share = formulas.engine_share() if config.backend not in OWN_MEMORY else None
    return Estimate(machine, processes, sharding, shape, load, formulas.memory(), time, share)


def check_memory(
    config: Config, machine: Machine, processes: int = 1, sharding: str = "none"
) -> None:
    """Refuse a run before it is placed where it does not fit; a shape that is not known passes.

    Raises:
        UserError: what it needs and there is, and what would fit.
    """
    try:
        found = estimate(config, machine, processes, sharding)
    except UserError:
        return
    if not found.fits:
        raise UserError(
            f"{config.profile} needs {gib(found.memory.peak)} on each GPU and {machine.name} has "
            f"{gib(machine.memory)}; {way_out(config, machine)}"
        )


def way_out(config: Config, machine: Machine) -> str:
    """What to do where a run does not fit on one device of a machine: the first way that fits by
    the estimate.
    """
    if machine.devices > 1 and estimate(config, machine, machine.devices, "fsdp2").fits:
        return f"use --launch fsdp2 --processes {machine.devices}"
    if f"{config.profile}-lora" in PROFILES:
        adapted = resolve(f"{config.profile}-lora", config.recipe)
        if estimate(adapted, machine).fits:
            return f"use --profile {config.profile}-lora or more GPUs"
    smaller = config.with_settings({"per_device_batch_size": 1})
    if estimate(smaller, machine).fits:
        return "use --set per_device_batch_size=1 or more GPUs"
    return f"it needs {where_it_fits(config)}"


def where_it_fits(config: Config) -> str:
    """The smallest of the common GPUs and nodes."""
    for name in GPU_NAMES:
        found = estimate(config, nominal_gpu(name))
        if found.fits:
            return f"one {name} ({gib(found.memory.peak)})"
    found = estimate(config, nominal_gpu(GPU_NAMES[0], 8), 8, "fsdp2")
    return f"eight {GPU_NAMES[0]} with --launch fsdp2 ({gib(found.memory.peak)} each)"


def with_engine_memory(config: Config, processes: int = 1, sharding: str = "none") -> Config:
    """The configuration with vLLM's share of this machine's GPUs, where it says none itself."""
    here = gpu_here()
    if config.vllm_memory is not None or config.backend in OWN_MEMORY or here is None:
        return config
    try:
        share = estimate(config, here, processes, sharding).engine_share
    except UserError:  # the model's shape is not known
        return config
    return config.with_settings({"vllm_memory": share})


def check_backend(config: Config, gpu: bool) -> None:
    """Refuse what there is no formula for.

    Raises:
        UserError: an engine for GPUs on a processor, where it serves tests only.
    """
    if config.backend != "transformers" and not gpu:
        raise UserError(
            f"backend {config.backend!r} is not estimated on a CPU; backend transformers is"
        )


def workload_of(config: Config, mean_length: float | None = None) -> Workload:
    """From the problems of a profile; a model that is not on this machine has no tokenizer here,
    and its prompts count one token for three characters.
    """
    problems = load_problems(config.train_set)
    tests = sum(len(problem.tests) for problem in problems) / max(1, len(problems))
    prompts = [prompt_for(problem, config.prompt_style) for problem in problems]
    longest = _longest_prompt(config, prompts)
    return Workload(
        prompt=min(longest, config.max_prompt_length or longest),
        mean_length=mean_length or MEAN_SHARE * config.max_completion_length,
        tests=tests,
        eval_problems=len(select_problems(load_problems(config.test_set), config.test_limit)),
    )


def _longest_prompt(config: Config, prompts: list[Any]) -> int:
    known = on_this_machine(config.model)  # else nothing is fetched for an estimate
    location = model_location(config.model) if known else ""
    if known and Path(location).is_dir():
        from transformers import AutoTokenizer

        from mcbench.runs.sampling import prompt_ids

        tokenizer = AutoTokenizer.from_pretrained(location)
        return max(map(len, prompt_ids(tokenizer, prompts)))
    texts = [p if isinstance(p, str) else "".join(m["content"] for m in p) for p in prompts]
    return math.ceil(max(map(len, texts)) / 3)


def gib(value: float) -> str:
    """Bytes as people read them."""
    return f"{value / GIB:.1f} GiB" if value >= 0.1 * GIB else f"{value / 2**20:.0f} MiB"
