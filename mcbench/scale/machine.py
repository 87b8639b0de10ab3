"""What a machine holds: its memory, and which GPUs it has."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from mcbench.worlds.nano import MODEL_NAMES

GIB = 2**30
GPUS = {"A100-80GB": 80e9, "H100-80GB": 80e9, "H200-141GB": 141e9}
"""Name -> bytes, as NVIDIA publishes them."""


@dataclass(frozen=True)
class Machine:
    """One machine, or one kind of GPU in a number of them; ``memory`` is bytes of one device, of
    the whole machine without GPUs.
    """

    name: str
    gpu: bool
    devices: int
    memory: float

    @property
    def base_memory(self) -> float:
        """Bytes of a training process before the model: the CUDA context, or on a processor what
        the libraries hold (``benchmarks/estimates.json``).
        """
        return (1.5 if self.gpu else 0.625) * GIB


def known_gpu(name: str, devices: int = 1) -> Machine:
    """A GPU by its published size.

    Raises:
        KeyError: not one of ``GPUS``.
    """
    return Machine(name, True, devices, GPUS[name])


def processor_here() -> Machine:
    """This machine without its GPUs."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(os.uname().nodename, False, 1, memory)


def threads_for(model: str, beside: int = 1) -> int:
    """Of each of ``beside`` runs on this machine's cores: for an embedded model one, which is
    quickest for several and adds up in one order wherever it runs, for a larger one its share.
    """
    return 1 if model in MODEL_NAMES else max(1, len(os.sched_getaffinity(0)) // beside)


def gpu_here() -> Machine | None:
    """The GPUs of this machine; None without any."""
    count, found = len(visible_gpus()), of_driver("name,memory.total")
    if not count or not found:
        return None
    name, _, mebibytes = found[0].rpartition(",")
    return Machine(kind_of(name) or name, True, count, float(mebibytes) * 2**20)


def kind_of(name: str) -> str | None:
    """The entry of ``GPUS`` that a driver or Ray means, such as by ``NVIDIA H100 80GB HBM3``."""
    return next((known for known in GPUS if known.partition("-")[0] in name), None)


def visible_gpus() -> list[str]:
    """What ``CUDA_VISIBLE_DEVICES`` may name here, one entry a GPU."""
    found = of_driver("index")
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None or not found:
        return found
    return [one.strip() for one in given.split(",") if one.strip() not in ("", "-1")]


def of_driver(what: str, *options: str) -> list[str]:
    """One line a GPU from the driver: torch would keep memory on a GPU for this process."""
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", *options]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return listed.stdout.strip().splitlines() if listed.returncode == 0 else []
