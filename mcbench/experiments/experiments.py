"""Experiments: arms, profiles and seeds, planned as runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mcbench.claims.protocol import (
    MAP_SEEDS,
    ROUND_2_EVALUATOR,
    ROUND_2_SEEDS,
    SEEDS,
)
from mcbench.errors import UserError, unknown
from mcbench.experiments.arms import (
    ARMS,
    CORRECTION,
    ROUND_2_ARMS,
    SEARCH,
    TIMING,
    Arms,
    arm_config,
    check_arms,
)
from mcbench.runs.config import Config
from mcbench.scale.sweep import PlannedRun

LANDSCAPE_SEEDS = (30, 31, 32, 33, 34)
THREE = (0, 1, 2)


@dataclass(frozen=True)
class Experiment:
    """Arms by name, the profiles (sizes) they are trained at, and the seeds of the full run: the
    protocol's where nothing else is said.

    ``notebook`` is the name of its notebook and page, without the ending. ``ours`` names the arms
    that answer a question which the paper leaves open. What is ``beside`` others has no page of its
    own: theirs show it. The notebook of ``several`` takes several profiles at once.
    ``cells`` are settings that all arms have in common, where they are compared under several
    conditions.
    """

    name: str
    title: str
    notebook: str
    seeds: tuple[int, ...] = SEEDS
    profiles: tuple[str, ...] = ("nano-steady",)
    ours: tuple[str, ...] = ()
    beside: bool = False
    several: bool = False
    cells: tuple[Mapping[str, Any], ...] = ()

    @property
    def arms(self) -> Arms:
        """The paper's arms and ours, as data."""
        return ARMS[self.name] if self.name in ARMS else ROUND_2_ARMS[self.name]


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
    cells = [
        {**shared, "learning_rate": rate, "max_completion_length": limit}
        for limit in limits
        for rate in rates
    ]
    if diagonal:
        cells += [
            {**shared, "learning_rate": rate, "max_completion_length": limit, "model": diagonal}
            for rate, limit in zip(rates, limits, strict=False)
        ]
    return tuple(cells)


EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        Experiment(
            "cross_model",
            "Fig. 1: two model generations",
            "01_cross_model",
        ),
        Experiment(
            "truncation_mask",
            "Fig. 2: which truncated responses are masked",
            "02_truncation_mask",
            ours=("when_correct", "when_non_incorrect"),
        ),
        Experiment(
            "temperature",
            "Fig. 3: constant, staged, ramped and chosen temperature",
            "03_temperature",
        ),
        Experiment(
            "kl_and_clip",
            "Fig. 4: KL term and upper clip",
            "04_kl_and_clip",
            profiles=("nano-clip", "nano-steady"),
            ours=("kl_high_clip", "no_kl_low_clip"),
        ),
        Experiment(
            "data_quality",
            "Fig. 5: training on a harder and on an easier set of equal size",
            "05_data_quality",
        ),
        Experiment(
            "code_evaluator",
            "Fig. 6: training under MicroCoder-Evaluator's rules and under LiveCodeBench's",
            "06_code_evaluator",
        ),
        # One run after another on a machine that does nothing else.
        Experiment(
            TIMING,
            "Fig. 6, right: a training step with three evaluators",
            "06_code_evaluator",
            THREE,
            ("nano",),
            beside=True,
        ),
        Experiment(
            "results",
            "Fig. 7 and Table 1: three recipes, two model sizes",
            "07_results",
            profiles=("nano-steady", "nano-steady-m"),
            ours=("grpo_per_response",),
            several=True,
        ),
        Experiment(
            "batch_size",
            "Fig. 8: problems a generation at one mini batch",
            "08_batch_size",
        ),
        Experiment(
            "context_length",
            "Fig. 9: maximum response length and its extension",
            "09_context_length",
            ours=("short_masked",),
        ),
        Experiment(
            CORRECTION,
            "What the correction for a noisy sampler leaves of long responses",
            "02_truncation_mask",
            THREE,
            ("nano",),
            ours=tuple(ARMS[CORRECTION]),
            beside=True,
        ),
        Experiment(
            "doses",
            "How much of a mask, of a KL term, and no upper clip",
            "13_doses",
            ours=tuple(ARMS["doses"]),
        ),
        Experiment(
            "rivals",
            "What other papers do instead",
            "11_rivals",
        ),
        Experiment(
            "dense_rewards",
            "Denser rewards than 1 or 0: CodeRL, RLTF, PPOCoder, StepCoder",
            "20_dense_rewards",
            LANDSCAPE_SEEDS,
            ("nano-branches",),
        ),
        Experiment(
            "recipes",
            "Whole recipes: DeepCoder, Polaris, SRPO and DAPO beside MicroCoder-GRPO",
            "25_recipes",
            MAP_SEEDS,
            ("nano-steady", "nano-stress"),
            several=True,
            cells=(SHORT,),
        ),
        Experiment(
            "where_it_holds",
            "Masks and T(D) over learning rate and limit",
            "12_where_it_holds",
            MAP_SEEDS,
            ours=tuple(ARMS["where_it_holds"]),
            cells=grid(RATES, LIMITS, "nano-m"),
        ),
        Experiment(
            "repair",
            "Landscape: repair, by similarity and by tests",
            "21_repair",
            LANDSCAPE_SEEDS,
            ("nano-repair",),
        ),
        Experiment(
            "execution_traces",
            "Landscape: what programs do, line by line",
            "22_execution_traces",
            LANDSCAPE_SEEDS,
            ("nano-traces",),
        ),
        Experiment(
            "multi_turn",
            "Landscape: attempts with feedback, and how old the sampling policy may be",
            "23_multi_turn",
            LANDSCAPE_SEEDS,
            ("nano-turns",),
        ),
        Experiment(
            SEARCH,
            "Landscape: a sub-agent that searches a repository",
            "23_multi_turn",
            LANDSCAPE_SEEDS,
            ("nano-search",),
            beside=True,
        ),
        Experiment(
            "online_feedback",
            "Landscape: what users accept",
            "24_online_feedback",
            LANDSCAPE_SEEDS,
            ("nano-tab",),
        ),
    )
}


