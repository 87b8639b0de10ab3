"""Checks of the machine and the installation, each with what to do about a problem."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement

from mcbench.errors import UserError


@dataclass(frozen=True)
class Check:
    """``state``: ``ok``, ``note`` (works, with less) or ``bad`` (something will fail)."""

    state: str
    text: str


def checks() -> Iterator[Check]:
    """All checks, one after another; the slow ones last."""
    yield _python()
    yield from _packages()
    yield _cores()
    yield _disk()
    yield from _models()
    yield _gpu()
    yield from _sandbox()


def _python() -> Check:
    version = platform.python_version()
    good = tuple(map(int, platform.python_version_tuple()[:2])) >= (3, 11)
    return Check("ok" if good else "bad", f"Python {version} (3.11 or later is needed)")


def _packages() -> Iterator[Check]:
    """Installed versions against the ranges this package declares."""
    try:
        declared = metadata.requires("mcbench") or []
    except metadata.PackageNotFoundError:
        yield Check("bad", "mcbench is not installed; run: pip install -e .")
        return
    for text in declared:
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = requirement.name
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Check("bad", f"{name} is not installed; run: make setup")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            supported = f"supported: {requirement.specifier}; run: make setup"
            yield Check("bad", f"{name} {version} ({supported})")
        else:
            yield Check("ok", f"{name} {version}")


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    text = f"{cores} processor cores, {memory:.1f} GiB memory"
    return Check("ok" if cores >= 2 else "note", f"{text} (two cores make the demo quick)")


def _disk() -> Check:
    free = shutil.disk_usage(".").free / 2**30
    return Check(
        "ok" if free > 1 else "bad", f"{free:.1f} GiB free here (runs need about 0.1 each)"
    )


def _models() -> Iterator[Check]:
    from mcbench.nano import MODEL_NAMES, model_path

    for name in MODEL_NAMES:
        try:
            model_path(name)
            yield Check("ok", f"base model {name}")
        except UserError as error:
            yield Check("bad", str(error))


def _gpu() -> Check:
    import torch

    if not torch.cuda.is_available():
        return Check("note", "no CUDA device: the nano profiles run, the others would be too slow")
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Check("ok", f"CUDA devices: {', '.join(names)}")


def _sandbox() -> Iterator[Check]:
    from mcbench.evaluator import Evaluator

    with Evaluator(workers=1) as evaluator:
        layers = evaluator.isolation
    yield Check("ok", f"sandbox layers: {', '.join(layers['granted']) or 'none'}")
    for name, reason in layers["missing"].items():
        yield Check("note", f"sandbox without {name}: {reason}")
