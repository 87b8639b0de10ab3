"""Round 2 as folders of records hold it: a block counts when all of its runs are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcbench.claims import round_2
from mcbench.claims.round_2 import Outcome
from mcbench.experiments.experiments import ROUND_2, planned_runs
from mcbench.experiments.plan import Runs, by_arm
from mcbench.runs.compact import read_compact


def whole_block(name: str, folders: Sequence[str | Path]) -> Runs:
    """The runs of a block by arm and seed; none where one of them is not recorded: a block is not
    looked at before it is whole.
    """
    planned = planned_runs(name)
    kept = {path.stem: path for folder in folders for path in Path(folder).glob("*.parquet")}
    ids = {one.config.run_id for one in planned}
    if not ids <= kept.keys():
        return {}
    return by_arm(planned, [read_compact(kept[one]) for one in sorted(ids)])


def outcomes(folders: Sequence[str | Path]) -> dict[str, Outcome]:
    """What the whole blocks of these folders say of each hypothesis, by its id."""
    blocks = {name: runs for name in ROUND_2 if (runs := whole_block(name, folders))}
    return round_2.assess(blocks)
