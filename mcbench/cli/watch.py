"""``mcbench watch``: the live page of a folder of runs."""

from __future__ import annotations

from functools import partial

import click


@click.command()
@click.argument("runs", default="runs")
@click.option("--port", type=int, default=8866, show_default=True, help="0 takes a free one.")
@click.option("--socket", "unix_socket", hidden=True, help="A Unix socket to listen at instead.")
def watch(runs: str, port: int, unix_socket: str | None) -> None:
    """Show RUNS live in a browser: curves, progress and responses, without a notebook.

    It only reads, so it follows whatever writes into the folder: notebooks, papermill, sweeps, jobs
    of a cluster on a shared disk. From another machine: ssh -L 8866:127.0.0.1:8866 HOST
    """
    from pathlib import Path

    from mcbench.report.dashboard.server import serve
    from mcbench.runs.place import in_project
    from mcbench.scale.process import end_with_parent

    end_with_parent()  # where JupyterLab's server started it
    path = None if unix_socket is None else Path(unix_socket)
    serve(in_project(runs), port, path, partial(print, flush=True))
