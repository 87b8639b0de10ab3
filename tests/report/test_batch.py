"""Notebooks that do not come to their end leave a page that says where and why; real kernels."""

from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbclient.exceptions import DeadKernelError

from mcbench.cli import main

BEGIN = "from mcbench.report.batch import begin\npath = begin('demo.html')"
FIGURE = (
    "import plotly.graph_objects as go\n"
    "print('trained </pre><script>alert(1)</script>')\n"
    "go.Figure(go.Scatter(x=[1, 2, 3], y=[4, 5, 6]), {'title': {'text': 'a curve'}})"
)
DIE = "import os\nos.kill(os.getpid(), 9)"
SAVE = "from mcbench.report import page, site\nsite.save(page.Page('done', 'k', 'l', []), path)"


def notebook(folder: Path, *cells: str) -> str:
    made = nbformat.v4.new_notebook()
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "p", "language": "python"}
    tags = {"tags": ["parameters"]}
    first = nbformat.v4.new_code_cell(f"seeds = [0]\nruns_dir = {str(folder)!r}", metadata=tags)
    made.cells = [first, *(nbformat.v4.new_code_cell(cell) for cell in cells)]
    nbformat.write(made, folder / "demo.ipynb")
    return str(folder / "demo.ipynb")


def plain(path: str, **parameters: Any) -> None:
    papermill.execute_notebook(path, f"{path}.out.ipynb", parameters, progress_bar=False)


def stopped(folder: Path) -> str:
    return (folder / "demo.unfinished.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_plain_papermill_leaves_a_page_with_what_was_computed(tmp_path: Path) -> None:
    with pytest.raises(papermill.PapermillExecutionError):
        plain(notebook(tmp_path, BEGIN, FIGURE, "1 / 0"), seeds=[1, 2])
    html = stopped(tmp_path)
    assert "failed with ZeroDivisionError: division by zero" in html
    assert "1 / 0" in html
    assert "a curve" in html
    assert "trained &lt;/pre&gt;" in html
    assert "alert(1)</script>" not in html
    assert "1, 2" in html  # the parameters


def test_a_figure_that_displays_itself_is_shown_once_and_kept(tmp_path: Path) -> None:
    line = "import plotly.express as px\npx.line(x=[1, 2], y=[3, 4], title='a line')"
    path = notebook(tmp_path, BEGIN, line)
    plain(path)
    outputs = nbformat.read(f"{path}.out.ipynb", as_version=4).cells[-1].outputs
    assert [one.output_type for one in outputs] == ["display_data"]
    with pytest.raises(papermill.PapermillExecutionError):
        plain(notebook(tmp_path, BEGIN, line, "1 / 0"))
    assert stopped(tmp_path).count("<figcaption>a line") == 1


@pytest.mark.slow
def test_the_cell_that_begins_is_watched_too(tmp_path: Path) -> None:
    with pytest.raises(papermill.PapermillExecutionError):
        plain(notebook(tmp_path, f"{BEGIN}\nprint('step 1 of 2')\nraise MemoryError('full')"))
    html = stopped(tmp_path)
    assert "failed with MemoryError: full" in html
    assert "step 1 of 2" in html


@pytest.mark.slow
def test_a_killed_kernel_leaves_the_page_of_the_cell_that_ran(tmp_path: Path) -> None:
    with pytest.raises(DeadKernelError):
        plain(notebook(tmp_path, BEGIN, "print('before')", DIE))
    html = stopped(tmp_path)
    assert "the kernel died in it" in html
    assert "os.kill" in html
    assert "before" in html


@pytest.mark.slow
def test_saving_the_report_removes_the_page_of_an_unfinished_notebook(tmp_path: Path) -> None:
    plain(notebook(tmp_path, BEGIN, "print('fine')", SAVE))
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["demo.html"]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("1 / 0", "ZeroDivisionError"),
        pytest.param("raise SystemExit(0)", "SystemExit", marks=pytest.mark.slow),
        pytest.param(DIE, "the kernel running", marks=pytest.mark.slow),
    ],
)
def test_mcbench_run_names_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cell: str, reason: str
) -> None:
    path = notebook(tmp_path, FIGURE, cell)  # even where the notebook itself does nothing for it
    assert main(["run", path, "-o", str(tmp_path / "out.ipynb")]) == 1
    assert (
        f"report of what there was: {tmp_path / 'demo.unfinished.html'}" in capsys.readouterr().err
    )
    html = stopped(tmp_path)
    assert reason in html
    assert "a curve" in html


@pytest.mark.slow
def test_wrong_input_leaves_no_page(tmp_path: Path) -> None:
    error = "from mcbench.errors import UserError\nraise UserError('no such arm')"
    assert main(["run", notebook(tmp_path, BEGIN, error), "-o", str(tmp_path / "o.ipynb")]) == 2
    assert list(tmp_path.glob("*.html")) == []
