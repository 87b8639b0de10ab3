"""Still pictures of figures: whole, to scale, with a legend, of every kind of trace."""

import re
from xml.etree import ElementTree

import nbformat
import numpy as np
import plotly.express as px
import plotly.io as pio
import pytest
from mcbench.report.picture import Axis, picture
from nbconvert import HTMLExporter

from mcbench.report.base import Figure
from mcbench.report.experiment import block_of
from mcbench.report.page import Panel
from mcbench.report.panels import PANELS
from mcbench.report.sources import Sources

from .made import study

MIME = "application/vnd.plotly.v1+json"
SPACE = "{http://www.w3.org/2000/svg}"


def drawn(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(picture(figure.data, figure.layout))


def test_a_line_is_drawn_to_scale_with_gaps() -> None:
    figure = Figure(layout={"yaxis": {"range": [0, 10]}, "xaxis": {"range": [0, 4]}})
    figure.add("scatter", x=[0, 2, 3, 4], y=[0, 5, None, 10], mode="lines", name="a")
    (path,) = [one for one in drawn(figure).iter(f"{SPACE}path") if one.get("fill") == "none"]
    # Left 62, width 684, bottom 320 - 50 = 270, height 226.
    assert path.get("d") == "M62.0,270.0L404.0,157.0M746.0,44.0"


def test_bars_start_at_zero_and_stand_beside_each_other() -> None:
    figure = Figure()
    for name, values in (("a", [1.0, 2.0]), ("b", [3.0, 4.0])):
        figure.bars(name, ["x", "y"], values, "#123456", "")
    bars = [one for one in drawn(figure).iter(f"{SPACE}rect") if one.get("fill") == "#123456"]
    heights = [float(one.get("height", "")) for one in bars[:4]]
    assert heights[1] / heights[0] == pytest.approx(2, rel=0.01)
    lefts = [float(one.get("x", "")) for one in bars[:4]]
    assert lefts[0] < lefts[2] < lefts[1] < lefts[3]


def test_ticks_are_round() -> None:
    assert [text for _, text in Axis(0, 160, 0, 100).ticks()] == ["0", "50", "100", "150"]
    assert Axis(-0.5, 1.5, 0, 100, ["a", "b"]).ticks() == [(25.0, "a"), (75.0, "b")]


@pytest.mark.parametrize("name", ["truncation_mask", "code_evaluator"])
def test_every_figure_of_a_page_has_a_picture(name: str) -> None:
    made = study(name, seeds=2)
    count = 0
    for panel in PANELS:
        block = block_of(Sources([made], made), panel, "p")
        for plot in block.plots if isinstance(block, Panel) else ():
            text = picture(plot.figure.data, plot.figure.layout)
            assert "nan" not in re.sub(">[^<]*<", "><", text)
            assert ElementTree.fromstring(text).find(f".//{SPACE}text") is not None
            count += 1
    assert count > 8


def test_a_figure_in_a_notebook_is_drawn_where_no_script_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pio.renderers, "_default_name", pio.renderers.default)
    monkeypatch.setattr(pio.renderers, "_default_renderers", [])
    pio.renderers.default = "plotly_mimetype"  # as in a kernel
    figure = Figure(layout={"title": {"text": "a <b> figure"}})
    figure.add("scatter", x=[1, 2], y=[3, 4], name="a")
    figure.plotly()  # the first one of a session
    bundles = [figure._repr_mimebundle_(), px.line(x=[1, 2], y=[3, 4])._repr_mimebundle_()]
    outputs = [nbformat.v4.new_output("display_data", data=bundle) for bundle in bundles]
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    html, _ = HTMLExporter(template_name="basic").from_notebook_node(
        nbformat.v4.new_notebook(cells=[cell])
    )
    assert html.count('src="data:image/svg+xml;base64,') == 2
    assert all(MIME in bundle for bundle in bundles)


def test_a_figure_of_plotlys_own_is_drawn_too() -> None:
    made = px.line(x=np.arange(3), y=np.array([1.0, 2.0, 4.0])).to_dict()
    assert picture(made["data"], made["layout"]).count("<path") == 1
