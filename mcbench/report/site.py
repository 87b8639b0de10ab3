"""Where pages lie, and what ``mcbench report`` does: the page of an executed notebook, of any runs,
and of every notebook of a folder of reports.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bs4 import BeautifulSoup

from mcbench.claims import CLAIMS, read_measurements
from mcbench.claims.protocol import SEEDS
from mcbench.errors import FailedError, UserError
from mcbench.experiments.experiments import EXPERIMENTS, planned_of_all
from mcbench.experiments.notebook import read_notebook, run_notebook
from mcbench.experiments.plan import make_plan
from mcbench.experiments.round_2 import outcomes, with_second_round
from mcbench.experiments.study import OWN, Study, named_by_settings, studies
from mcbench.files import write_atomic
from mcbench.report import claims, ends, round_2
from mcbench.report.any_runs import notebook_of
from mcbench.report.display import KEY
from mcbench.report.export import STOPPED, page_of
from mcbench.report.head import nothing_recorded
from mcbench.report.page import Ends, Entry, Page, Place, build_index, write_page
from mcbench.report.provenance import runs_section
from mcbench.report.rendering import plotly_script
from mcbench.report.served import show_link
from mcbench.report.sources import Sources
from mcbench.report.story import MAIN, story
from mcbench.report.style import KNOWN
from mcbench.runs.compact import read_compact
from mcbench.runs.place import RECORDS, in_project
from mcbench.runs.records import read_records, records_at
from mcbench.runs.store import RunRecord, RunStore

PLOTLY = "assets/plotly.min.js"
INDEX = "index.html"


# Files -------------------------------------------------------------------------------------------


def save(page: Page, path: str | Path, single_file: bool = False) -> Path:
    """Write a page and return its absolute path; in JupyterLab a link to it is shown.

    It is one file that holds everything, except in a folder of reports that has a shared copy of
    plotly's script, where it refers to that unless it is to be a ``single_file``.
    """
    path = Path(path)
    shared = (path.parent / PLOTLY).is_file() and not single_file
    place = Place(INDEX) if shared and (path.parent / INDEX).is_file() else None
    written = write_page(page, path, PLOTLY if shared else None, place)
    stopped_page(path).unlink(missing_ok=True)
    show_link(written)
    return written


def as_single_file(page: Path, output: Path) -> Path:
    """Copy a page that shares plotly's script into one file that holds it.

    Raises:
        UserError: there is no such page, or its script is not there.
    """
    if not page.is_file():
        raise UserError(f"there is no page {page}")
    html = page.read_text(encoding="utf-8")
    before, shared, after = html.partition(f' src="{PLOTLY}"></script>')
    if shared:
        script = page.parent / PLOTLY
        if not script.is_file():
            raise UserError(f"{page} needs {script}, which is missing; run mcbench report first")
        html = f"{before}>{script.read_text(encoding='utf-8')}</script>{after}"
    before, place, after = html.partition('<nav class="site"')  # what it leads to is not sent along
    write_atomic(output, before + after.partition("</nav>")[2] if place else html)
    return output.resolve()


def stopped_page(report: Path) -> Path:
    """Where the page of a notebook lies that has not come to writing ``report``."""
    return report.with_name(f"{report.stem}.unfinished.html")


def is_site(path: str | Path) -> bool:
    """Whether a path is a folder of reports with its records."""
    return (Path(path) / "records").is_dir()


# Executed notebooks ------------------------------------------------------------------------------


def notebook_page(
    notebook: str | Path, output: str | Path | None = None, single_file: bool = False,
    reason: str = "",
) -> Path:  # fmt: skip
    """Write the page of an executed notebook, beside it where no ``output`` is given; one that did
    not come to its end gets ``<name>.unfinished.html`` and leaves the page of an earlier run.

    Args:
        reason: why it did not, where only the caller knows.

    Raises:
        UserError: no notebook, or none of its cells was executed.
    """
    path = Path(notebook)
    read = read_notebook(path)
    target = Path(output) if output else path.with_suffix(".html")
    source = os.path.relpath(path.resolve(), target.resolve().parent)
    page = page_of(read, path.stem, source, reason)
    return save(page, stopped_page(target) if page.kicker == STOPPED else target, single_file)


# A folder of reports -----------------------------------------------------------------------------


def build_site(folder: str | Path) -> list[Path]:
    """Execute the project's notebooks from the records of a folder, and write their pages and the
    index; nothing is trained. The same records, the same bytes.

    The pages share one copy of plotly's script under ``assets/``. The index also lists pages that
    lie in the folder beside them.

    Raises:
        UserError: the folder holds no records, or the project's notebooks are not here.
    """
    folder = Path(folder).resolve()
    kept = folder / "records"
    records = [read_compact(path) for path in sorted(kept.glob("*.parquet"))]
    if not records:
        raise UserError(f"{kept} holds no run records (*.parquet)")
    measurements = read_measurements(kept)
    found = {name: studies(name, records, measurements) for name in EXPERIMENTS}
    pages = {path.stem: _executed(path, kept, folder) for path in _notebooks(found, kept)}
    write_atomic(folder / PLOTLY, plotly_script())
    index = folder / INDEX
    others = [
        path
        for path in folder.glob("*.html")
        if path != index and path.stem not in pages and not path.name.endswith(".unfinished.html")
    ]
    entries = [_entry(path) for path in others]
    entries += [
        Entry(f"{name}.html", page.title, first_of(page.summary)) for name, page in pages.items()
    ]
    entries.sort(key=lambda one: one.href)
    built = []
    neighbours = zip([None, *entries], entries, [*entries[1:], None], strict=False)
    for before, entry, after in neighbours:
        if (page := pages.get(Path(entry.href).stem)) is not None:
            place = Place(INDEX, before, after)
            built.append(write_page(page, folder / entry.href, PLOTLY, place))
    second = outcomes([kept])
    results = with_second_round(claims.all_results(found), second)
    own = {name: one for name, one in results.items() if one.claim.whose == "paper"}
    told = story(results)
    html = build_index(
        entries,
        [
            claims.summary_section(results),
            round_2.section(second, results),
            claims.landscape_section(results),
            runs_section(records),
        ],
        claims.verdicts(own, index=True),
        [*told[:1], *filter(None, [round_2.sentence(second)]), *told[1:]],
        _main_chart(found),
        any(record.seed in SEEDS for record in records),
    )
    write_atomic(index, html)
    return [index, *built]


def first_of(summary: str, most: int = 160) -> str:
    """A page's summary for the index: the first of its sentences, or what comes before a
    semicolon, where the whole is longer than ``most`` letters; before a colon where that is, too,
    and half as much comes before it.
    """
    if len(summary) <= most:
        return summary
    first = re.split(r"(?<=[^\d])\. |; ", summary, maxsplit=1)[0]
    before = first.split(": ", 1)[0]
    if len(first) > most and len(before) > most / 2:
        first = before
    return first.rstrip(".") + "."


def _main_chart(found: Mapping[str, Sequence[Study]]) -> Ends | None:
    """Where the arms end that the paper's main claim is about; None without runs of them."""
    study = next(iter(found[CLAIMS[MAIN].experiment]), None)
    length = ends.first_length(study.arms) if study else None
    return ends.chart(study.arms, length) if study and length is not None else None


