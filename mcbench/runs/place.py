"""Where a relative path of a notebook lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.files import unpack_json


def in_project(path: str | Path) -> Path:
    """A relative path, taken from the project's root.

    JupyterLab starts a notebook in the notebook's folder and papermill in the caller's; both must
    find the same runs. Outside a checkout the path stays relative to the working directory.
    """
    path = Path(path)
    if path.is_absolute():
        return path
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file() and (folder / "mcbench").is_dir():
            return folder / path
    return here / path


COMMITTED = Path("reports", "records")
"""The records that a checkout holds, below the project's root."""

RECORDS = "MCBENCH_RECORDS"
"""The environment variable that names another folder in their place."""


def committed_records() -> list[Path]:
    """The folder of committed records; none outside a checkout."""
    folder = Path(os.environ.get(RECORDS) or in_project(COMMITTED))
    return [folder] if folder.is_dir() else []


def committed_record(name: str) -> Any:
    """What was measured once and is kept as JSON beside the committed records, for the notebook
    that shows it; None where it is not there.

    Raises:
        UserError: the file is damaged.
    """
    path = next((one / name for one in committed_records() if (one / name).is_file()), None)
    try:
        return unpack_json(path) if path else None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
