"""Where pages lie, and what ``mcbench report`` does: pages of a folder's records or of any runs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcbench.claims import read_measurements
from mcbench.claims.protocol import of_first_round
from mcbench.errors import UserError
from mcbench.experiments.calibration import CALIBRATION_FILE, CalibrationRecord
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.extras import shown_beside
from mcbench.experiments.regimes import FOLDER as PILOTS
from mcbench.experiments.study import OWN, Study, named_by_settings, studies
from mcbench.experiments.where import recorded
from mcbench.files import write_atomic
from mcbench.report.calibration import calibration_page
from mcbench.report.claims import (
    all_results,
    results_on,
    states_sentence,
    summary_lines,
    summary_section,
    verdicts,
)
from mcbench.report.experiment import experiment_page, known_of_round_1
from mcbench.report.landscape import landscape_section
from mcbench.report.page import Entry, Page, Place, build_index, write_page, write_plotly
from mcbench.report.provenance import runs_section
from mcbench.report.sections import SECTIONS
from mcbench.report.served import show_link
from mcbench.report.style import KNOWN
from mcbench.report.where import where_page
from mcbench.runs.compact import read_compact
from mcbench.runs.records import read_records, records_at
from mcbench.runs.store import RunRecord

PLOTLY = "assets/plotly.min.js"
INDEX = "index.html"


def command(notebook: str, **parameters: Any) -> str:
    """The shell line that runs a notebook with these parameters; those that are None are left."""
    words = ["mcbench", "run", f"notebooks/{notebook}"]
    for name, value in parameters.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            words += ["-p", name, shlex.quote(text)]
    return " ".join(words)


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
    unfinished(path).unlink(missing_ok=True)
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
    found = re.search(f'(id="plotly") src="{re.escape(PLOTLY)}"></script>', html)
    if found:
        script = page.parent / PLOTLY
        if not script.is_file():
            raise UserError(f"{page} needs {script}, which is missing; run mcbench report first")
        inside = f"{found[1]}>{script.read_text(encoding='utf-8')}</script>"
        html = html[: found.start()] + inside + html[found.end() :]
    html = re.sub('<nav class="site".*?</nav>', "", html, count=1, flags=re.S)  # not sent along
    write_atomic(output, html)
    return output.resolve()


def unfinished(report: Path) -> Path:
    """Where the page of a notebook lies that has not come to writing ``report``."""
    return report.with_name(f"{report.stem}.unfinished.html")


def is_site(path: str | Path) -> bool:
    """Whether a path is a folder of reports with its records."""
    return (Path(path) / "records").is_dir()


# A folder of reports -----------------------------------------------------------------------------


def build_site(folder: str | Path) -> list[Path]:
    """Rebuild the pages of a folder from ``records/``; the same records, the same bytes.

    The pages share one copy of plotly's script under ``assets/``. The index also lists the pages
    that notebooks wrote into the folder.

    Raises:
        UserError: the folder holds no records.
    """
    folder = Path(folder)
    kept = folder / "records"
    records = [read_compact(path) for path in sorted(kept.glob("*.parquet"))]
    if not records:
        raise UserError(f"{kept} holds no run records (*.parquet)")
    measurements = read_measurements(kept)
    found = {name: studies(name, records, measurements) for name in EXPERIMENTS}
    pages: dict[str, Page] = {}
    for name, experiment in EXPERIMENTS.items():
        if experiment.beside:
            continue
        if len(experiment.cells) > 1:  # the map
            if (where := recorded(records)) is not None:
                page = where_page(where, command(f"{experiment.notebook}.ipynb"))
                pages[f"{experiment.notebook}.html"] = page
        elif known := shown_sizes(name, found[name]):
            more = shown_beside(experiment, kept, found)
            page = experiment_page(known, reproduce(known, more), **more)
            pages[f"{experiment.notebook}.html"] = page
    calibration = kept / CALIBRATION_FILE
    if calibration.exists():
        found_pilots = [read_compact(path) for path in sorted((kept / PILOTS).glob("*.parquet"))]
        pages["10_nano_world.html"] = calibrated_page(
            CalibrationRecord.read(calibration), found_pilots
        )
    write_plotly(folder / PLOTLY)
    index = folder / INDEX
    others = [
        path
        for path in folder.glob("*.html")
        if path != index and path.name not in pages and not path.name.endswith(".unfinished.html")
    ]
    entries = [_entry(path) for path in others]
    entries += [Entry(name, page.title, page.finding) for name, page in pages.items()]
    entries.sort(key=lambda one: one.href)
    built = []
    neighbours = zip([None, *entries], entries, [*entries[1:], None], strict=False)
    for before, entry, after in neighbours:
        if entry.href in pages:
            place = Place(INDEX, before, after)
            path = folder / entry.href
            built.append(write_page(pages[entry.href], path, PLOTLY, place))
    results = all_results(found)
    html = build_index(
        entries,
        [summary_section(results), landscape_section(results), runs_section(records)],
        verdicts({name: one for name, one in results.items() if one.claim.whose == "paper"}),
        states_sentence(results),
        known_of_round_1(SECTIONS["index"], records),
    )
    write_atomic(index, html)
    return [index.resolve(), *built]


def shown_sizes(name: str, known: Sequence[Study]) -> list[Study]:
    """The sizes of an experiment that a page shows: of its own profiles those with two arms or
    more, of others those with half of the arms; fewer are there because another experiment trains
    them too. Not a first round of a model that its own profiles train.
    """
    experiment = EXPERIMENTS[name]
    half = len(experiment.arms) / 2
    own = [study for study in known if study.profile in experiment.profiles]
    trained = {record.config.model for study in own for record in study.records}

    def shown(study: Study) -> bool:
        if study.profile in experiment.profiles:
            return len(study.arms) >= 2
        before = of_first_round(study.records)
        again = before and trained.issuperset(one.config.model for one in study.records)
        return len(study.arms) >= max(2, half) and not again

    return [study for study in known if shown(study)]


def _entry(path: Path) -> Entry:
    """The index entry of a page that a notebook wrote, under the title that it gives itself."""
    title = re.search("<title>(.*?)</title>", path.read_text(encoding="utf-8"))
    return Entry(path.name, unescape(title[1]) if title else path.stem)


def reproduce(known: Sequence[Study], more: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The commands that run an experiment's notebook at the profiles of its studies, with the seeds
    that all arms have there, so that nothing is trained for it (all seeds, where they share none).
    """
    experiment = EXPERIMENTS[known[0].name]
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for study in known:
        by_arm = [{record.seed for record in runs} for runs in study.arms.values() if runs]
        seeds = tuple(sorted(set.intersection(*by_arm) or set.union(*by_arm)))
        by_seeds.setdefault(seeds, []).append(study.profile)
    data = more.get("data")
    planted = sorted(map(int, data.scores)) if data else None
    lines: list[str] = []
    for seeds, profiles in by_seeds.items():
        sizes: list[dict[str, Any]] = [{"profile": profile} for profile in profiles]
        if experiment.several:
            sizes = [{"profiles": profiles}]
        shared = {"seeds": seeds, "pool_seeds": planted}
        lines += [command(f"{experiment.notebook}.ipynb", **size, **shared) for size in sizes]
    return "\n".join(lines)