def _notebooks(found: Mapping[str, Sequence[Study]], records: Path) -> list[Path]:
    """The notebooks of experiments of which half of the arms have runs, and those whose metadata
    say which records they need, where these are there.
    """
    folder = in_project("notebooks")
    if not folder.is_dir():
        raise UserError(
            f"the pages of a folder of reports are notebooks, and {folder} is not here: run this "
            "in a checkout of mcbench"
        )
    shown = {
        EXPERIMENTS[name].notebook
        for name, known in found.items()  # fewer arms are there because others train them too
        if any(len(one.arms) >= max(2, len(EXPERIMENTS[name].arms) / 2) for one in known)
    }
    every = sorted(folder.glob("[0-9]*.ipynb"))
    return [path for path in every if path.stem in shown or _has_its_records(path, records)]


def _has_its_records(notebook: Path, records: Path) -> bool:
    needs = read_notebook(notebook).metadata.get(KEY, {}).get("needs")
    return needs is not None and all((records / name).exists() for name in needs)


def _executed(notebook: Path, records: Path, folder: Path) -> Page:
    """The page of a notebook, executed on nothing but these records."""
    print(f"executing {notebook.name}", file=sys.stderr, flush=True)
    with ExitStack() as stack, _environment(records):
        kept = Path(tempfile.mkdtemp(prefix="mcbench-"))
        stack.callback(shutil.rmtree, kept)
        output = kept / notebook.name
        given = {"train": False, "runs_dir": str(kept / "runs")}
        try:
            run_notebook(notebook, given, output, quiet=True)
        except FailedError as error:
            stack.pop_all()  # the message names the copy that failed
            raise UserError(f"no page of {notebook.name}: {error}") from error
        return page_of(
            read_notebook(output), notebook.stem, os.path.relpath(notebook.resolve(), folder)
        )


