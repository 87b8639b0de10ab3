"""Figures that plotly accepts, drawn again and again, thinned, and followed by a FigureWidget."""

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import plotly.io
import pytest
from report.synthetic import make_record, make_records

from mcbench.report import encode, figures, panels
from mcbench.report.base import STEPS, Figure, role_of, seeds_of
from mcbench.report.dashboard.curves import draw
from mcbench.report.dashboard.live_figure import LiveFigure, thinned
from mcbench.report.encode import figure_spec
from mcbench.report.numbers import figure_table
from mcbench.report.series import arm_of, group_runs


def arms_of(seeds: int = 2) -> Any:
    return group_runs((arm_of(one), one) for one in make_records(seeds=seeds))["nano-s"]


def test_every_section_draws() -> None:
    for section in panels.SECTIONS:
        figures, missing = draw(section, arms_of(), 5)
        assert figures or missing
        for figure in figures.values():
            figure.plotly()


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


def test_columns_of_a_table_are_drawn() -> None:
    figure = Figure()
    figure.add("bar", x=pd.Series([1.0, 2.0]), y=pd.Series(["a", "b"]), orientation="h")
    json.dumps(figure_spec(figure))
    assert figure.plotly().data[0].y == ("a", "b")


def test_the_band_of_an_arm_with_a_shorter_seed_stays_whole() -> None:
    records = [make_record("grpo", 0, steps=60), make_record("grpo", 1, steps=20)]
    band, median, *_ = figures.length_spread("grpo", records).data
    assert not np.isnan(band["y"]).any()
    assert band["x"].max() == 19  # the last generation of both
    assert np.isnan(median["y"]).any()


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


def test_the_name_of_an_unfinished_run_moves_with_it() -> None:
    def drawn(steps: int) -> Any:
        record = make_record("grpo", 0, steps=40, state="running")
        return draw(
            "Learning", {"grpo": [replace(record, step_lines=record.step_lines[:steps])]}, 5
        )

    figure = LiveFigure(drawn(10)[0]["reward"])
    assert figure.data[2].name == "GRPO (unfinished, step 10 of 40)"
    assert figure.follow(drawn(20)[0]["reward"])
    assert figure.data[2].name == "GRPO (unfinished, step 20 of 40)"


def test_an_arm_without_chosen_runs_keeps_its_place_and_draws_nothing() -> None:
    arms = {**arms_of(), "grpo": []}
    figures, missing = draw("Learning", arms, 5)
    drawn = [trace["legendgroup"] for trace in figures["reward"].data]
    assert drawn == ["grpo_plus"] * 3 + ["microcoder"] * 3
    assert missing == []


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
