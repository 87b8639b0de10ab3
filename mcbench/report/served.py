"""Whether somebody looks at this notebook, and where JupyterLab serves the pages that it writes."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from urllib.parse import quote


def page_likely() -> bool:
    """Whether this process serves a notebook that somebody looks at.

    Jupyter's server and VS Code tell their kernels so; papermill and nbconvert start kernels of
    their own.
    """
    if "JPY_SESSION_NAME" in os.environ or "VSCODE_PID" in os.environ:
        return True
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and "__vsc_ipynb_file__" in shell.user_ns


def served_at(path: Path) -> str | None:
    """The address, without host, below which this kernel's JupyterLab serves a file; None where it
    does not, as files outside its root folder.
    """
    try:
        from jupyter_server.serverapp import list_running_servers
    except ImportError:
        return None
    for server in list_running_servers():
        root = Path(server["root_dir"]).resolve()
        if str(server["pid"]) == os.environ.get("JPY_PARENT_PID") and path.is_relative_to(root):
            return f"{server['base_url']}files/{quote(path.relative_to(root).as_posix())}"
    return None


def show_link(path: Path) -> None:
    """In a notebook that somebody looks at: a link that opens a page, on a remote server too."""
    if not page_likely():
        return
    from IPython.display import HTML, display

    if (address := served_at(path.resolve())) is None:
        told = f"{escape(path.name)} lies outside the folder that JupyterLab serves; <code>make lab"
        told += "</code> serves the whole project"
    else:
        told = f'<a href="{escape(address)}" target="_blank">Open {escape(path.name)}</a>'
    display(HTML(told))
