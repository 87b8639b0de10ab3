"""Which seeds verdicts rest on, as ``docs/protocol.md`` says.

Seeds of the protocol count alone where there are any of them. Runs of other seeds stay readable:
those that somebody had looked at before the protocol are its first round, anyone's own are their
own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from mcbench.claims.measurements import Measurements
from mcbench.errors import UserError

FILE = "docs/protocol.md"
SEEDS = tuple(range(10, 22))
"""Of every arm; no verdict of the protocol with fewer."""
MAP_SEEDS = (30, 31, 32)
"""Of every cell of a map (``where_it_holds``), which no claim rests on."""
FIRST_ROUND = tuple(range(5))
PILOTS = tuple(range(100, 104))
"""Looked at while the experiments were designed, and used for no verdict."""

Of = TypeVar("Of")


def counted(by_seed: Mapping[int, Of]) -> dict[int, Of]:
    """What counts of an arm's runs: those of the protocol's seeds, where there are any."""
    fresh = {seed: one for seed, one in by_seed.items() if seed in SEEDS}
    return fresh or dict(by_seed)


def counted_rows(rows: Measurements) -> list[Mapping[str, Any]]:
    """The same for measurements, by kind and experiment; those without a seed all count."""

    def of(row: Mapping[str, Any]) -> tuple[Any, Any]:
        return row["kind"], row.get("experiment")

    fresh = {of(row) for row in rows if row.get("seed") in SEEDS}
    return [
        row for row in rows if "seed" not in row or row["seed"] in SEEDS or of(row) not in fresh
    ]


def needed(seeds: Collection[int], usual: int) -> int:
    """How many seeds a decision needs: all of the protocol's, once its seeds are used."""
    return len(SEEDS) if usual and seeds and set(seeds) <= set(SEEDS) else usual


def basis(seeds: Collection[int]) -> str:
    """What a set of seeds is to the protocol, for people; empty where they are anyone's own."""
    used = set(seeds)
    if not used:
        return ""
    if used <= set(SEEDS):
        done = used == set(SEEDS)
        return "protocol" if done else f"protocol, {len(used)} of {len(SEEDS)} seeds"
    return "first round" if used <= set(FIRST_ROUND) else "pilot" if used <= set(PILOTS) else ""


def check_commit(meta: Mapping[str, Any], repository: Path) -> None:
    """Refuse a run that does not come from a commit which contains the protocol.

    Args:
        meta: the run's ``run.json``.

    Raises:
        UserError: it names no commit, one that is unknown or without the protocol, or was trained
            with uncommitted changes.
    """
    run, commit = meta["run_id"], meta["commit"]
    if not commit:
        raise UserError(f"run {run} names no commit, so that it cannot be a run of the protocol")
    if meta["diff_hash"]:
        raise UserError(f"run {run} was trained with changes that were not committed")
    if not _in_git(repository, f"{commit}^{{commit}}"):
        raise UserError(f"commit {commit} of run {run} is not in this repository")
    if not _in_git(repository, f"{commit}:{FILE}"):
        raise UserError(f"commit {commit} of run {run} does not contain {FILE}")


def _in_git(repository: Path, name: str) -> bool:
    command = ["git", "-C", str(repository), "cat-file", "-e", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
