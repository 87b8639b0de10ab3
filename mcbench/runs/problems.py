"""Named sets of problems and the models a profile names, resolved to content."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from mcbench.data.schema import Problem
from mcbench.errors import UserError, unknown
from mcbench.files import digest
from mcbench.nano import MODEL_NAMES, model_path

SETS = (
    *("nano:train", "nano:test", "nano-formats:train", "nano-formats:test"),
    *("nano-harder:train", "nano-easier:train"),
)

# What a chat model is told beside the statement: the reward reads the last complete fenced block.
CHAT_INSTRUCTION = (
    "Write the complete program in one ```python code block at the end of your answer."
)


def load_problems(name: str) -> tuple[Problem, ...]:
    """The problems of a set: one of ``SETS`` or the path of a ``.jsonl`` file.

    A line of the file is a JSON object with the fields of :class:`mcbench.data.schema.Problem`.

    Raises:
        UserError: an unknown set, a missing file, a row that is no problem (for instance one
            without tests).
    """
    if name in SETS:
        return _nano(name)
    if not name.endswith(".jsonl"):
        raise unknown("problem set", name, [*SETS, "the path of a .jsonl file"])
    if not Path(name).is_file():
        raise UserError(f"problem set {name!r} does not exist; name a file or one of {SETS}")
    lines = Path(name).read_text().splitlines()
    return tuple(_problem(name, number, line) for number, line in enumerate(lines, start=1))


@cache
def _nano(name: str) -> tuple[Problem, ...]:
    from mcbench.nano.formats import load_formats
    from mcbench.nano.graded import LEVELS, load_graded
    from mcbench.nano.problems import load_split

    if (level := name.removeprefix("nano-").removesuffix(":train")) in LEVELS:
        return load_graded(level)
    load = load_formats if name.startswith("nano-formats:") else load_split
    return load("train" if name.endswith(":train") else "test")


def _problem(name: str, number: int, line: str) -> Problem:
    known = {field.name for field in fields(Problem)}
    try:
        row = json.loads(line)
        if extra := row.keys() - known:
            raise unknown("field", sorted(extra)[0], known)
        return Problem(**{**row, "tests": tuple(row.get("tests") or ())})
    except UserError as error:
        raise UserError(f"line {number} of {name}: {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"line {number} of {name} is no problem record: {error}") from error


def problems_digest(problems: tuple[Problem, ...]) -> str:
    """Content hash of the problems in order."""
    return digest(json.dumps(problem.to_row(), sort_keys=True) for problem in problems)


def prompt_for(problem: Problem, style: str) -> str | list[dict[str, str]]:
    """The prompt of a problem: its statement (``plain``) or a conversation (``chat``)."""
    if style == "plain":
        return problem.statement
    return [{"role": "user", "content": f"{problem.statement}\n\n{CHAT_INSTRUCTION}"}]


def training_row(problem: Problem, style: str) -> dict[str, Any]:
    """The dataset row TRL trains on; its columns reach the reward function."""
    return {**problem.to_row(), "prompt": prompt_for(problem, style)}


def model_location(name: str) -> str:
    """A directory or hub id that transformers can load: nano names become their directory.

    A run directory stands for its final model.

    Raises:
        UserError: the path does not exist or holds no model.
    """
    if name in MODEL_NAMES:
        return str(model_path(name))
    path = Path(name)
    if not path.exists():
        if _meant_as_path(name):
            raise UserError(
                f"model or checkpoint {name!r} does not exist; name one of "
                f"{', '.join(MODEL_NAMES)}, a directory with config.json, a run directory, "
                "or a hub id such as Qwen/Qwen3-1.7B"
            )
        return name
    if (path / "run.json").exists():
        path = path / "checkpoints" / "final"
    if not (path / "config.json").exists() and not (path / "adapter_config.json").exists():
        raise UserError(f"{path} holds no model: config.json is missing")
    return str(path)


def _meant_as_path(name: str) -> bool:
    """Whether a name that does not exist can be no hub id, which has the form "owner/name".

    A name in a folder that exists, or in one that mcbench writes, is not looked up on the hub: with
    no network that takes most of a minute.
    """
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        return True
    folder = name.partition("/")[0]
    return folder in ("runs", "build") or Path(folder).is_dir()


def model_digest(location: str) -> str:
    """Content hash of a local model; a hub id stands for itself."""
    path = Path(location)
    if not path.is_dir():
        return f"hub:{location}"
    files = sorted(p for p in path.iterdir() if p.suffix in (".json", ".safetensors", ".bin"))
    return digest(part for file in files for part in (file.name, file.read_bytes()))
