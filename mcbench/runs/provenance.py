"""Where a run came from: versions, commit, hardware."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from mcbench.files import code_version, digest, version_of

PACKAGES = (
    *("mcbench", "torch", "transformers", "trl", "accelerate", "datasets", "peft", "numpy", "vllm"),
)


def versions() -> dict[str, str | None]:
    """Installed versions; None for a package that is not installed."""
    return {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}


def evaluation_code() -> str:
    """Hash of what an evaluation's result depends on beside its arguments: the modules that ask,
    sample and judge, and the versions of what they use.
    """
    folders = ("data", "evaluator", "grpo", "runs", "worlds")
    return digest([platform.python_version(), code_version(folders, PACKAGES)])


def commit() -> dict[str, str | None]:
    """Commit of the checkout this package runs from, and a hash of uncommitted changes to it.

    Both are None for an installed copy; ``diff_hash`` is None when nothing was changed.
    """
    source = Path(__file__).parents[2]
    head = _git(source, "rev-parse", "HEAD")
    top = _git(source, "rev-parse", "--show-toplevel")
    if head is None or top is None or Path(top.strip()).resolve() != source.resolve():
        return {"commit": None, "diff_hash": None}
    diff = _git(source, "diff", "HEAD", "--", "mcbench")
    return {"commit": head.strip(), "diff_hash": digest([diff]) if diff else None}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout


def hardware() -> dict[str, Any]:
    """Processor, cores this process may use, torch threads, memory in GiB, and GPUs."""
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": [{"name": g.name, "memory_gib": round(g.total_memory / 2**30, 1)} for g in gpus],
    }


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def processes_here() -> int:
    """How many processes the run that this process belongs to has."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def sharding_here() -> str:
    """What is divided over the processes of the run that this process belongs to: none or fsdp2."""
    return "fsdp2" if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" else "none"
