"""The live view above a cell that trains: JupyterLab's server serves it, so that it is there after
a reload and after a restart of the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from IPython.display import display

from mcbench.jupyter import address
from mcbench.report.dashboard.dashboard import Dashboard
from mcbench.report.dashboard.follower import Planned
from mcbench.report.dashboard.watch import write_view
from mcbench.report.display import KEY

_LOOK = "width: 100%; height: 720px; border: 0; resize: vertical"


def link_live(runs: Path, planned: Planned, records: Sequence[Path] = ()) -> None:
    """Below a dashboard of this kernel: where the same runs are shown without it, if they are."""
    if page := address(write_view(runs, planned, records)):
        link = f'<a href="{escape(page)}" target="_blank">These runs in a page of their own</a>'
        _show(f"<p>{link}, which needs no kernel.</p>", "")


def show_live(runs: Path, planned: Planned, records: Sequence[Path] = ()) -> None:
    """Show runs while they train; arguments as for :func:`write_view`.

    Where the server has no such pages (VS Code, an older JupyterLab that is still running), it is
    the dashboard of this kernel, which ends with it.
    """
    view = write_view(runs, planned, records)
    command = f"mcbench watch {os.path.relpath(view)}"
    if (page := address(view)) is None:
        display(Dashboard(runs, planned=planned, records=records))
        print(f"this view ends with the page; one that does not: {command}")
        return
    _show(
        f'<iframe src="{escape(page)}" title="Runs while they train" style="{_LOOK}"></iframe>'
        f'<p><a href="{escape(page)}" target="_blank">Open this view alone</a>; without '
        f"JupyterLab: <code>{escape(command)}</code></p>",
        f"a live view: {command}",
    )


def _show(html: str, told: str) -> None:
    """In this notebook, on no page."""
    display({"text/html": html, "text/plain": told}, metadata={KEY: {"live": True}}, raw=True)
