"""Figures that plotly accepts, and what a page keeps of them."""

import base64
import json
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import plotly.io
import pytest
from report.synthetic import make_record, make_records

from mcbench.report import encode, figures, panels
from mcbench.report.base import STEPS, Figure, role_of, seeds_of
from mcbench.report.encode import figure_spec
from mcbench.report.numbers import figure_table
from mcbench.report.series import arm_of, group_runs
from mcbench.report.style import arm_styles


def arms_of(seeds: int = 2) -> Any:
    return group_runs((arm_of(one), one) for one in make_records(seeds=seeds))["nano-s"]


def test_every_panel_draws() -> None:
    for kind in panels.PANELS.values():
        plots, _, missing = panels.drawn(kind, arms_of())
        assert plots or missing or kind.quiet
        for plot in plots:
            go.Figure(plot.figure.to_dict())


def test_an_arm_without_chosen_runs_keeps_its_place_and_draws_nothing() -> None:
    plots, *_ = panels.drawn(panels.PANELS["reward"], {**arms_of(), "grpo": []})
    found = [trace["legendgroup"] for trace in plots[0].figure.data]
    assert found == ["grpo_plus"] * 3 + ["microcoder"] * 3
    assert panels.left_out(plots) == ""


def test_figures_have_titles_of_their_own() -> None:
    one, other = figures.line(arms_of(), "reward"), figures.accuracy(arms_of(), 128)
    assert one.layout["xaxis"]["title"]["text"] == other.layout["xaxis"]["title"]["text"] == STEPS
    assert one.layout["yaxis"]["title"]["text"] == "Responses passing (%)"
    assert other.layout["yaxis"]["title"]["text"] == "pass@1 (%)"


def test_what_a_notebook_keeps_of_a_figure_can_be_read_and_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")  # as in a kernel
    figure = figures.line(arms_of(3), "reward")
    kept = json.loads(json.dumps(figure._repr_mimebundle_(), allow_nan=False))
    again = Figure(**{n: kept["application/vnd.plotly.v1+json"][n] for n in ("data", "layout")})
    assert again.layout["title"]["text"] == "Training reward"
    one, other = figure_table(figure), figure_table(again)
    np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=1e-5)
    curve = figure_spec(again)["data"][0]["curve"]
    assert curve["x"] == figure_spec(figure)["data"][0]["curve"]["x"]
    assert curve["t"] == pytest.approx(4.303, abs=1e-3)


def test_a_page_keeps_means_of_neighbours_where_a_figure_has_many_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = figures.line(arms_of(3), "reward")
    x, runs = seeds_of(figure.data[0])
    lines = sum(len(seeds_of(one)[1]) for one in figure.data if role_of(one) == "seeds")
    monkeypatch.setattr(encode, "VALUES", lines * (x.size // 2))
    monkeypatch.setattr(encode, "LEAST", 1)
    curve = figure_spec(figure)["data"][0]["curve"]
    first, gap, count = curve["x"]["evenly"]
    assert (first, gap, count) == (x[1], x[2] - x[0], x.size // 2)
    raw = np.frombuffer(base64.b64decode(curve["runs"]["u16"]), "<u2").reshape(len(runs), -1)
    kept = curve["runs"]["low"] + curve["runs"]["scale"] * raw
    means = runs.reshape(len(runs), -1, 2).mean(axis=2)
    np.testing.assert_allclose(kept, means, atol=curve["runs"]["scale"])


def test_one_huge_value_leaves_the_others_their_digits() -> None:
    values = np.array([0.18, 0.25, np.nan, *np.linspace(0.1, 0.3, 40), 9e6])
    (trace,) = figure_spec(Figure([{"type": "scatter", "y": values}], {}))["data"]
    kept = np.frombuffer(base64.b64decode(trace["y"]["f32"]), "<f4")
    np.testing.assert_allclose(kept, values, rtol=1e-6)


def test_columns_of_a_table_are_drawn() -> None:
    figure = Figure()
    figure.add("bar", x=pd.Series([1.0, 2.0]), y=pd.Series(["a", "b"]), orientation="h")
    json.dumps(figure_spec(figure))
    assert go.Figure(figure.to_dict()).data[0].y == ("a", "b")


def test_the_band_of_an_arm_with_a_shorter_seed_stays_whole() -> None:
    records = [make_record("grpo", 0, steps=60), make_record("grpo", 1, steps=20)]
    (plot,) = panels.PANELS["lengths"].draw({"grpo": records})
    band, median, *_ = plot.figure.data
    assert not np.isnan(band["y"]).any()
    assert band["x"].max() == 19  # the last generation of both
    assert np.isnan(median["y"]).any()


def test_a_reward_that_is_no_share_is_not_called_one() -> None:
    shares, means = (
        {"grpo": [make_record("grpo", 0, steps=20, settings={"reward": one})]}
        for one in ("tests", "outcomes")
    )
    found = [figures.line(arms, "reward") for arms in (shares, means)]
    told = ["Responses passing (%)", "Mean reward"]
    assert [one.layout["yaxis"]["title"]["text"] for one in found] == told
    values = [np.nanmax(seeds_of(one.data[0])[1]) for one in found]
    assert values[0] == pytest.approx(100 * values[1])


def test_a_figure_of_one_arm_has_its_colour() -> None:
    arms = {name: [make_record("grpo", 0, steps=20)] for name in ("mine", "other")}
    styles = arm_styles(arms)
    for arm, plot in zip(arms, panels.PANELS["lengths"].draw(arms), strict=True):
        drawn = {one.get("line", {}).get("color") for one in plot.figure.data}
        assert styles[arm].color in drawn


def test_what_nobody_asked_for_is_said_not_to_be_recorded_and_no_more() -> None:
    made = panels.panel("alarm", {"grpo": [make_record("grpo", 0, steps=20)]})
    assert (made.is_empty, made.prose) == (True, "")
    assert made.missing == "Not recorded: hacking alarm."
