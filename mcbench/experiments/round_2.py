"""Round 2 as folders of records hold it: a block counts when all of its runs are there."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mcbench.claims import Result
from mcbench.claims.protocol import PROTOCOL
from mcbench.claims.round_2 import Outcome, assess, claim_states
from mcbench.claims.rules import NOT_TESTABLE_HERE
from mcbench.experiments.experiments import ROUND_2, planned_runs
from mcbench.experiments.plan import Runs
from mcbench.runs.compact import read_compact
from mcbench.runs.store import RunRecord


def whole_block(name: str, folders: Sequence[str | Path]) -> Runs:
    """The runs of a block by arm and seed; none where one of them is not recorded: a block is not
    looked at before it is whole.
    """
    kept = {path.stem: path for folder in folders for path in Path(folder).glob("*.parquet")}
    return _whole(name, kept, lambda run_id: read_compact(kept[run_id]))


def registered(name: str, records: Iterable[RunRecord]) -> Runs:
    """Of any runs those of a block as it is registered; none where one of these is missing: runs of
    other settings decide nothing, whatever their arms are called.
    """
    there = {one.run_id: one for one in records}
    return _whole(name, there, there.__getitem__)


def _whole(name: str, there: Container[str], read: Callable[[str], RunRecord]) -> Runs:
    planned = planned_runs(name)
    if not all(one.config.run_id in there for one in planned):
        return {}
    found: Runs = {}
    for one in planned:
        found.setdefault(one.arm, {})[one.config.seed] = read(one.config.run_id)
    return found


def outcomes(folders: Sequence[str | Path]) -> dict[str, Outcome]:
    """What the whole blocks of these folders say of each hypothesis, by its id."""
    blocks = {name: runs for name in ROUND_2 if (runs := whole_block(name, folders))}
    return assess(blocks)


def with_second_round(
    results: Mapping[str, Result], found: Mapping[str, Outcome]
) -> dict[str, Result]:
    """Results of round 1 that also say what the outcomes of round 2 make of their claims."""
    states = claim_states(found)
    return {
        name: replace(one, second=_second(name, found))
        if name in states and of_round_1(one)
        else one
        for name, one in results.items()
    }


def of_round_1(result: Result) -> bool:
    """Whether the protocol's first round has decided it."""
    return result.basis.startswith(PROTOCOL)


def _second(claim: str, found: Mapping[str, Outcome]) -> str:
    """Nothing while none of its hypotheses is measured."""
    state, why = claim_states(found)[claim]
    if state == NOT_TESTABLE_HERE:
        return f"{state}: {why}"
    about = [name for name, one in found.items() if claim in one.hypothesis.asks]
    if not any(found[name].estimate.seeds for name in about):
        return ""
    return f"in round 2 {state} ({why})"
