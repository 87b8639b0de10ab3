"""Studies of experiments made by formula, with an effect in one of their claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from claims.effects import make_measurements, make_runs
from fake_runs import make_curves, make_record

from mcbench.claims import assess
from mcbench.experiments.experiments import EXPERIMENTS, planned_runs
from mcbench.experiments.study import Study
from mcbench.report.any_runs import notebook_of
from mcbench.report.export import page_of
from mcbench.report.head import head_of
from mcbench.report.page import Head, Page, build_page
from mcbench.report.sources import Sources
from mcbench.runs.store import RunRecord

EFFECTS = {
    "cross_model": "Q1",
    "truncation_mask": "M2",
    "temperature": "T7",
    "kl_and_clip": "K1",
    "data_quality": "D2",
    "code_evaluator": "E2",
    "results": "Q7",
    "batch_size": "B1",
    "context_length": "C2",
}
"""The claim in which an experiment's effect is planted."""


def study_of(
    name: str,
    runs: Mapping[str, Mapping[int, RunRecord]],
    measurements: Sequence[Mapping[str, Any]] = (),
) -> Study:
    """A study of an experiment that has these runs, by arm and seed."""
    arms = {arm: list(seeds.values()) for arm, seeds in runs.items()}
    return Study(name, "nano", arms, assess(name, runs, measurements), measurements)


def study(name: str, effect: int = 1, seeds: int = 3) -> Study:
    """An experiment with the arms of one of its claims."""
    return study_of(name, make_runs(EFFECTS[name], effect, seeds), make_measurements(effect, seeds))


def planned_records(name: str, seeds: Sequence[int] = (0,)) -> list[RunRecord]:
    """A finished run of every arm of an experiment, configured as the arm is defined."""
    one = EXPERIMENTS[name]
    usual = "nano" if {"nano", "nano-steady"} & {*one.profiles} else one.profiles[0]
    return [
        make_record(make_curves(planned.config, rng), planned.config)
        for planned in planned_runs(name, usual, seeds, cells=one.cells[:1])
        for rng in [np.random.default_rng([planned.config.seed, sum(map(ord, planned.arm))])]
    ]


def page_for(*studies: Study, call: str = "the call <x>", **beside: Any) -> Page:
    """The page of one comparison, a study a size."""
    return page_of(notebook_of(Sources(studies, studies[0], **beside), call))


def html_for(*studies: Study, script: str | None = "plotly.js", **given: Any) -> str:
    return build_page(page_for(*studies, **given), script)


def head_for(*studies: Study, **beside: Any) -> Head:
    return head_of(Sources(studies, studies[0], **beside))
