"""Named sets of problems and the models a profile names, resolved to content."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from mcbench import worlds
from mcbench.data import benchmarks
from mcbench.data.collect import read_source
from mcbench.data.prompts import prompt_for
from mcbench.data.schema import NUMBERS, OPTIONAL, Problem, Rejected
from mcbench.data.storage import iter_dataset, read_manifest, read_problems, write_problems
from mcbench.errors import UserError, unknown
from mcbench.files import cache_folder, digest
from mcbench.runs.alarm import divided_tests
from mcbench.runs.place import in_project
from mcbench.worlds import TASK_SETS, TESTS
from mcbench.worlds.base import RIGHT_AT, WRONG_AT
from mcbench.worlds.nano import MODEL_NAMES, model_path
from mcbench.worlds.pretrained import PACKAGED, gguf_digest, gguf_location, is_gguf

SETS = tuple(TASK_SETS)
_FORMS = (
    *SETS,
    *("the path of a .jsonl file", "the out folder of mcbench data build", "one of its .parquet"),
    *("livecodebench[:SUBSET or FOLDER]", "humaneval[:FILE]", "mbpp[:SUBSET or FILE]"),
    *("evalplus[:FILE]", "mbppplus[:FILE]"),
)


def load_problems(name: str) -> tuple[Problem, ...]:
    """The problems of a set, all of which programs can be judged for.

    ``name`` is one of ``SETS``; the path of a ``.jsonl`` file, whose lines are JSON objects with
    the fields of :class:`mcbench.data.schema.Problem`; the folder that ``mcbench data build`` wrote
    or a parquet file of it; or a benchmark as :func:`mcbench.data.benchmarks.benchmark` names it,
    such as ``livecodebench:release_v5`` (from the hub) or ``humaneval:HumanEval.jsonl.gz``.

    What a build or a benchmark holds and cannot be judged is left out with a warning.

    Raises:
        UserError: an unknown set, a missing file, a row that is no problem, nothing that can be
            judged.
    """
    path = Path(name)
    if name in SETS:
        return _embedded(name)
    if benchmarks.is_benchmark(name):
        return _benchmark(name)
    if path.is_dir():
        read_manifest(path)  # written last: without it the build is not finished
        return _judged(name, iter_dataset(path))
    if path.suffix not in (".jsonl", ".parquet"):
        if config := _build_of(name):
            raise UserError(f"problem set {name!r} is not built yet: mcbench data build {config}")
        raise unknown("problem set", name, _FORMS)
    if not path.is_file():
        raise UserError(f"problem set {name!r} does not exist; name one of: {', '.join(_FORMS)}")
    if path.suffix == ".parquet":
        return _judged(name, read_problems(path))
    lines = path.read_text().splitlines()
    return tuple(_problem(name, number, line) for number, line in enumerate(lines, start=1))


def _build_of(name: str) -> str | None:
    """The project's configuration that builds a folder of problems; None where none does."""
    import yaml

    for path in sorted(in_project("configs").glob("*.yaml")):
        if yaml.safe_load(path.read_text()).get("out") == name:
            return f"configs/{path.name}"
    return None


@cache
def _embedded(name: str) -> tuple[Problem, ...]:
    """An embedded set. To generate one takes seconds, and every run is a process of its own: so it
    is kept in the user's cache folder, under a name that changes with the code that generates it.
    """
    folder = Path(str(worlds.__file__)).parent
    sources = sorted(path for kind in ("*.py", "*.json", "*.yaml") for path in folder.glob(kind))
    key = digest([name, *(path.read_bytes() for path in sources)])
    folder = cache_folder()
    kept = folder / f"{name.replace(':', '-')}-{key}.parquet"
    if kept.exists():
        with contextlib.suppress(UserError, OSError):  # damaged: it is generated again
            return tuple(read_problems(kept))
    problems = TASK_SETS[name].load(name)
    with contextlib.suppress(OSError):  # a home that cannot be written
        folder.mkdir(parents=True, exist_ok=True)
        write_problems(kept, problems)
    return problems


def _benchmark(name: str) -> tuple[Problem, ...]:
    """The problems of a benchmark, with its limits where they set none."""
    known = benchmarks.benchmark(name)
    refused: list[Rejected] = []
    problems = read_source(known.source, reject=refused.append)
    return _judged(name, map(benchmarks.limited, problems), refused)


def _judged(
    name: str, problems: Iterable[Problem], refused: Iterable[Rejected] = ()
) -> tuple[Problem, ...]:
    """The problems that programs can be judged for; what is left out is said."""
    kept, left_out = [], []
    for problem in problems:
        if reason := problem.unjudged():
            left_out.append(f"{problem.id}: {reason}")
        else:
            kept.append(problem)
    left_out += [f"{one.id}: {one.detail}" for one in refused]
    if not kept:
        reason = left_out[0] if left_out else "it is empty"
        raise UserError(f"{name} holds no problem that can be judged; {reason}")
    if left_out:
        told = f"{len(left_out)} problems of {name} are left out, the first: {left_out[0]}"
        warnings.warn(told, stacklevel=3)
    return tuple(kept)


