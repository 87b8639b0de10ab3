"""Runs of a grid of conditions, with effects that can be worked out by hand."""

from typing import Any

import numpy as np
from cells import run_cells
from fake_runs import KINDS, LEVELS, PROBLEMS, make_record

from mcbench.claims.curves import PassRates, RunCurves
from mcbench.claims.protocol import MAP_SEEDS
from mcbench.errors import UserError
from mcbench.experiments.experiments import grid, planned_runs

NAME = "where_it_holds"
ARMS = {"none": {"recipe": "grpo_plus"}, "all": {"recipe": "deepcoder"}}


def plan(rates=(2e-4,), limits=("100%",), diagonal=None, seeds=MAP_SEEDS):
    """The runs of two arms in every cell."""
    return planned_runs(NAME, None, seeds, None, ARMS, cells=grid(rates, limits, diagonal))


NUMBERS = ("cell-04-2", "cell-04-3", "cell-04-4", "cell-06-pooled", "cell-06", "cell-04-5")
SHOWN = ("cell-08", "cell-08-2", "cell-08-3", "cell-06-2", "curves", "origin")


def maps_of(*grid, counted=lambda record: True) -> tuple[dict[str, Any], list[Any]]:
    """What the cells of notebook 12 make of :func:`records`, or of some of them, and show."""
    found = list(filter(counted, records(gains, *grid)))
    given = {"arms": ARMS, "planned": plan(*grid), "records": found, "UserError": UserError}
    return run_cells("12_where_it_holds", *NUMBERS, *SHOWN, **given)


def records(share, rates=(2e-4,), limits=("100%",), diagonal=None, seeds=MAP_SEEDS):
    """Finished runs whose pass@1 is 50 % throughout, and from half the training on that of a share
    of the problems (by ``share(config, arm)``) 75 %.
    """
    planned = plan(rates, limits, diagonal, seeds)
    steps = np.arange(0, 321, 64, dtype=float)
    found = []
    for one in planned:
        values = np.full((len(steps), len(PROBLEMS)), 50.0)
        values[3:, : round(share(one.config, one.arm) * len(PROBLEMS))] = 75.0
        table = PassRates(steps, PROBLEMS, values, LEVELS, KINDS)
        curves = RunCurves({}, dict.fromkeys([(96, 1.0), (192, 1.0)], table))
        found.append(make_record(curves, one.config))
    return found


def gains(config, arm):
    """25, 12.5 and 18.75 points by seed, at the lower learning rate alone."""
    gained = {30: 1.0, 31: 0.5, 32: 0.75}[config.seed]
    return gained if arm == "all" and config.learning_rate < 3e-4 else 0.0
