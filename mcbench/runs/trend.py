"""T(D) by trend: short stretches of training, one at each temperature, and the choice among them.

A stretch is a run like any other, so that it is recorded, resumed and shared by the arms that have
it in common: the run itself at one constant temperature, with few updates and hardly any
evaluation. Before its first update and after its last one it measures the diversity of the same
prompts; :func:`mcbench.grpo.temperature.select_by_trend` has the rule.
"""

from __future__ import annotations

from mcbench.errors import UserError
from mcbench.grpo.temperature import Choice, select_by_trend
from mcbench.runs.canonical import DEFAULTS, STRETCH_SHARE
from mcbench.runs.config import Config
from mcbench.runs.store import RunStore


def stretches(config: Config) -> dict[float, Config]:
    """By temperature, the stretches that the choice of a run rests on; empty without one.

    Raises:
        UserError: a stretch is as long as the run.
    """
    if config.temperature_reading != "trend":
        return {}
    period = config.generation_period
    updates = config.temperature_stretch or round(STRETCH_SHARE * config.steps)
    steps = max(2, -(-updates // period)) * period  # whole generations: a trend needs two
    if steps >= config.steps:
        raise UserError(
            f"temperature_reading=trend: a stretch of {steps} updates at each temperature is no "
            f"shorter than the run's {config.steps}; give the run more steps, or set a smaller "
            "temperature_stretch"
        )
    few = {
        "temperature_reading": "initial",
        "temperature_stretch": None,
        "steps": steps,
        "eval_every": steps,
        "eval_attempts": 1,
        "eval_other_temperatures": (),
        "small_eval_every": None,
        "test_limit": 4,
    }
    return {
        t: config.with_settings({**few, "temperature": t, "temperature_grid": [t]})
        for t in config.temperature_grid or DEFAULTS["temperature_grid"]
    }


def choice_of(config: Config, store: RunStore) -> Choice:
    """What finished stretches say.

    Raises:
        UserError: a stretch is not finished.
    """
    before, after = {}, {}
    for t, stretch in stretches(config).items():
        run = store.run(stretch)
        if run.state != "finished":
            raise UserError(f"the stretch at T = {t:g} ({run.path}) is {run.state}, not finished")
        (before[t],) = run.meta["temperature_choice"]["measured"].values()
        after[t] = run.meta["diversity_at_end"]
    assert config.temperature_target_diversity is not None  # checked by the configuration
    return select_by_trend(before, after, config.temperature_target_diversity)


def as_chosen(config: Config, choice: Choice) -> Config:
    """The run at the chosen temperature, constant from its first update on."""
    return config.with_settings(
        {
            "temperature": choice.temperature,
            "temperature_target_diversity": None,
            "temperature_reading": "initial",
            "temperature_stretch": None,
        }
    )
