"""The notebook on data quality, from its first to its last cell on a small pool."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from mcbench.experiments.notebook import run_notebook

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "05_data_quality.ipynb"


def run(output: Path, parameters: dict[str, Any]) -> tuple[str, set[str]]:
    """All printed text, and the kinds of what was displayed."""
    run_notebook(NOTEBOOK, parameters, output)
    cells = nbformat.read(output, as_version=4).cells
    outputs = [out for cell in cells if cell.cell_type == "code" for out in cell.outputs]
    text = "".join(out.text for out in outputs if out.output_type == "stream")
    return text, {kind for out in outputs for kind in out.get("data", {})}


def test_data_quality_builds_trains_and_names_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    parameters = {
        "profile": "tiny",
        "steps": 2,
        "pool_size": 160,
        "workers": 1,
        "runs_dir": str(tmp_path / "runs"),
    }
    text, kinds = run(tmp_path / "out.ipynb", parameters)
    page = tmp_path / "runs" / "05_data_quality.html"
    assert f"report: {page}" in text
    assert "D1 inconclusive" in text
    assert "Harder set" in page.read_text(encoding="utf-8")
    assert "application/vnd.plotly.v1+json" in kinds
