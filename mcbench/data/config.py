"""The configuration of a build, from YAML; every mistake is named with what is allowed.

The repository's ``configs`` folder has some to begin with. Only a name, a folder and sources are
needed; every stage has its own section:

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

from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, PositiveInt

from mcbench.data.decontaminate import DecontaminateConfig
from mcbench.data.dedup import DedupConfig
from mcbench.data.difficulty import DifficultyConfig
from mcbench.data.filter import FilterConfig
from mcbench.data.process import ProcessConfig
from mcbench.data.verify import VerifyConfig
from mcbench.files import read_configuration
from mcbench.settings import Settings

StageName = Literal["process", "filter", "dedup", "decontaminate", "verify", "difficulty"]
STAGES: tuple[StageName, ...] = get_args(StageName)


class BuildConfig(Settings):
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

    name: str = Field(min_length=1)
    out: str = Field(min_length=1)
    cache: str = "build/data"
    sources: tuple[dict[str, Any], ...] = ()
    against: tuple[dict[str, Any], ...] = ()
    skip: tuple[StageName, ...] = ()
    workers: PositiveInt = 2
    description: str = ""
    process: ProcessConfig = ProcessConfig()
    filter: FilterConfig = FilterConfig()
    dedup: DedupConfig = DedupConfig()
    decontaminate: DecontaminateConfig = DecontaminateConfig()
    verify: VerifyConfig = VerifyConfig()
    difficulty: DifficultyConfig = DifficultyConfig()


def load_config(path: Path) -> BuildConfig:
    """The configuration in a YAML file.

    Relative paths in it count from the working directory.

    Raises:
        UserError: the file cannot be read, is no mapping in YAML, or has a wrong field.
    """
    return BuildConfig.read(read_configuration(path), str(path))
