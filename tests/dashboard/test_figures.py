"""Figures drawn as plain data, thinned, and followed by a FigureWidget."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from report.synthetic import make_records

from mcbench.report import base, panels
from mcbench.report.dashboard.curves import chosen_arms, draw
from mcbench.report.dashboard.live_figure import LiveFigure
from mcbench.report.dashboard.plain_figure import PlainFigure, thinned
from mcbench.report.provenance import group_runs


def arms_of(seeds: int = 2) -> Any:
    return group_runs(make_records(seeds=seeds))["nano-s"]


def test_plain_figures_are_the_reports_own() -> None:
    arms = arms_of(3)
    for name in ("reward", "lengths", "groups", "time", "accuracy"):
        drawn = panels.PANELS[name].draw(arms, 5)
        token = base.FIGURE.set(PlainFigure)
        plain = panels.PANELS[name].draw(arms, 5)
        base.FIGURE.reset(token)
        for one, other in zip(drawn, plain, strict=True):
            assert go.Figure(other.figure.data, other.figure.layout) == one.figure


def test_every_section_draws() -> None:
    for section in panels.SECTIONS:
        figures, missing = draw(section, arms_of(), 5)
        assert figures or missing
        for figure in figures.values():
            go.Figure(figure.data, figure.layout)


def test_a_live_figure_sends_only_what_changed() -> None:
    arms = arms_of()
    figure = LiveFigure(draw("Learning", arms, 5)[0]["reward"])
    sent: list[Any] = []
    figure._send_restyle_msg = lambda data, trace_indexes: sent.append((data, trace_indexes))
    assert figure.follow(draw("Learning", arms, 5)[0]["reward"])
    assert sent == []
    assert figure.follow(draw("Learning", arms, 9)[0]["reward"])
    ((data, indexes),) = sent
    assert indexes == [2, 5, 8]  # the means; two seeds have no band
    assert all(values.dtype == np.float32 for values in data["y"])
    # What a page that opens now gets is what was sent last.
    state = figure.get_state()["_widget_data"][2]["y"]["buffer"]
    np.testing.assert_array_equal(np.asarray(state), data["y"][0])
    fewer = {"grpo": arms["grpo"]}
    assert not figure.follow(draw("Learning", fewer, 9)[0]["reward"])


def test_an_arm_without_chosen_runs_keeps_its_place_and_draws_nothing() -> None:
    arms = arms_of()
    chosen = chosen_arms(arms, [arms["microcoder"][0].run_id])
    assert list(chosen) == list(arms)
    figures, _ = draw("Learning", chosen, 5)
    assert [trace["legendgroup"] for trace in figures["reward"].data] == ["microcoder"] * 3


def test_thinning_keeps_extremes_ends_and_gaps() -> None:
    x, y = np.arange(10_001.0), np.sin(np.arange(10_001.0))
    y[4000], y[7000] = 9.0, np.nan
    few_x, few_y = thinned(x, y, 500)
    assert few_x.size < 600
    assert few_y[np.flatnonzero(few_x == 4000)] == 9.0
    assert np.isnan(few_y[np.flatnonzero(few_x == 7000)])
    assert (few_x[0], few_x[-1]) == (0, 10_000)
    assert (np.diff(few_x) > 0).all()
    assert thinned(x, y, 20_000)[0] is x
