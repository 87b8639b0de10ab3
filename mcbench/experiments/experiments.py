"""Experiments: arms, profiles and seeds, planned as runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcbench.claims.protocol import RETRAINED, SEEDS
from mcbench.claims.table import CLAIMS, OURS, claims_of
from mcbench.errors import UserError, unknown
from mcbench.experiments.arms import Arms, arm_config, check_arms
from mcbench.files import rows_beside
from mcbench.runs.config import Config
from mcbench.scale.sweep import PlannedRun


@dataclass(frozen=True)
class Experiment:
    """A row of ``experiments.toml``: arms by name, the profiles (sizes) they are trained at, and
    the seeds of the full run: the protocol's where nothing else is said.

    Attributes:
        notebook: the name of its notebook and page, without the ending.
        proposed: the arm that is the paper's own choice.
        ours: arms that answer a question which the paper leaves open.
        cells: settings that all arms have in common, where they are compared under several
            conditions; with more than one the page is a map.
        beside: it has no page of its own: others show it.
        alone: its runs measure times, on a machine that does nothing else.
        drawn: names under which arms are drawn whose own say something else elsewhere.
        round: of the protocol.
    """

    name: str
    title: str
    notebook: str
    arms: Arms
    seeds: tuple[int, ...] = SEEDS
    profiles: tuple[str, ...] = ("nano-steady",)
    proposed: str = ""
    ours: tuple[str, ...] = ()
    cells: tuple[Mapping[str, Any], ...] = ()
    beside: bool = False
    alone: bool = False
    drawn: Mapping[str, str] = field(default_factory=dict)
    round: int = 1


SHORT: Mapping[str, Any] = {
    "train_limit": 48,
    "steps": 64,
    "eval_every": 16,
    "small_eval_every": None,
    "eval_other_temperatures": (),
    "test_limit": 120,
}
"""Nearly three passes over 48 problems: so few that a prompt comes again, as in papers' epochs."""
RATES, LIMITS = (1e-4, 2e-4, 3.5e-4, 5e-4), ("50%", "75%", "100%", "150%")


def grid(
    rates: Sequence[float], limits: Sequence[int | str], diagonal: str | None = None
) -> tuple[Mapping[str, Any], ...]:
    """The cells of a grid of learning rates and limits, and those on its diagonal with a further
    model. Fewer updates than the profile's, and every evaluation on all problems: six with the
    first, at the profile's two lengths whatever the limit.
    """
    shared = {"steps": 320, "eval_every": 64, "small_eval_every": None}
    cells: list[Any] = [(rate, limit, {}) for limit in limits for rate in rates]
    if diagonal:
        cells += [(*at, {"model": diagonal}) for at in zip(rates, limits, strict=False)]
    return tuple(
        {**shared, "learning_rate": rate, "max_completion_length": limit, **model}
        for rate, limit, model in cells
    )


# Every 32 updates an evaluation on all problems at the deciding temperature alone, in place of
# small ones in between and of a second temperature: less time, and four in the last window.
_ROUND_2_EVALUATIONS: Mapping[str, Any] = {
    "eval_every": 32,
    "small_eval_every": None,
    "eval_other_temperatures": (),
}
CELLS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "short": (SHORT,),
    "grid": grid(RATES, LIMITS, "nano-m"),
    "round_2": (_ROUND_2_EVALUATIONS,),
}
"""By the name that rows give them."""


def _experiment(name: str, row: dict[str, Any]) -> Experiment:
    """A row as it stands in the file: ``every`` is of each arm, ``ours = "all"`` names all arms."""
    every = row.pop("every", {})
    arms = {arm: {**every, **own} for arm, own in row.pop("arms").items()}
    ours = row.pop("ours", ())
    if "seeds" in row:
        first, last = map(int, row.pop("seeds").split("-"))
        row["seeds"] = tuple(range(first, last + 1))
    if "cells" in row:
        row["cells"] = CELLS[row["cells"]]
    lists = {key: tuple(one) for key, one in row.items() if isinstance(one, list)}
    ours = tuple(arms) if ours == "all" else tuple(ours)
    return Experiment(name, arms=arms, ours=ours, **{**row, **lists})


