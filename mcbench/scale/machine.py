"""What a machine holds, and how fast GPUs are by their names, for ``estimate.py``."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """One machine, or one kind of GPU in a number of them.

    ``memory`` is bytes of one device (of the whole machine without GPUs), ``base_memory`` what a
    training process holds there before the model. ``flop_s`` and ``byte_s`` are the seconds of a
    FLOP and of a byte moved, 0 for a processor: its pace is what finished runs recorded.
    """

    name: str
    gpu: bool
    devices: int
    cores: int
    memory: float
    base_memory: float
    flop_s: float = 0.0
    byte_s: float = 0.0

    def with_devices(self, count: int) -> Machine:
        """The same kind, another number of devices."""
        return replace(self, devices=count)


# name: memory (bytes), bf16 FLOP/s without sparsity, bytes/s, as NVIDIA publishes them.
_GPUS = {
    "A100-80GB": (80e9, 312e12, 2.0e12),
    "H100-80GB": (80e9, 989e12, 3.35e12),
    "H200-141GB": (141e9, 989e12, 4.8e12),
}
GPU_NAMES = tuple(_GPUS)
# Shares of those numbers that trainers and samplers of this size are commonly seen to reach.
# benchmarks/gpu.py measures them on a GPU.
_FLOPS_SHARE, _BANDWIDTH_SHARE = 0.40, 0.60
_CUDA_CONTEXT = 1.5 * GIB
_LIBRARIES = 0.625 * GIB  # of a training process on a processor, by benchmarks/estimates.json


def nominal_gpu(name: str, devices: int = 1, cores: int = 16) -> Machine:
    """A GPU by its published numbers.

    Raises:
        KeyError: not one of ``GPU_NAMES``.
    """
    memory, flops, bandwidth = _GPUS[name]
    return Machine(
        name=name,
        gpu=True,
        devices=devices,
        cores=cores,
        memory=memory,
        base_memory=_CUDA_CONTEXT,
        flop_s=1 / (_FLOPS_SHARE * flops),
        byte_s=1 / (_BANDWIDTH_SHARE * bandwidth),
    )


def processor_here() -> Machine:
    """This machine without its GPUs."""
    return Machine(
        name=os.uname().nodename,
        gpu=False,
        devices=1,
        cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        base_memory=_LIBRARIES,
    )


def gpu_here() -> Machine | None:
    """The GPUs of this machine; None without any. Their memory is what they have; their speed that
    which is published for the fastest known kind of their name, else for the slowest.
    """
    count, found = len(visible_gpus()), _of_driver("name,memory.total")
    if not count or not found:
        return None
    name, _, mebibytes = found[0].rpartition(",")
    return gpu_named(name, float(mebibytes) * 2**20, count, len(os.sched_getaffinity(0)))


def gpu_named(name: str, memory: float | None = None, devices: int = 1, cores: int = 16) -> Machine:
    """A GPU by the name that its driver or Ray gives it, such as ``NVIDIA H100 80GB HBM3``."""
    alike = [known for known in GPU_NAMES if known.partition("-")[0] in name]
    kind = nominal_gpu(alike[0] if alike else GPU_NAMES[0], devices, cores)
    return replace(kind, name=kind.name if alike else name, memory=memory or kind.memory)


def visible_gpus() -> list[str]:
    """What ``CUDA_VISIBLE_DEVICES`` may name here, one entry a GPU."""
    found = _of_driver("index")
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is None or not found:
        return found
    return [one.strip() for one in given.split(",") if one.strip() not in ("", "-1")]


@contextmanager
def most_memory_used(gpu: str) -> Iterator[list[float]]:
    """A list with the most that the driver says is in use on a GPU (bytes), asked five times a
    second until the context is left; 0 where it does not say.
    """
    most, left = [0.0], threading.Event()

    def watch() -> None:
        while not left.wait(0.2):
            said = _of_driver("memory.used", f"--id={gpu}")
            most[0] = max(most[0], *(float(line) * 2**20 for line in said if line.isdigit()), 0.0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        left.set()
        watcher.join()


def _of_driver(what: str, *options: str) -> list[str]:
    """One line a GPU from the driver: torch would keep memory on a GPU for this process."""
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", *options]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return listed.stdout.strip().splitlines() if listed.returncode == 0 else []
