"""Memory of a run before it is made: what stays by the number of parameters, what comes and goes as
it is measured without a device (``measure.py``). Time is never predicted: see ``pace.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mcbench.errors import UserError, unknown
from mcbench.runs.config import Config
from mcbench.runs.presets import PROFILES
from mcbench.runs.problems import load_problems, model_location, prompt_for
from mcbench.runs.resolve import resolve
from mcbench.scale.machine import GIB, GPUS, Machine, gpu_here, known_gpu

SHARDINGS = ("none", "fsdp2")
OWN_MEMORY = ("transformers", "vllm_server")  # backends that are given no share of the GPU
ADAM_BYTES = 8  # two float32 moments
# Where a GPU's memory is not all there is to have: fragments, and what libraries hold.
SPARE = 0.05
_MOST_OF_A_GPU, _STEP_OF_A_GPU = 0.8, 0.05


@dataclass(frozen=True)
class Estimate:
    """Bytes of one process on its device, by what they are for: ``kept`` stays, and of ``passing``
    there is one at a time. ``engine_share``: of a GPU, for vLLM or a paged cache.
    """

    machine: Machine
    processes: int
    sharding: str
    kept: dict[str, float]
    passing: dict[str, float]
    engine_share: float | None

    @property
    def peak(self) -> float:
        """What stays, and the largest of what comes and goes."""
        return sum(self.kept.values()) + max(self.passing.values())

    @property
    def fits(self) -> bool:
        """Whether the peak leaves a twentieth of the device free."""
        return self.peak <= (1 - SPARE) * self.machine.memory


def estimate(
    config: Config, machine: Machine, processes: int = 1, sharding: str = "none"
) -> Estimate:
    """Memory of a process.

    What stays: weights 4 N bytes (float32; with LoRA those of the adapters too), moments 8 N_t, a
    reference model 4 N where beta > 0 (under LoRA it is the model without them), a vLLM that does
    not sleep. An update has gradients of 4 N_t bytes, twice under DDP, which reduces copies of
    them, beside what a pass is measured to hold. Sampling and evaluation with transformers are
    measured at their last token, all responses at their limit; another engine has its share.

    Args:
        processes: one a device.
        sharding: what the processes divide: ``none``, or ``fsdp2`` (weights, gradients, moments).

    Raises:
        UserError: an unknown sharding, a model whose size is not known, an engine for GPUs on a
            CPU, or a batch that the processes do not divide.
    """
    # Only who asks for an estimate waits for torch and the models' code.
    from mcbench.scale.measure import Pass, sampling_bytes, size_of, update_bytes

    if sharding not in SHARDINGS:
        raise unknown("sharding", sharding, SHARDINGS)
    if config.backend != "transformers" and not machine.gpu:
        raise UserError(
            f"backend {config.backend!r} is not estimated on a CPU; backend transformers is"
        )
    config.batch(processes)
    model, rank, bf16 = config.model, config.lora_rank, config.precision == "bf16"
    size = size_of(model, rank)
    prompt = longest_prompt(model, config.train_set, config.prompt_style)
    prompt = min(prompt, config.max_prompt_length or prompt)
    over = processes if sharding == "fsdp2" else 1
    referring = (config.beta or 0.0) > 0 and not rank
    kept = {
        "base": machine.base_memory,
        "weights": 4 * (size.parameters + (size.trained if rank else 0)) / over,
        "optimizer": ADAM_BYTES * size.trained / over,
        "reference": 4 * size.parameters / over * referring,
    }
    length = config.max_completion_length
    work = Pass(
        model, rank, config.per_device_batch_size, prompt, length, config.length_groups,
        config.gradient_checkpointing, bf16, over == 1, config.shared_prefix,
    )  # fmt: skip
    update = update_bytes(work) + (2 * 4 * size.layer if over > 1 else 0)  # two gathered layers
    copies = 2 if processes > 1 and sharding == "none" else 1
    passing = {"gradients and update": copies * 4 * size.trained / over + update}
    if referring and over > 1:  # TRL shards a reference as one unit, gathered to score a batch
        passing["reference gathered and scoring"] = (2 if bf16 else 4) * size.parameters + update
    share = None
    if config.backend == "transformers":
        rows = config.train_batch_size * config.num_generations // processes
        longest = prompt + max(config.eval_lengths)
        passing["sampling"] = sampling_bytes(model, rows, prompt + length, bf16)
        passing["evaluation"] = sampling_bytes(model, config.eval_batch_size, longest, bf16)
    elif config.backend != "vllm_server":
        sleeps = config.vllm_sleep or config.backend != "vllm_colocate"
        held = sum(kept.values()) + (0.0 if sleeps else max(passing.values()))
        share = config.vllm_memory or _share_left(held / machine.memory)
        (passing if sleeps else kept)["engine"] = share * machine.memory
    found = {name: value for name, value in kept.items() if value}
    return Estimate(machine, processes, sharding, found, passing, share)


def _share_left(held: float) -> float:
    """Share of a GPU for an engine in twentieths, where the share ``held`` is taken: by weights and
    moments where it gives its memory back, by the update too where it does not.
    """
    steps = math.floor((1 - 2 * SPARE - held) / _STEP_OF_A_GPU)
    return min(_MOST_OF_A_GPU, max(1, steps) * _STEP_OF_A_GPU)


def known_estimate(
    config: Config, machine: Machine, processes: int = 1, sharding: str = "none"
) -> Estimate | None:
    """As :func:`estimate`; None where there is none, such as of a model whose size is not known."""
    try:
        return estimate(config, machine, processes, sharding)
    except UserError:
        return None


def check_memory(
    config: Config, machine: Machine, processes: int = 1, sharding: str = "none"
) -> None:
    """Refuse a run before it is placed where it does not fit; a size that is not known passes.

    Raises:
        UserError: what it needs and there is, and what would fit.
    """
    found = known_estimate(config, machine, processes, sharding)
    if found is not None and not found.fits:
        raise UserError(
            f"{config.profile} needs {gib(found.peak)} on each GPU and {machine.name} has "
            f"{gib(machine.memory)}; {way_out(config, machine)}"
        )


def way_out(config: Config, machine: Machine) -> str:
    """What to do where a run does not fit on one device of a machine: the first way that fits by
    the estimate.
    """
    # A batch that so many processes do not divide has no estimate.
    divided = known_estimate(config, machine, machine.devices, "fsdp2")
    if machine.devices > 1 and divided is not None and divided.fits:
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
    for name in GPUS:
        found = estimate(config, known_gpu(name))
        if found.fits:
            return f"one {name} ({gib(found.peak)})"
    name = next(iter(GPUS))
    found = estimate(config, known_gpu(name, 8), 8, "fsdp2")
    return f"eight {name} with --launch fsdp2 ({gib(found.peak)} each)"


def with_engine_memory(config: Config, processes: int = 1, sharding: str = "none") -> Config:
    """The configuration with vLLM's share of this machine's GPUs, where it says none itself."""
    here = gpu_here()
    if config.vllm_memory is not None or config.backend in OWN_MEMORY or here is None:
        return config
    found = known_estimate(config, here, processes, sharding)
    return config.with_settings({"vllm_memory": found.engine_share}) if found else config


@cache
def longest_prompt(model: str, problems: str, style: str) -> int:
    """Tokens of the longest prompt of a training set; a model that is not on this machine has no
    tokenizer here, and its prompts count one token for three characters.
    """
    from mcbench.scale.measure import on_this_machine

    prompts = [prompt_for(problem, style) for problem in load_problems(problems)]
    known = on_this_machine(model)  # else nothing is fetched for an estimate
    if known and Path(location := model_location(model)).is_dir():
        from transformers import AutoTokenizer

        from mcbench.runs.sampling import prompt_ids

        return max(map(len, prompt_ids(AutoTokenizer.from_pretrained(location), prompts)))
    texts = [p if isinstance(p, str) else "".join(m["content"] for m in p) for p in prompts]
    return math.ceil(max(map(len, texts)) / 3)


def gib(value: float) -> str:
    """Bytes as people read them."""
    return f"{value / GIB:.1f} GiB" if value >= 0.1 * GIB else f"{value / 2**20:.0f} MiB"