_ALL = {
    name: _experiment(name, row) for name, row in rows_beside(__file__, "experiments.toml").items()
}
EXPERIMENTS = {name: one for name, one in _ALL.items() if one.round == 1}
ROUND_2 = {name: one for name, one in _ALL.items() if one.round == 2}
"""The blocks of round 2 in the order in which they are trained; :mod:`mcbench.claims.round_2` has
what they decide. They are no part of :data:`EXPERIMENTS`, whose pages and records are round 1's.
"""
REGISTERED = tuple(name for name, one in EXPERIMENTS.items() if one.seeds == RETRAINED)
"""Those that docs/protocol.md registers since round 1, on fresh seeds."""
ARMS: Mapping[str, Arms] = {name: one.arms for name, one in EXPERIMENTS.items()}
"""Of each experiment."""


def experiment_named(name: str) -> Experiment:
    """The experiment of that name, or the block of round 2.

    Raises:
        UserError: an unknown name; the message lists the known ones.
    """
    known = EXPERIMENTS | ROUND_2
    if name not in known:
        raise unknown("experiment", name, known)
    return known[name]


def check_claims() -> None:
    """Refuse claims, of a table of one's own, on what is no experiment or no arm of one.

    Raises:
        UserError: the claim, what it names, and what is allowed.
    """
    for one in CLAIMS.values():
        if one.experiment not in EXPERIMENTS:
            raise unknown(f"experiment of claim {one.id}", one.experiment, EXPERIMENTS)
        for arm in one.arms:
            if "/" in arm:
                arm_elsewhere(arm, f" in claim {one.id}")
            elif one.id not in OURS and arm not in (known := _claimable(one.experiment)):
                raise unknown(f"arm of claim {one.id}", arm, known)


def _claimable(experiment: str) -> list[str]:
    """An experiment's arms, and what our claims name in their place: generations of models."""
    named = (arm for one in claims_of(experiment) if one.id in OURS for arm in one.arms)
    return list(dict.fromkeys([*EXPERIMENTS[experiment].arms, *named]))


def arm_elsewhere(name: str, where: str = "") -> Arms:
    """The arm of another experiment that is named ``home/arm``.

    Raises:
        UserError: there is no such experiment, or no such arm of it.
    """
    home, _, arm = name.partition("/")
    if home not in EXPERIMENTS:
        raise unknown(f"experiment{where}", home, EXPERIMENTS)
    if arm not in EXPERIMENTS[home].arms:
        raise unknown(f"arm of {home}{where}", arm, EXPERIMENTS[home].arms)
    return {arm: EXPERIMENTS[home].arms[arm]}


