"""A comparison as a notebook or page needs it: its runs by arm, tidy frames, results of claims."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcbench.claims import CLAIMS, Result, arms_elsewhere, assess
from mcbench.claims.curves import RunCurves, duplicates, run_curves
from mcbench.claims.measurements import SUITE, read_measurements
from mcbench.claims.protocol import ELSEWHERE, MAP_SEEDS, PROTOCOL, RETRAINED, SEEDS
from mcbench.errors import UserError
from mcbench.experiments.arms import Arms, arm_config, check_arms
from mcbench.experiments.experiments import (
    EXPERIMENTS,
    Experiment,
    PlannedRun,
    arm_elsewhere,
    check_claims,
    chosen_arms,
    experiment_named,
    plan_runs,
)
from mcbench.experiments.plan import Runs, finished
from mcbench.experiments.round_2 import of_round_1, outcomes, with_second_round
from mcbench.experiments.training import find_record, train_missing
from mcbench.files import digest
from mcbench.runs.config import Config, family_of
from mcbench.runs.place import RECORDS, committed_records, in_project
from mcbench.runs.say import Say, say
from mcbench.runs.store import RunRecord, RunStore
from mcbench.runs.trackers import check_trackers, send_verdicts

if TYPE_CHECKING:
    import pandas as pd

OWN = "comparison"
"""The name of a comparison that is none of the experiments."""


@dataclass(frozen=True, repr=False)
class Study:
    """What is known about a comparison.

    Attributes:
        name: of the experiment, or :data:`OWN`.
        profile: the scale; an arm may be trained at another one.
        arms: the runs of each arm by seed, of one scope.
        results: of the claims about it, the paper's and ours, by id.
        measurements: what was measured beside the runs (:mod:`mcbench.claims.measurements`).
        planned: the runs that were asked for; none of a study that was read from records.
        settings: the arms as they were given.
        options: what else they were asked for by: experiment, steps, settings of every arm.
        claimed: the finished runs that ``results`` rest on, by experiment, arm and seed.
    """

    name: str
    profile: str
    arms: Mapping[str, Sequence[RunRecord]]
    results: Mapping[str, Result] = field(default_factory=dict)
    measurements: Sequence[Mapping[str, Any]] = ()
    planned: Sequence[PlannedRun] = ()
    settings: Arms = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    claimed: Mapping[str, Runs] = field(default_factory=dict)

    def __repr__(self) -> str:
        seeds = {arm: len(runs) for arm, runs in self.arms.items()}
        return f"{type(self).__name__} {self.name} at {self.profile}, seeds by arm: {seeds}"

    @property
    def records(self) -> list[RunRecord]:
        """All runs, each once."""
        return list({one.run_id: one for runs in self.arms.values() for one in runs}.values())

    @property
    def duplicates(self) -> dict[str, str]:
        """Arms that trained exactly as an earlier one did, by that one."""
        return duplicates(self.claim_curves)

    @property
    def claim_curves(self) -> dict[str, dict[int, RunCurves]]:
        """The finished runs as claims read them, by arm and seed; arms without any are left out."""
        found = {
            arm: {one.seed: run_curves(one) for one in runs if one.state == "finished"}
            for arm, runs in self.arms.items()
        }
        return {arm: runs for arm, runs in found.items() if runs}

    @cached_property
    def curves(self) -> pd.DataFrame:
        """One row per arm, seed and update, with everything that was logged.

        Columns: ``arm``, ``seed``, ``step``; ``reward``, ``length`` (mean response length in
        tokens), ``diversity`` (Distinct-4), ``truncated`` and ``masked`` (shares of responses);
        then every logged column under the name it has in ``steps.jsonl``. What is measured once a
        generation is there in the rows of the updates that began one.
        """
        frame = self._rows(lambda run: run.step_lines)
        for name, column in _SHORT.items():
            if column in frame:
                values = frame.pop(name) if name == column else frame[column]
                frame.insert(3, name, values)
        return frame

    @cached_property
    def evaluations(self) -> pd.DataFrame:
        """One row per arm, seed, evaluated step and maximum length.

        Columns: ``arm``, ``seed``, ``step`` (0: before training), ``max_completion_length``
        (tokens), ``temperature``, ``attempts`` (a problem), ``problems`` (how many), ``pass_at_1``,
        ``mean_length`` (tokens), ``truncated_share``, ``distinct_4``, ``dataset``,
        ``dataset_hash``. Rows that differ in length, temperature, attempts or dataset hash are
        different measurements.
        """
        own = ("per_problem", "seed")  # an evaluation's seed is that of its sampling
        return self._rows(
            lambda run: [
                {**{k: v for k, v in line.items() if k not in own}, "problems": count}
                for line in run.eval_lines
                for count in [len(line["per_problem"])]
            ]
        )

    @cached_property
    def responses(self) -> pd.DataFrame:
        """One row per stored response: all of a run in the run folder, a few of a record.

        Columns: ``arm``, ``seed``, ``step`` (the update that its generation began), ``group`` (of
        the prompt), ``prompt``, ``completion``, ``reward``, ``advantage``, ``length`` (tokens),
        ``truncated``, ``masked``, and what else the run stored, such as the verdicts of the tests.
        """
        return self._rows(
            lambda run: [
                {"step": step, **row}
                for step in run.completion_steps()
                for row in run.completions(step).to_dict("records")
            ]
        )

    def _rows(self, lines: Any) -> pd.DataFrame:
        import pandas as pd

        rows = [
            {"arm": arm, "seed": run.seed, **line}
            for arm, runs in self.arms.items()
            for run in runs
            for line in lines(run)
        ]
        return pd.DataFrame(rows, columns=None if rows else ["arm", "seed", "step", *_SHORT])

    def results_if(self, seeds: Collection[int], margins: float = 1.0) -> dict[str, Result]:
        """What the results would be from some seeds alone and with other margins, all multiplied
        by ``margins``. These are no verdicts: seeds and margins were fixed before the runs.
        """
        return {
            name: result
            for home, runs in self.claimed.items()
            for name, result in assess(
                home,
                {arm: {s: one for s, one in of.items() if s in seeds} for arm, of in runs.items()},
                [row for row in self.measurements if row.get("seed", None) in (None, *seeds)],
                margins,
                by_feature=False,
                whole=False,
            ).items()
        }

    def verdicts(self) -> pd.DataFrame:
        """One row per claim that these arms suffice for.

        Columns: ``claim``, ``state``, ``parts`` (their states), ``effect``, ``low``, ``high``
        (95 %), ``unit``, ``seeds``, ``note``, ``id``.
        """
        import pandas as pd

        rows = [
            {
                "claim": CLAIMS[name].claim,
                "state": one.state,
                "parts": one.part_states,
                "effect": one.effect,
                "low": one.interval[0],
                "high": one.interval[1],
                "unit": one.unit,
                "seeds": one.n_seeds,
                "note": one.note,
                "id": name,
            }
            for name, one in self.results.items()
        ]
        return pd.DataFrame(rows)


_SHORT = {
    "masked": "mask/share",
    "truncated": "mask/truncated",
    "diversity": "diversity/distinct_4",
    "length": "completions/mean_length",
    "reward": "reward",
}


# From records ------------------------------------------------------------------------------------


def studies(
    name: str,
    records: Sequence[RunRecord],
    measurements: Sequence[Mapping[str, Any]] = (),
) -> list[Study]:
    """An experiment as records of any experiments show it: a study for each of its sizes.

    The experiment's own profiles come first, and of them those by which the protocol decides a
    claim, then those that can measure one; others count where two arms can be compared, but not for
    maps, whole recipes and tasks. Records are found by their ids: runs whose settings differ from a
    profile's, such as shorter ones, are not among them; of a map its first cell is.

    Raises:
        UserError: an unknown experiment.
    """
    experiment = experiment_named(name)
    # Those have seeds of their own, apart from the protocol's.
    apart = bool(set(experiment.seeds) & set(MAP_SEEDS))
    again = set(experiment.seeds) == set(RETRAINED)
    left_out = {*(SEEDS if apart else MAP_SEEDS), *RETRAINED}
    known = {
        one.run_id: one
        for one in records
        if (one.seed in RETRAINED if again else one.seed not in left_out)
    }
    others = () if apart or again else dict.fromkeys(one.config.profile for one in known.values())
    place = {run_id: place for place, run_id in enumerate(known)}
    found = []
    for profile in dict.fromkeys([*experiment.profiles, *others]):
        runs = _recorded(experiment, experiment.arms, profile, known)
        if runs and (profile in experiment.profiles or len(runs) > 1):
            found.append(_study(experiment, profile, runs, known, measurements))
    return sorted(
        found,
        key=lambda one: (
            one.profile not in experiment.profiles,
            min(map(_rank, one.results.values()), default=0),
            min(place[run.run_id] for run in one.records)
            if one.profile not in experiment.profiles
            else 0,
        ),
    )


def _recorded(
    experiment: Experiment, arms: Arms, profile: str, known: Mapping[str, RunRecord]
) -> Runs:
    """The records of arms at a profile, by arm and seed, as far as they are known by id."""
    cell = experiment.cells[0] if experiment.cells else {}
    seeds = sorted({one.seed for one in known.values()})
    found: Runs = {}
    for arm, settings in check_arms(arms).items():
        if config := _config_at(settings, profile, cell):
            ids = {seed: config.model_copy(update={"seed": seed}).run_id for seed in seeds}
            runs = {seed: known[one] for seed, one in ids.items() if one in known}
            if runs:
                found[arm] = runs
    return found


def _config_at(
    settings: Mapping[str, Any], profile: str, common: Mapping[str, Any], look: bool = True
) -> Config | None:
    """An arm's configuration; None where its settings do not fit the profile or what is common."""
    return _config_of(json.dumps([settings, profile, common]), look)


