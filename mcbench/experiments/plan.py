"""What a set of experiments needs: which runs, which are shared, which are finished, how long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcbench.runs.config import Config
from mcbench.runs.say import clock
from mcbench.runs.store import RunRecord, RunStore
from mcbench.scale.pace import Timed, pace_of, timed
from mcbench.scale.sweep import PlannedRun

Runs = dict[str, dict[int, RunRecord]]
"""Arm -> seed -> record."""


@dataclass(frozen=True)
class Plan:
    """The runs of one or several experiments.

    ``asked`` holds every arm and seed; ``distinct`` each computation once, under the first of its
    labels; ``states`` is by run id, as :attr:`mcbench.runs.store.Run.state` says, ``finished`` also
    where only the record is kept. ``folders`` are those of runs and of records.
    """

    asked: tuple[PlannedRun, ...]
    distinct: tuple[PlannedRun, ...]
    states: Mapping[str, str]
    folders: tuple[Path, ...]

    @property
    def missing(self) -> list[PlannedRun]:
        """The runs to train."""
        return [one for one in self.distinct if self.states[one.config.run_id] != "finished"]

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

    def cost(self, known: Collection[Timed]) -> Cost:
        """What training the missing runs takes by what finished ones took."""
        alike = {one.config.computation: one.config for one in self.missing}
        paces = {name: pace_of(config, known) for name, config in alike.items()}
        seconds, sources, left = 0.0, dict[str, None](), list[Config]()
        for config in (one.config for one in self.missing):
            if pace := paces[config.computation]:
                seconds += pace.seconds * config.steps
                sources[pace.source] = None
            else:
                left.append(config)
        return Cost(seconds, ", ".join(sources), left)

    def _time(self, workers: int) -> str:
        """No total where of some runs none is finished, and how many those are."""
        if not self.missing:
            return "none"
        cost = self.cost(timed(*self.folders))
        side = f" with {workers} side by side" if workers > 1 else " one after another"
        told = f"{clock(cost.seconds / workers)}{side} ({cost.sources})" if cost.sources else ""
        if not cost.left:
            return told
        parts = [_unknown(cost.left)]
        if told:
            parts.append(f"the other {len(self.missing) - len(cost.left)} take {told}")
        return "; ".join(parts)


@dataclass(frozen=True)
class Cost:
    """Seconds of runs one after another, by which finished ones; ``left`` are those of which
    nobody knows.
    """

    seconds: float
    sources: str
    left: Sequence[Config]


def _unknown(configs: Sequence[Config]) -> str:
    """Of which runs nobody knows what they take, and what tells it."""
    by_profile = Counter(config.profile for config in configs)
    told = " and ".join(f"{count:,} of {name}" for name, count in sorted(by_profile.items()))
    gpu = sorted({one.profile for one in configs if one.precision != "fp32"})
    one = gpu[0] if gpu else min(by_profile)
    hours, where = ("GPU-hours ", " on the GPU, before a sweep spends it") if gpu else ("", "")
    return (
        f"{hours}unknown for {told}, of which no run is finished: mcbench train --profile {one} "
        f"--dry-run --measure times one{where}"
    )


def make_plan(
    asked: Sequence[PlannedRun],
    store: RunStore,
    records: Iterable[str | Path] = (),
    fresh: bool = False,
) -> Plan:
    """Look up what is finished.

    Args:
        records: folders of compact records that count as finished.
        fresh: nothing counts as finished, whatever is there.
    """
    distinct = {one.config.run_id: one for one in reversed(asked)}
    in_order = [one for one in asked if one is distinct[one.config.run_id]]
    folders = tuple(map(Path, records))
    kept = {path.stem for folder in folders for path in folder.glob("*.parquet")}
    states = {
        name: "absent" if fresh else "finished" if name in kept else store.run(one.config).state
        for name, one in distinct.items()
    }
    return Plan(tuple(asked), tuple(in_order), states, (store.root, *folders))


def finished(runs: Mapping[str, Mapping[int, RunRecord]]) -> Runs:
    """The finished runs alone; arms without any are left out."""
    kept = {
        arm: {seed: record for seed, record in seeds.items() if record.state == "finished"}
        for arm, seeds in runs.items()
    }
    return {arm: seeds for arm, seeds in kept.items() if seeds}
