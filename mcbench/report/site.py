"""Where pages and runs lie, and the pages under ``reports/`` rebuilt from the committed records."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.lab.compact import read_compact
from mcbench.lab.experiments import experiment_named
from mcbench.report.page import Entry, Page, build_index, write_page, write_plotly
from mcbench.report.provenance import arm_of
from mcbench.report.results import headline_of, results_page

PLOTLY = "assets/plotly.min.js"


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


def command(notebook: str, **parameters: Any) -> str:
    """The shell line that runs a notebook with these parameters; those that are None are left."""
    words = ["mcbench", "run", f"notebooks/{notebook}"]
    for name, value in parameters.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            words += ["-p", name, shlex.quote(text)]
    return " ".join(words)


def save(page: Page, path: str | Path) -> Path:
    """Write a page and return its absolute path.

    It is one file that holds everything, except in a folder of reports that has a shared copy of
    plotly's script: there it refers to that.
    """
    path = Path(path)
    return write_page(page, path, PLOTLY if (path.parent / PLOTLY).is_file() else None)


def _entry(path: Path, summary: str = "") -> Entry:
    """The index entry of a page, under the title that it gives itself."""
    title = re.search("<title>(.*?)</title>", path.read_text(encoding="utf-8"))
    return Entry(path.name, unescape(title[1]) if title else path.stem, summary)


def build_site(folder: str | Path) -> list[Path]:
    """Rebuild the pages of a folder from ``records/*.parquet``; the same records, the same bytes.

    The pages share one copy of plotly's script under ``assets/``. The index also lists the pages
    that notebooks wrote into the folder.

    Raises:
        UserError: the folder holds no records.
    """
    folder = Path(folder)
    files = sorted((folder / "records").glob("*.parquet"))
    if not files:
        raise UserError(f"{folder / 'records'} holds no run records (*.parquet)")
    wanted = experiment_named("results").arms
    records = [record for record in map(read_compact, files) if arm_of(record) in wanted]
    profiles = _unique([record.meta["config"]["profile"]["name"] for record in records])
    order = {name: index for index, name in enumerate(experiment_named("results").profiles)}
    profiles.sort(key=lambda name: order.get(name, len(order)))
    records.sort(key=lambda record: profiles.index(record.meta["config"]["profile"]["name"]))
    seeds = sorted(_unique([record.meta["seed"] for record in records]))
    write_plotly(folder / PLOTLY)
    reproduce = command("07_results.ipynb", profiles=profiles, seeds=seeds)
    page = write_page(results_page(records, reproduce), folder / "07_results.html", PLOTLY)
    index = folder / "index.html"
    others = sorted(set(folder.glob("*.html")) - {index, folder / page.name})
    entries = [_entry(page, headline_of(records)), *map(_entry, others)]
    index.write_text(build_index(entries), encoding="utf-8")
    return [index.resolve(), page]


def _unique(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
