"""The configuration of a build, from YAML; every mistake is named with what is allowed.

Only a name, a folder and sources are needed; every stage has its own section:

    name: recent-and-hard
    out: build/recent-and-hard
    sources:
      - {adapter: taco}                           # from the hub
      - {adapter: problem-package, path: kattis}  # from a folder
    against:
      - {adapter: livecodebench}
      - {adapter: humaneval}
    process: {translator: {base_url: "http://localhost:8000/v1", model: Qwen/Qwen3-4B}}
    filter: {first_date: 2021-01-01, min_tests: 5}
    verify: {min_strength: 0.5}
    difficulty:
      pass_rates: pass_rates.jsonl
      target: {easy: 0.2, medium: 0.4, hard: 0.4}
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from mcbench.data.decontaminate import DecontaminateConfig
from mcbench.data.dedup import DedupConfig
from mcbench.data.difficulty import DifficultyConfig
from mcbench.data.filter import FilterConfig
from mcbench.data.process import ProcessConfig
from mcbench.data.verify import VerifyConfig
from mcbench.errors import UserError, unknown

STAGES = ("process", "filter", "dedup", "decontaminate", "verify", "difficulty")


@dataclass(frozen=True)
class BuildConfig:
    """One build: where problems come from, what is done to them, where the set goes.

    Args:
        name: of the data set.
        out: folder of the finished set.
        cache: folder of what stages gave, to resume from.
        sources: entries of `mcbench.data.collect` (adapter, path, ...).
        against: entries of the evaluation sets to decontaminate against.
        skip: stages that are left out.
        workers: processes for the stages, and sandboxes of the verification.
        description: for the data set card.

    Raises:
        UserError: no name, an unknown stage, fewer than one worker.
    """

    name: str
    out: str
    cache: str = "build/data"
    sources: tuple[dict[str, Any], ...] = ()
    against: tuple[dict[str, Any], ...] = ()
    skip: tuple[str, ...] = ()
    workers: int = 2
    description: str = ""
    process: ProcessConfig = field(default_factory=ProcessConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)
    decontaminate: DecontaminateConfig = field(default_factory=DecontaminateConfig)
    verify: VerifyConfig = field(default_factory=VerifyConfig)
    difficulty: DifficultyConfig = field(default_factory=DifficultyConfig)

    def __post_init__(self) -> None:
        if not self.name or not self.out:
            raise UserError("a build needs a name and out, the folder of the finished set")
        if strange := sorted(set(self.skip) - set(STAGES)):
            raise unknown("stage in skip", strange[0], STAGES)
        if self.workers < 1:
            raise UserError(f"workers must be at least 1, got {self.workers}")


def load_config(path: Path) -> BuildConfig:
    """The configuration in a YAML file.

    Relative paths in it count from the working directory.

    Raises:
        UserError: the file cannot be read, is no YAML mapping, or has a wrong field.
    """
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"configuration {path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(
            f"configuration {path} is no YAML: {' '.join(str(error).split())}"
        ) from None
    return from_mapping(BuildConfig, data, str(path))


_T = TypeVar("_T")


def from_mapping(kind: type[_T], data: Any, where: str) -> _T:
    """A configuration object from nested mappings, types checked.

    Raises:
        UserError: an unknown or missing field, a value of the wrong type, or one that is refused.
    """
    assert is_dataclass(kind)
    if not isinstance(data, Mapping):
        raise UserError(f"{where} must be a mapping of names to values, got {_kind_of(data)}")
    known = {f.name: f for f in fields(kind)}
    if extra := [name for name in data if name not in known]:
        raise unknown(f"field of {where}", extra[0], known)
    needed = (
        name
        for name, f in known.items()
        if f.default is MISSING and f.default_factory is MISSING and name not in data
    )
    if (missing := next(needed, None)) is not None:
        raise UserError(f"{where} lacks {missing!r}")
    hints = get_type_hints(kind)
    values = {name: _value(hints[name], value, f"{where}: {name}") for name, value in data.items()}
    try:
        return kind(**values)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _value(next(a for a in get_args(hint) if a is not type(None)), value, where)
    if is_dataclass(hint) and isinstance(hint, type):
        return from_mapping(hint, value, where)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise UserError(f"{where} must be a list, got {_kind_of(value)}")
        return tuple(_value(get_args(hint)[0], item, where) for item in value)
    if origin is dict:
        return _mapping(get_args(hint)[1], value, where)
    if hint is str and hasattr(value, "isoformat"):  # YAML reads 2024-01-01 as a date
        return str(value.isoformat())
    allowed = (int, float) if hint is float else hint
    if not isinstance(value, allowed) or (isinstance(value, bool) and hint is not bool):
        raise UserError(f"{where} must be {hint.__name__}, got {value!r:.60}")
    return float(value) if hint is float else value


def _mapping(hint: Any, value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UserError(f"{where} must be a mapping of names to values, got {_kind_of(value)}")
    if hint is Any:
        return dict(value)
    return {name: _value(hint, item, f"{where}: {name}") for name, item in value.items()}


def _kind_of(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"