@lru_cache(maxsize=4096)
def _config_of(asked: str, look: bool) -> Config | None:
    try:
        settings, profile, common = json.loads(asked)
        return arm_config("", settings, profile, common, look)
    except UserError:
        return None


def results_of(found: Sequence[Study]) -> dict[str, Result]:
    """The results of the claims about one experiment, each from the study that decides it, or from
    the first that measures it.
    """
    by_claim: dict[str, list[Result]] = {}
    for name, result in (item for one in found for item in one.results.items()):
        by_claim.setdefault(name, []).append(result)
    return {name: min(results, key=_rank) for name, results in by_claim.items()}


def _rank(result: Result) -> int:
    if not result.parts:
        return 3
    if result.basis == ELSEWHERE:
        return 2
    return 0 if result.basis.startswith(PROTOCOL) else 1


def _study(
    experiment: Experiment,
    profile: str,
    runs: Runs,
    known: Mapping[str, RunRecord],
    measurements: Sequence[Mapping[str, Any]],
) -> Study:
    name, done = experiment.name, finished(runs)
    for other in arms_elsewhere(name):
        there = _recorded(experiment, arm_elsewhere(other), profile, known)
        for seeds in finished(there).values():
            done[other] = seeds
    arms = {arm: list(seeds.values()) for arm, seeds in runs.items()}
    ids = {"", *(record.run_id for seeds in runs.values() for record in seeds.values())}
    measurements = [row for row in measurements if row.get("run_id", "") in ids]
    results = assess(name, done, measurements, profile=None if experiment.cells else profile)
    return Study(name, profile, arms, results, measurements, claimed={name: done})


