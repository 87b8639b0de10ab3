"""Notebooks in batch: parameters are checked, failures of every kind are reported."""

import contextlib
import re

import nbformat
import papermill
import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments.notebook import check_parameters, notebook_parameters

PARAMETERS = """\
profile: str = "nano"  # the scale
seeds = [0]
steps: int | None = None
rate = 0.5
fresh = False
"""


def write(path, *cells, parameters=PARAMETERS):
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "p", "language": "python"}
    first = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    notebook.cells = [first, *(nbformat.v4.new_code_cell(cell) for cell in cells)]
    nbformat.write(notebook, path)
    return str(path)


def test_parameters_are_found_also_with_annotations(tmp_path):
    found = notebook_parameters(write(tmp_path / "n.ipynb"))
    assert found == {"profile": "nano", "seeds": [0], "steps": None, "rate": 0.5, "fresh": False}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"seed": 1},
            "unknown notebook parameter 'seed'; did you mean seeds.*allowed: fresh, profile",
        ),
        ({"seeds": 1}, "'seeds' must be a list such as"),
        ({"profile": 1}, "'profile' must be a text such as 'nano'"),
        ({"fresh": 1}, "'fresh' must be true or false"),
        ({"rate": True}, "'rate' must be a number"),
        ({"steps": {"a": 1}}, "'steps' must be a whole number"),
        ({"steps": "40"}, "'steps' must be a whole number"),
        ({"seeds": [(1,)]}, "'seeds' must be JSON: a text, a number"),
        ({"seeds": "0,1"}, "'seeds' must be a list such as"),
    ],
)
def test_wrong_parameters_are_refused(tmp_path, given, message):
    defaults = notebook_parameters(write(tmp_path / "n.ipynb"))
    with pytest.raises(UserError, match=message):
        check_parameters(defaults, given)


def test_fitting_parameters_replace_defaults():
    assert check_parameters({"rate": 0.5, "steps": None}, {"rate": 1, "steps": 3}) == {
        "rate": 1,
        "steps": 3,
    }


def test_a_notebook_runs_shows_its_lines_and_keeps_its_parameters(tmp_path, capfd):
    path = write(tmp_path / "n.ipynb", "print('got', profile, seeds, steps, fresh)")
    output = tmp_path / "out" / "n.ipynb"
    status = main(["run", path, "-p", "seeds", "[1, 2]", "-p", "fresh", "true", "-o", str(output)])
    assert status == 0
    assert "got nano [1, 2] None True" in capfd.readouterr().out
    kept = nbformat.read(output, as_version=4).metadata["mcbench"]["parameters"]
    assert kept == {"profile": "nano", "seeds": [1, 2], "steps": None, "rate": 0.5, "fresh": True}


@pytest.mark.parametrize(
    ("cell", "status", "message"),
    [
        ("1 / 0", 1, "failed with ZeroDivisionError"),
        ("raise SystemExit(0)", 1, "SystemExit"),
        ("import os; os.kill(os.getpid(), 9)", 1, "the kernel running .* died"),
        ("from mcbench.errors import UserError; raise UserError('no such arm')", 2, "no such arm"),
    ],
)
def test_a_failing_notebook_says_how(tmp_path, capsys, cell, status, message):
    path = write(tmp_path / "n.ipynb", cell)
    output = tmp_path / "new" / "out.ipynb"
    assert main(["run", path, "-o", str(output)]) == status
    assert re.search(message, capsys.readouterr().err)
    assert output.parent.exists() == (status == 1)  # wrong input leaves nothing behind


CHECKED = (
    "from mcbench.experiments.notebook import check_injected; check_injected(); print('got', seeds)"
)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            {"seed": 1},
            "unknown notebook parameter 'seed'; did you mean seeds.*allowed: fresh, profile, rate",
        ),
        ({"seeds": 3}, "'seeds' must be a list such as"),
        ({"seeds": "[1, 2]", "fresh": True}, r"got \[1, 2\]"),  # as papermill's -p passes a list
        ({}, r"got \[0\]"),
    ],
)
def test_plain_papermill_is_checked_too(tmp_path, given, shown):
    output = tmp_path / "out.ipynb"
    with contextlib.suppress(papermill.PapermillExecutionError):
        papermill.execute_notebook(
            write(tmp_path / "n.ipynb", CHECKED), output, given, progress_bar=False
        )
    outputs = nbformat.read(output, as_version=4).cells[-1].outputs
    assert re.search(shown, "".join(out.get("text", out.get("evalue", "")) for out in outputs))
