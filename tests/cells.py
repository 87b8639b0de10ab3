"""Cells of the notebooks, run by themselves on made runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from mcbench.report import display

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def run_cells(notebook: str, *ids: str, **given: Any) -> tuple[dict[str, Any], list[Any]]:
    """The names that cells leave, given some, and what they show."""
    cells = {one.id: one for one in nbformat.read(NOTEBOOKS / f"{notebook}.ipynb", 4).cells}
    outputs: list[display.Output] = []
    names = dict(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            display, "show", lambda *a, **kw: outputs.extend(display.outputs_of(*a, **kw))
        )
        for one in ids:
            exec(compile(cells[one].source, f"{notebook}, {one}", "exec"), names)
    return names, outputs