# Every 32 updates an evaluation on all problems at the deciding temperature alone, in place of
# small ones in between and of a second temperature: less time, and four in the last window.
_ROUND_2_EVALUATIONS: Mapping[str, Any] = {
    "eval_every": 32,
    "small_eval_every": None,
    "eval_other_temperatures": (),
}


def _block(name: str, title: str, notebook: str, seeds: Sequence[int], profile: str) -> Experiment:
    cells = (_ROUND_2_EVALUATIONS,)
    return Experiment(name, title, notebook, tuple(seeds), (profile,), beside=True, cells=cells)


ROUND_2: dict[str, Experiment] = {
    one.name: one
    for one in (
        _block(
            "round_2_averaging",
            "Averaging of the loss by KL, clip and mask",
            "07_results",
            ROUND_2_SEEDS,
            "nano-steady",
        ),
        _block(
            "round_2_kl",
            "The KL term, clamped and not, where the clip acts",
            "04_kl_and_clip",
            ROUND_2_SEEDS,
            "nano-clip",
        ),
        _block(
            "round_2_limits",
            "Half, three quarters and all of the limit",
            "09_context_length",
            ROUND_2_SEEDS,
            "nano-steady",
        ),
        _block(
            "round_2_falls",
            "Falls, in the regime made for them",
            "02_truncation_mask",
            ROUND_2_SEEDS,
            "nano-stress",
        ),
        _block(
            "round_2_evaluator",
            "Training under either set of rules",
            "06_code_evaluator",
            ROUND_2_EVALUATOR,
            "nano-steady",
        ),
    )
}
"""The blocks of round 2 in the order in which they are trained; :mod:`mcbench.claims.round_2` has
what they decide. They are no part of :data:`EXPERIMENTS`, whose pages and records are round 1's.
"""


def experiment_named(name: str) -> Experiment:
    """The experiment of that name, or the block of round 2.

    Raises:
        UserError: an unknown name; the message lists the known ones.
    """
    known = EXPERIMENTS | ROUND_2
    if name not in known:
        raise unknown("experiment", name, known)
    return known[name]


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
        (size, arm): arm_config(arm, own, size, 0, common)
        for size in profiles
        for arm, own in arms.items()
    }
    runs = []
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise UserError(f"a seed must be a whole number from 0, got {seed!r}")
        for (size, arm), config in configs.items():
            text = arm if len(profiles) == 1 else f"{size} {arm}"
            one = config.model_copy(update={"seed": seed})
            runs.append(PlannedRun(arm, f"{text} seed {seed}", one))
    if not runs:
        raise UserError("nothing to run: seeds, profiles and arms need at least one entry each")
    return runs


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