def named_by_settings(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Arms of runs that belong to no experiment: named by recipe and what differs from it, without
    what all of them share.
    """
    changes = [record.config.differences() for record in records]
    shared = {
        name: value
        for name, value in (changes[0] if changes else {}).items()
        if all(name in other and other[name] == value for other in changes)
    }
    found: dict[str, list[RunRecord]] = {}
    for record, changed in zip(records, changes, strict=True):
        told = [f"{name} {value}" for name, value in changed.items() if name not in shared]
        recipe = record.config.recipe
        found.setdefault(f"{recipe} ({', '.join(told)})" if told else recipe, []).append(record)
    return found


# Trained -----------------------------------------------------------------------------------------


def run_study(
    arms: Arms | Sequence[str] | None,
    experiment: str | None = None,
    profile: str = "nano",
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    runs_dir: str | Path = "runs",
    use_records: bool = True,
    workers: int = 1,
    fresh: bool = False,
    progress: Say = say,
    address: str | None = None,
    launch: str | None = None,
    train: bool = True,
    apart: bool = False,
) -> Study:
    """Find or train the runs of arms, read what was measured beside them, and assess.

    The verdicts go to the trackers that the runs report to as well.

    Args:
        arms: names and settings (:mod:`mcbench.experiments.arms`), names of the experiment's own
            arms, or None for all of these.
        experiment: whose claims are assessed; where None, every experiment whose arms are there.
        steps, settings: of every arm; an arm's own settings go before them.
        use_records: whether the committed records stand in for runs that are not in the folder.
        workers: runs trained side by side.
        fresh: train again what is finished.
        train: whether missing runs are trained; else they are left out.
        apart: whether they are trained by a process that outlives this one.

    Raises:
        UserError: settings that do not fit, or a run failed.
    """
    folder = in_project(runs_dir)
    planned = planned_study(arms, experiment, profile, seeds, steps, settings)
    trackers = dict.fromkeys(name for one in planned for name in one.config.report_to)
    check_trackers(trackers)
    check_claims()
    committed = committed_records() if use_records and not fresh else []
    if experiment and train and use_records and not fresh and not committed:
        progress(
            f"no records are here: start in a checkout, or name its reports/records in {RECORDS}"
        )
    found = train_missing(
        experiment or OWN, planned, folder, progress, workers, fresh, committed,
        address=address, launch=launch, train=train, apart=apart,
    )  # fmt: skip
    by_id = {record.run_id: record for record in found}
    by_arm: dict[str, list[RunRecord]] = {}
    for one in planned:
        if one.config.run_id in by_id:
            by_arm.setdefault(one.arm, []).append(by_id[one.config.run_id])
    folders = [folder, *committed]
    measurements = _measured(found, folders)
    common = {**(settings or {}), **({} if steps is None else {"steps": steps})}
    given = check_arms(chosen_arms(experiment_named(experiment), arms) if experiment else arms)
    own = _claims_of(given, by_arm, experiment, profile, seeds, common, folders)
    results = {
        name: result
        for home, runs in own.items()
        for name, result in assess(
            home, runs, measurements, profile=profile if _its_own(home, runs, profile) else None
        ).items()
    }
    if any(map(of_round_1, results.values())):
        results = with_second_round(results, outcomes(folders))
    asked = {"experiment": experiment, "steps": steps, "settings": dict(settings or {})}
    study = Study(
        experiment or OWN, profile, by_arm, results, measurements, planned, given, asked, own
    )
    if results and trackers:
        known = f"{study.name}-{digest(sorted(by_id))}"
        about = {"name": study.name, "profile": profile, "seeds": list(seeds), "id": known}
        columns = ["id", "claim", "state", "effect", "low", "high", "unit", "seeds"]
        table = study.verdicts()[columns]
        send_verdicts(trackers, folder / "verdicts" / known, {**about, "arms": given}, table)
    return study


def planned_study(
    arms: Arms | Sequence[str] | None,
    experiment: str | None = None,
    profile: str = "nano",
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[PlannedRun]:
    """The runs that :func:`run_study` finds or trains; arguments as there.

    Raises:
        UserError: settings that do not fit.
    """
    if experiment is not None:
        arms = chosen_arms(experiment_named(experiment), arms)
    if not isinstance(profile, str):
        raise UserError(f"a comparison is made at one profile at a time, got {profile!r}")
    return plan_runs(arms, [profile], seeds, steps, settings)


def _claims_of(
    given: Arms,
    by_arm: Mapping[str, Sequence[RunRecord]],
    experiment: str | None,
    profile: str,
    seeds: Sequence[int],
    common: Mapping[str, Any],
    folders: Sequence[Path],
) -> dict[str, Runs]:
    """The finished runs of each experiment's arms among these: by what they compute, whatever they
    are called; or by name, where they differ from the experiment's in model and data alone.

    Of an experiment that was not asked for, only where every arm of some claim is there.
    """
    computed: dict[str, dict[int, RunRecord]] = {}
    for one in (one for runs in by_arm.values() for one in runs if one.state == "finished"):
        computed.setdefault(one.config.computation, {})[one.seed] = one
    found: dict[str, Runs] = {}
    for name in [experiment] if experiment else EXPERIMENTS:
        runs: Runs = {}
        for arm, settings in experiment_named(name).arms.items():
            if arm in by_arm and _same_but_data(given[arm], settings):
                runs[arm] = {one.seed: one for one in by_arm[arm] if one.state == "finished"}
            elif (
                config := _config_at(settings, profile, common, look=False)
            ) and config.computation in computed:
                runs[arm] = computed[config.computation]
        claims = [one for one in CLAIMS.values() if one.experiment == name and one.arms]
        if experiment or any(set(one.arms) <= set(runs) for one in claims):
            for other in arms_elsewhere(name):
                ((arm, own),) = arm_elsewhere(other).items()
                rest = {name: value for name, value in common.items() if name not in own}
                planned = plan_runs({arm: own}, [profile], seeds, None, rest)
                there = [find_record(one, RunStore(folders[0]), folders[1:]) for one in planned]
                runs[other] = {one.seed: one for one in there if one is not None}
            found[name] = {arm: by_seed for arm, by_seed in runs.items() if by_seed}
    return found


def _its_own(experiment: str, runs: Runs, profile: str) -> bool:
    """Whether runs compute what the experiment's arms do, and on the same data."""
    known = experiment_named(experiment).arms
    own = {arm: _config_at(known[arm], profile, {}, look=False) for arm in runs if arm in known}
    return all(
        config is not None and one.config.computation == config.computation
        for arm, config in own.items()
        for one in runs[arm].values()
    )


def _same_but_data(given: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """An arm may name another profile where the experiment's own does."""
    free = {"profile"} & set(settings)

    def rest(arm: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in arm.items()
            if name not in free and (name == "profile" or family_of(name) != "model and data")
        }

    return rest(given) == rest(settings)


def _measured(found: Sequence[RunRecord], folders: Sequence[Path]) -> list[Mapping[str, Any]]:
    """What was measured beside these runs."""
    ids = {"", *(one.run_id for one in found)}
    rows: list[Mapping[str, Any]] = []
    for folder in folders:
        judged = any(row["kind"] == SUITE for row in rows)  # the first folder's suite is the one
        rows += [row for row in read_measurements(folder) if not (judged and row["kind"] == SUITE)]
    kept = [row for row in rows if row.get("run_id", "") in ids]
    return list({json.dumps(row, sort_keys=True): row for row in kept}.values())