def _problem(name: str, number: int, line: str) -> Problem:
    where = f"line {number} of {name}"
    try:
        row = dict(json.loads(line))
    except (ValueError, TypeError) as error:
        raise UserError(f"{where} is no problem: {error}") from error
    if "reference" in row:
        row["references"] = [row.pop("reference")]
    try:
        problem = Problem.from_json(row)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if reason := problem.unjudged():
        raise UserError(f"{where}: {problem.id}: {reason}")
    return problem


def problems_digest(problems: tuple[Problem, ...]) -> str:
    """Content hash of the problems in order."""
    return digest(json.dumps(problem.to_row(), sort_keys=True) for problem in problems)


def reward_thresholds(train_set: str, reward: str) -> tuple[float, float]:
    """From which value of a reward on a response to a problem of the set is right, and up to which
    it is wrong.

    Raises:
        UserError: as :func:`load_problems`.
    """
    if reward == TESTS:  # the same in every task, so that no set is read for it
        return RIGHT_AT, WRONG_AT
    task = TASK_SETS.get(train_set) or worlds.task_of(load_problems(train_set))
    return task.thresholds_of(reward)


def training_row(problem: Problem, style: str, alarm: bool = False) -> dict[str, Any]:
    """The dataset row TRL trains on; its columns reach the reward function.

    All rows have the same columns, of which a data set has those of its first row. ``alarm``
    divides the tests as :func:`mcbench.runs.alarm.divided_tests` does.
    """
    unset: dict[str, Any] = {name: None if name in NUMBERS else "" for name in OPTIONAL}
    row = {**unset, **problem.to_row(), "prompt": prompt_for(problem, style)}
    if alarm:
        row |= zip(("tests", "hidden_tests"), map(json.dumps, divided_tests(problem)), strict=True)
    return row


def has_chat_template(location: str) -> bool:
    """Whether the tokenizer of a model formats conversations.

    Raises:
        UserError: there is no tokenizer that can be read.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(location)
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split())
        raise UserError(f"the tokenizer of {location} cannot be read: {told}") from error
    return getattr(tokenizer, "chat_template", None) is not None


def model_location(name: str) -> str:
    """A directory or hub id that transformers can load: nano names become their directory, those of
    GGUF files that of the converted model, which is made at the first call.

    A run directory stands for its final model.

    Raises:
        UserError: the path does not exist or holds no model.
    """
    if name in MODEL_NAMES:
        return str(model_path(name))
    if is_gguf(name):
        return gguf_location(name)
    path = Path(name)
    if not path.exists():
        if _meant_as_path(name):
            raise UserError(
                f"model or checkpoint {name!r} does not exist; name one of "
                f"{', '.join((*MODEL_NAMES, *PACKAGED))}, a directory with config.json, a run "
                "directory, a GGUF file or a hub id such as Qwen/Qwen3-1.7B"
            )
        return name
    if is_run(path):
        path = path / "checkpoints" / "final"
    if not (path / "config.json").exists() and not (path / "adapter_config.json").exists():
        raise UserError(f"{path} holds no model: config.json is missing")
    return str(path)


def is_run(path: str | Path) -> bool:
    """Whether a directory is that of a run, and not a model beside which something else has left
    a run.json.
    """
    return Path(path, "run.json").exists() and not Path(path, "config.json").exists()


def _meant_as_path(name: str) -> bool:
    """Whether a name that does not exist can be no hub id, which has the form "owner/name".

    A name in a folder that exists, or in one that mcbench writes, is not looked up on the hub: with
    no network that takes most of a minute.
    """
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        return True
    folder = name.partition("/")[0]
    return folder in ("runs", "build") or Path(folder).is_dir()


# Weights, configuration, tokenizer and chat template.
_OF_MODEL = (".json", ".safetensors", ".bin", ".jinja", ".txt", ".model")


def model_digest(name: str) -> str:
    """Content hash of a model by name; a hub id stands for itself, and of a GGUF file nothing is
    converted for it.

    Raises:
        UserError: as :func:`model_location`.
    """
    if is_gguf(name):
        return gguf_digest(name)
    location = model_location(name)
    path = Path(location)
    if not path.is_dir():
        return f"hub:{location}"
    files = sorted(p for p in path.iterdir() if p.suffix in _OF_MODEL)
    return digest(part for file in files for part in (file.name, file.read_bytes()))