@contextmanager
def _environment(records: Path) -> Iterator[None]:
    """The kernels that are started inside read these records."""
    before = os.environ.get(RECORDS)
    os.environ[RECORDS] = str(records)
    try:
        yield
    finally:
        if before is None:
            del os.environ[RECORDS]
        else:
            os.environ[RECORDS] = before


def _entry(path: Path) -> Entry:
    """The index entry of any other page, under the title that it gives itself."""
    title = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").title
    return Entry(path.name, title.get_text() if title else path.stem)


# Any runs ----------------------------------------------------------------------------------------


def comparison_of(records: Sequence[RunRecord]) -> list[Study]:
    """Any runs as comparisons, one a profile: arms named by recipe and what differs from it, GRPO,
    GRPO+ and MicroCoder-GRPO first.
    """
    order = {arm: place for place, arm in enumerate(KNOWN)}
    by_profile: dict[str, list[RunRecord]] = {}
    for record in sorted(records, key=lambda one: (order.get(one.config.recipe, 99), one.seed)):
        by_profile.setdefault(record.config.profile, []).append(record)
    return [Study(OWN, profile, named_by_settings(found)) for profile, found in by_profile.items()]


def write_comparison(
    sources: Sources, call: str, output: str | Path, single_file: bool = False
) -> Path:
    """Write one page of a comparison; returns its path.

    Raises:
        UserError: the runs recorded nothing yet.
    """
    if nothing_recorded(sources.studies):
        raise UserError("the runs recorded no step and no evaluation yet: there is nothing to show")
    return save(page_of(notebook_of(sources, call)), output, single_file)


def page_of_runs(names: Sequence[str], output: str | Path, single_file: bool = False) -> Path:
    """Write one page of any runs and records; returns its path.

    Raises:
        UserError: a path holds no run, or the runs recorded nothing yet.
    """
    single = " --single-file" if single_file else ""
    again = f"mcbench report {' '.join(map(str, names))} -o {output}{single}"
    found = comparison_of(read_records(*names))
    return write_comparison(Sources(found, found[0]), again, output, single_file)


def claims_table(names: Sequence[str | Path]) -> list[str]:
    """The table of all claims on some records, or on those of a folder of reports, as lines.

    Raises:
        UserError: a path holds no run.
    """
    if len(names) == 1 and is_site(names[0]):
        names = [Path(names[0]) / "records"]
    folders = [Path(name) for name in names if Path(name).is_dir()]
    measurements = [row for folder in folders for row in read_measurements(folder)]
    count = sum(len(records_at(Path(name))) for name in names)
    print(f"reading {count} records", file=sys.stderr, flush=True)
    second = outcomes(folders)
    results = with_second_round(claims.results_on(read_records(*names), measurements), second)
    return [*claims.summary_lines(results), "", *round_2.lines(second, results)]


def what_is_missing(folder: str | Path, runs_dir: str | Path, workers: int) -> list[str]:
    """What a folder of reports lacks, line by line."""
    # A finished run is no record yet: the plan counts it as finished, and its record is written.
    plan = make_plan(planned_of_all(), RunStore(runs_dir), [Path(folder) / "records"])
    return [
        *(f"to train: {one.config.run_id}  {one.label}" for one in plan.missing),
        *plan.describe(workers),
    ]