def plan_runs(
    arms: Any,
    profiles: Sequence[str] = ("nano",),
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[PlannedRun]:
    """The runs of arms: seed by seed, so that the first seed of every arm comes first.

    Args:
        arms: as :func:`mcbench.experiments.arms.check_arms` takes them.
        settings: of every arm, for instance to shorten a trial; an arm's own go before them.

    Raises:
        UserError: an unknown profile, or arms or settings that do not fit.
    """
    arms = check_arms(arms)
    common = {**(settings or {}), **({} if steps is None else {"steps": steps})}
    for name in common:
        if all(name in own for own in arms.values()):
            raise UserError(
                f"{name}: every arm sets its own ({', '.join(arms)}), so one for all has no "
                "effect; give the arms themselves, each with its own"
            )
    configs = {
        (size, arm): arm_config(arm, own, size, common)
        for size in profiles
        for arm, own in arms.items()
    }
    runs = []
    for seed in _checked(seeds):
        for (size, arm), config in configs.items():
            text = arm if len(profiles) == 1 else f"{size} {arm}"
            one = config.model_copy(update={"seed": seed})
            runs.append(PlannedRun(arm, f"{text} seed {seed}", one))
    if not runs:
        raise UserError("nothing to run: seeds, profiles and arms need at least one entry each")
    return runs


def _checked(seeds: Any) -> list[int]:
    """Seeds, each once: a run given twice is no second seed."""
    if not isinstance(seeds, Iterable):
        raise UserError(f"seeds are a list such as [0, 1], got {seeds!r}")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise UserError(f"a seed must be a whole number from 0, got {seed!r}")
    return list(dict.fromkeys(seeds))


def planned_runs(
    name: str,
    profile: str | Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    arms: Arms | Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    cells: Sequence[Mapping[str, Any]] | None = None,
) -> list[PlannedRun]:
    """The runs of an experiment; where it has cells those of all of them, seed by seed.

    Args:
        profile: one profile or several; the experiment's own where None. ``seeds`` likewise.
        arms: names of some of its arms, or arms of one's own; all of its own where None.
        steps, settings: as for :func:`plan_runs`; they go before a cell's.
        cells: in place of the experiment's.

    Raises:
        UserError: an unknown experiment, profile or arm, or settings that do not fit.
    """
    experiment = experiment_named(name)
    profiles = [profile] if isinstance(profile, str) else list(profile or experiment.profiles)
    seeds = experiment.seeds if seeds is None else seeds
    chosen, runs = chosen_arms(experiment, arms), list[PlannedRun]()
    for cell in (experiment.cells if cells is None else cells) or ({},):
        planned = plan_runs(chosen, profiles, seeds, steps, {**cell, **(settings or {})})
        runs += [replace(one, label=f"{one.label}{_where(one.config, cell)}") for one in planned]
    return sorted(runs, key=lambda one: list(seeds).index(one.config.seed))


def _where(config: Config, cell: Mapping[str, Any]) -> str:
    """What tells a cell from the others; empty where there is one alone."""
    if not cell:
        return ""
    model = f" {config.model}" if "model" in cell else ""
    return f" at {config.learning_rate:g} x {config.max_completion_length}{model}"


def chosen_arms(experiment: Experiment, arms: Arms | Sequence[str] | None) -> Arms:
    """Arms as a caller names them: some of the experiment's by name, or a mapping of their own.

    Raises:
        UserError: an unknown name; the message lists the experiment's.
    """
    if arms is None:
        return experiment.arms
    if isinstance(arms, Mapping):
        return arms
    if isinstance(arms, str):
        raise UserError(f"arms must be a list of names or a mapping, got the text {arms!r}")
    for arm in arms:
        if arm not in experiment.arms:
            raise unknown(f"arm of experiment {experiment.name!r}", arm, experiment.arms)
    return {arm: experiment.arms[arm] for arm in arms}


def planned_of_all() -> list[PlannedRun]:
    """The runs that the committed pages rest on: those of all experiments but the ones that measure
    times. What is measured beside runs, or needs an idle machine, scripts in ``benchmarks/`` make.
    """
    return planned_together([name for name, one in EXPERIMENTS.items() if not one.alone])


def planned_together(names: Sequence[str], **options: Any) -> list[PlannedRun]:
    """The runs of several experiments, with the experiment in each label where there are several.

    Args:
        options: as for :func:`planned_runs`; ``arms`` only of a single experiment.

    Raises:
        UserError: as that function, or arms of several experiments.
    """
    names = list(dict.fromkeys(names))
    if options.get("arms") is not None and len(names) > 1:
        raise UserError(f"arms can be chosen for one experiment, got {', '.join(names)}")
    if len(names) == 1:
        return planned_runs(names[0], **options)
    return [
        PlannedRun(one.arm, f"{name} {one.label}", one.config)
        for name in names
        for one in planned_runs(name, **options)
    ]
