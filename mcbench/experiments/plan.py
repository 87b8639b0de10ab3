"""What a set of experiments needs: which runs, which are shared, which are finished, how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mcbench.experiments.experiments import PlannedRun
from mcbench.runs.records import finished_records
from mcbench.runs.say import clock
from mcbench.runs.store import RunStore
from mcbench.scale.pace import seconds_of_update

RECORD = "*.parquet"  # a compact record, named by its run


@dataclass(frozen=True)
class Pace:
    """Recorded times of finished runs of one profile: seconds an update, and of how many runs."""

    seconds: float
    runs: int


@dataclass(frozen=True)
class Plan:
    """The runs of one or several experiments.

    ``asked`` holds every arm and seed; ``distinct`` each computation once, under the first of its
    labels; ``states`` is by run id, as :attr:`mcbench.runs.store.Run.state` says, ``finished`` also
    where only the record is kept.
    """

    asked: tuple[PlannedRun, ...]
    distinct: tuple[PlannedRun, ...]
    states: Mapping[str, str]
    paces: Mapping[str, Pace]

    @property
    def missing(self) -> list[PlannedRun]:
        """The runs to train."""
        return [one for one in self.distinct if self.states[one.config.run_id] != "finished"]

    def seconds(self) -> tuple[float, dict[str, int]]:
        """Time of the missing runs whose profile has finished ones, one after another; and how many
        there are of each profile that has none.
        """
        total, unknown = 0.0, dict[str, int]()
        for one in self.missing:
            if pace := self.paces.get(one.config.profile):
                total += pace.seconds * one.config.steps
            else:
                unknown[one.config.profile] = unknown.get(one.config.profile, 0) + 1
        return total, unknown

    def describe(self, workers: int = 1) -> list[str]:
        """Counts and the estimated time, in a few lines."""
        finished = len(self.distinct) - len(self.missing)
        asked, distinct = len(self.asked), len(self.distinct)
        return [
            f"runs: {asked} by arm and seed, {distinct} distinct, {asked - distinct} saved by "
            "sharing",
            f"finished: {finished}, to train: {len(self.missing)}",
            f"estimated time: {self._time(workers)}",
        ]

    def _time(self, workers: int) -> str:
        if not self.missing:
            return "none"
        total, unknown = self.seconds()
        parts = []
        if total:
            used = {one.config.profile for one in self.missing} & self.paces.keys()
            sources = " and ".join(f"{self.paces[name].runs} of {name}" for name in sorted(used))
            side = f" with {workers} side by side" if workers > 1 else " one after another"
            parts.append(f"{clock(total / workers)}{side} (by finished runs: {sources})")
        parts += [
            f"unknown for {count} of {name}, of which no run is finished"
            for name, count in sorted(unknown.items())
        ]
        return "; ".join(parts)


def make_plan(
    asked: Sequence[PlannedRun], store: RunStore, records: Iterable[str | Path] = ()
) -> Plan:
    """Look up what is finished and how long it took.

    Args:
        records: folders of compact records that count as finished.

    Raises:
        UserError: a record cannot be read.
    """
    asked = list(asked)
    distinct = {one.config.run_id: one for one in reversed(asked)}
    in_order = [one for one in asked if one is distinct[one.config.run_id]]
    kept = {path.stem for folder in records for path in Path(folder).glob(RECORD)}
    states = {
        name: "finished" if name in kept else store.run(one.config).state
        for name, one in distinct.items()
    }
    return Plan(tuple(asked), tuple(in_order), states, paces(store, records))


def paces(store: RunStore, records: Iterable[str | Path] = ()) -> dict[str, Pace]:
    """The median time of an update by profile, from the finished runs and kept records."""
    found: dict[str, dict[str, float]] = {}
    for one in finished_records(store.root, *records):
        if (seconds := seconds_of_update(one)) is not None:
            found.setdefault(one.config.profile, {})[one.run_id] = seconds
    return {name: Pace(median(times.values()), len(times)) for name, times in found.items()}