def calibrated_page(record: CalibrationRecord, pilots: Sequence[RunRecord] = ()) -> Page:
    """The page of a calibration, with the command that measures it again."""
    settings = {"profiles": list(record.profiles), "temperatures": list(record.temperatures)}
    again = command("10_nano_world.ipynb", **settings, seed=record.seed)
    return calibration_page(record, again, pilots)


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


def page_of_runs(names: Sequence[str], output: str | Path, single_file: bool = False) -> Path:
    """Write one page of any runs and records; returns its path.

    Raises:
        UserError: a path holds no run, or the runs recorded nothing yet.
    """
    single = " --single-file" if single_file else ""
    again = f"mcbench report {' '.join(map(str, names))} -o {output}{single}"
    page = experiment_page(comparison_of(read_records(*names)), again)
    return save(page, output, single_file)


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
    return summary_lines(results_on(read_records(*names), measurements))


def what_is_missing(folder: str | Path, runs_dir: str | Path, workers: int) -> list[str]:
    """What a folder of reports lacks, line by line."""
    from mcbench.experiments.complete import missing_of

    missing = missing_of(Path(folder) / "records", runs_dir)
    return [
        *(f"to train: {one.config.run_id}  {one.label}" for one in missing.plan.missing),
        *(f"to measure: {name}" for name in missing.measurements),
        *missing.plan.describe(workers),
    ]
