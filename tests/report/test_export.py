"""Executed notebooks become pages: in their order, the same bytes, also those that stopped."""

from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.report.export import page_of
from mcbench.report.page import build_page
from mcbench.report.site import notebook_page

FIGURE = (
    "import plotly.express as px\n"
    "print('trained </pre><script>alert(1)</script>')\n"
    "px.line(x=[1, 2, 3], y=[4.5, 5, None], title='a curve')"
)
DIE = "import os\nos.kill(os.getpid(), 9)"
CHECK = "from mcbench.experiments.notebook import check_injected\ngiven = check_injected()"


def notebook(folder: Path, *cells: str) -> str:
    made = new_notebook()
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "p", "language": "python"}
    first = new_code_cell(
        f"seeds = [0]\nruns_dir = {str(folder)!r}", metadata={"tags": ["parameters"]}
    )
    made.cells = [new_markdown_cell("# A title\n\nWhat it is."), first]
    made.cells += [new_code_cell(cell) for cell in cells]
    nbformat.write(made, folder / "demo.ipynb")
    return str(folder / "demo.ipynb")


def executed(*cells: Any) -> Any:
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "code":
            cell.execution_count = number
    return new_notebook(cells=list(cells))


def code(source: str = "x", tags: tuple[str, ...] = (), **data: Any) -> Any:
    outputs = [new_output("display_data", data=data)] if data else []
    return new_code_cell(source, outputs=outputs, metadata={"tags": [*tags]})


def html_of(*cells: Any) -> str:
    return build_page(page_of(executed(*cells)), "plotly.js")


def test_prose_and_outputs_stand_in_their_order_and_code_is_folded() -> None:
    cells = [
        new_markdown_cell("# Title\n\nOpening with *stress*."),
        new_markdown_cell("## First\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
        code("show(1)", **{"text/html": "<p>shown</p>"}),
        new_markdown_cell("## Second"),
        code("show(2)", **{"text/plain": "a <b> line"}),
    ]
    html = html_of(*cells)
    places = [html.index(word) for word in (
        "<h1>Title", "<em>stress</em>", "<main>", "<h2>First", "<td>1</td>", "<p>shown</p>",
        "<h2>Second", "a &lt;b&gt; line",
    )]  # fmt: skip
    assert places == sorted(places)
    assert '<details class="code"><summary>Code [1]</summary><pre>show(1)</pre>' in html
    assert 'href="#second">Second' in html


def test_what_is_for_the_keyboard_stands_folded_at_the_end() -> None:
    cells = [
        code("arms = {}", ("parameters",)),
        new_markdown_cell("## Watch", metadata={"tags": ["keyboard"]}),
        code("workbench()", ("keyboard",), **{"text/html": "<p>a form</p>"}),
        new_markdown_cell("## Accuracy"),
        code("show()"),
    ]
    html = html_of(*cells)
    assert "a form" not in html
    assert html.index("<h2>Accuracy") < html.index("arms = {}") < html.index("workbench()")
    assert "<h2>Watch" not in html


def test_markup_in_prose_and_in_printed_text_stays_text() -> None:
    cell = new_code_cell("1", outputs=[new_output("stream", name="stdout", text="<b>\x1b[1mx")])
    html = html_of(new_markdown_cell("# A\n\n<script>alert(1)</script>"), cell)
    assert "<script>alert" not in html
    assert "&lt;b&gt;x</pre>" in html


def test_a_notebook_that_was_not_executed_is_refused() -> None:
    with pytest.raises(UserError, match="no cell of this notebook was executed: run it first"):
        page_of(new_notebook(cells=[new_code_cell("1")]))


def test_no_notebook_and_no_json_are_errors_for_people(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        notebook_page(tmp_path / "absent.ipynb")
    (tmp_path / "x.ipynb").write_text("no json")
    with pytest.raises(UserError, match="is not a notebook"):
        notebook_page(tmp_path / "x.ipynb")


def test_papermill_and_then_a_page_twice_the_same_bytes(tmp_path: Path) -> None:
    path, pages = notebook(tmp_path, CHECK, FIGURE), []
    for name in ("one", "two"):
        out = tmp_path / f"{name}.ipynb"
        papermill.execute_notebook(path, str(out), {"seeds": [1, 2]}, progress_bar=False)
        assert main(["report", str(out), "-o", str(tmp_path / "page.html")]) == 0
        pages.append((tmp_path / "page.html").read_bytes())
    text = pages[0].decode()
    assert pages[0].replace(b"one.ipynb", b"") == pages[1].replace(b"two.ipynb", b"")
    assert text.count("<figcaption>a curve") == 1
    assert "mcbench run demo.ipynb -p seeds &#39;[1, 2]&#39;" in text
    assert "trained &lt;/pre&gt;" in text


@pytest.mark.slow
def test_a_killed_kernel_leaves_a_notebook_whose_page_says_where(tmp_path: Path) -> None:
    out = tmp_path / "out.ipynb"
    with pytest.raises(DeadKernelError):
        papermill.execute_notebook(
            notebook(tmp_path, "print('before')", DIE), str(out), progress_bar=False
        )
    page = notebook_page(out)
    assert page.name == "out.unfinished.html"
    html = page.read_text(encoding="utf-8")
    assert "the kernel died in it" in html
    assert "os.kill" in html
    assert "before" in html


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("1 / 0", "ZeroDivisionError"),
        pytest.param("raise SystemExit(0)", "SystemExit", marks=pytest.mark.slow),
        pytest.param(DIE, "the kernel running", marks=pytest.mark.slow),
    ],
)
def test_mcbench_run_names_the_page_of_what_there_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cell: str, reason: str
) -> None:
    out = tmp_path / "out.ipynb"
    (tmp_path / "out.html").write_text("of an earlier run")
    assert main(["run", notebook(tmp_path, FIGURE, cell), "-o", str(out)]) == 1
    page = tmp_path / "out.unfinished.html"
    assert f"report of what there was: {page}" in capsys.readouterr().err
    html = page.read_text(encoding="utf-8")
    assert reason in html
    assert "a curve" in html
    assert (tmp_path / "out.html").read_text() == "of an earlier run"


@pytest.mark.slow
def test_a_run_to_the_end_writes_the_page_and_removes_the_unfinished_one(tmp_path: Path) -> None:
    (tmp_path / "demo.unfinished.html").touch()
    folder = tmp_path / "in"
    folder.mkdir()
    path = notebook(folder, CHECK, "print('fine')")
    assert main(["run", path, "-p", "runs_dir", str(tmp_path)]) == 0
    assert sorted(one.name for one in tmp_path.glob("*.html")) == ["demo.html"]
    assert (tmp_path / "demo.ipynb").is_file()


@pytest.mark.slow
def test_wrong_input_leaves_no_page(tmp_path: Path) -> None:
    error = "from mcbench.errors import UserError\nraise UserError('no such arm')"
    assert main(["run", notebook(tmp_path, error), "-o", str(tmp_path / "o.ipynb")]) == 2
    assert list(tmp_path.glob("*.html")) == []
