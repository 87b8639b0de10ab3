"""Where pages and runs lie, and the pages under ``reports/`` rebuilt from the committed records."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any

from mcbench.claims import read_measurements
from mcbench.errors import UserError
from mcbench.experiments.arms import telling_changes
from mcbench.experiments.calibration import CALIBRATION_FILE, CalibrationRecord
from mcbench.experiments.code_evaluator import SUITE_FILE
from mcbench.experiments.data_quality import DATA_FILE
from mcbench.experiments.experiments import EXPERIMENTS, experiment_named
from mcbench.experiments.graded_sets import DataRecord
from mcbench.experiments.labelled import SuiteRecord
from mcbench.experiments.study import Study, study_of
from mcbench.files import plain
from mcbench.report.calibration import calibration_page
from mcbench.report.code_evaluator import code_evaluator_page
from mcbench.report.data_quality import data_quality_page
from mcbench.report.page import Entry, Page, build_index, data_table, write_page, write_plotly
from mcbench.report.provenance import configurations_table
from mcbench.report.results import headline_of, results_page
from mcbench.report.section import section_page, with_answers
from mcbench.report.sections import SECTIONS
from mcbench.report.verdicts import PAGES, insight_summary, summary_markup
from mcbench.runs.compact import read_compact
from mcbench.runs.place import in_project as in_project
from mcbench.runs.profiles import profile_named
from mcbench.runs.store import RunRecord

PLOTLY = "assets/plotly.min.js"


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
    written = write_page(page, path, PLOTLY if (path.parent / PLOTLY).is_file() else None)
    unfinished(path).unlink(missing_ok=True)
    return written


def single_file(page: Path, output: Path) -> Path:
    """Copy a page that shares plotly's script into one file that holds it.

    Raises:
        UserError: there is no such page, or its script is not there.
    """
    if not page.is_file():
        raise UserError(f"there is no page {page}")
    html = page.read_text(encoding="utf-8")
    shared = f'<script src="{PLOTLY}"></script>'
    if shared in html:
        script = page.parent / PLOTLY
        if not script.is_file():
            raise UserError(f"{page} needs {script}, which is missing; run mcbench report first")
        html = html.replace(shared, f"<script>{script.read_text(encoding='utf-8')}</script>")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(html, encoding="utf-8")
    return output.resolve()


def unfinished(report: Path) -> Path:
    """Where the page of a notebook lies that has not come to writing ``report``."""
    return report.with_name(f"{report.stem}.unfinished.html")


def _entry(path: Path, summary: str = "") -> Entry:
    """The index entry of a page, under the title that it gives itself."""
    title = re.search("<title>(.*?)</title>", path.read_text(encoding="utf-8"))
    return Entry(path.name, unescape(title[1]) if title else path.stem, summary)


def build_site(folder: str | Path) -> list[Path]:
    """Rebuild the pages of a folder from ``records/``; the same records, the same bytes.

    The pages share one copy of plotly's script under ``assets/``. The index also lists the pages
    that notebooks wrote into the folder.

    Raises:
        UserError: the folder holds no records.
    """
    folder = Path(folder)
    files = sorted((folder / "records").glob("*.parquet"))
    if not files:
        raise UserError(f"{folder / 'records'} holds no run records (*.parquet)")
    records = list(map(read_compact, files))
    write_plotly(folder / PLOTLY)
    pages: dict[str, Page] = {}
    summaries: dict[str, str] = {}
    if results := results_records(records):
        name = "07_results.html"
        pages[name] = _results_page(results)
        summaries[name] = headline_of(results)
    suite = folder / "records" / SUITE_FILE
    if suite.exists() and (trained := records_of("code_evaluator", records)):
        name = "06_code_evaluator.html"
        seeds = sorted(_unique([record.meta["seed"] for record in trained]))
        pages[name] = code_evaluator_page(
            SuiteRecord.read(suite),
            trained,
            records_of("evaluator_timing", records),
            command("06_code_evaluator.ipynb", seeds=seeds),
        )
        summaries[name] = pages[name].lead
    data = folder / "records" / DATA_FILE
    if data.exists() and (trained := records_of("data_quality", records)):
        name = "05_data_quality.html"
        seeds = sorted(_unique([record.meta["seed"] for record in trained]))
        built_from = DataRecord.read(data)
        planted = sorted(map(int, built_from.scores))
        reproduce = command("05_data_quality.ipynb", seeds=seeds, pool_seeds=planted)
        pages[name] = data_quality_page(built_from, trained, reproduce)
        summaries[name] = pages[name].lead
    calibration = folder / "records" / CALIBRATION_FILE
    if calibration.exists():
        name = "10_nano_world.html"
        pages[name] = calibrated_page(CalibrationRecord.read(calibration))
        summaries[name] = pages[name].lead
    measurements = read_measurements(folder / "records")
    for experiment in EXPERIMENTS:
        study = study_of(experiment, records, measurements)
        name = f"{PAGES.get(experiment)}.html"
        if experiment in SECTIONS and study.arms:
            pages[name] = section_page(study, _reproduce(study, records))
            summaries[name] = pages[name].lead
        elif name in pages:
            pages[name] = with_answers(pages[name], study.answers)
    summary = insight_summary(records, measurements)
    index = folder / "index.html"
    built = {name: write_page(page, folder / name, PLOTLY) for name, page in pages.items()}
    others = [
        path
        for path in folder.glob("*.html")
        if path != index and not path.name.endswith(".unfinished.html")
    ]
    entries = [_entry(path, summaries.get(path.name, "")) for path in sorted(others)]
    markup = summary_markup(summary) + _runs_markup(records)
    index.write_text(build_index(entries, markup), encoding="utf-8")
    return [index.resolve(), *built.values()]


def _runs_markup(records: Sequence[RunRecord]) -> str:
    """All configurations that were trained, and in what they differ."""
    table = configurations_table(records)
    return (
        f"<section id=runs><h2>{len(records)} runs</h2><p>Every configuration that was trained, "
        "with its seeds, and the settings in which it differs from most others.</p>"
        f"{data_table(table)}</section>"
    )


def calibrated_page(record: CalibrationRecord) -> Page:
    """The page of a calibration, with the command that measures it again."""
    settings = {"profiles": list(record.profiles), "temperatures": list(record.temperatures)}
    return calibration_page(record, command("10_nano_world.ipynb", **settings, seed=record.seed))


def records_of(experiment: str, records: Sequence[RunRecord]) -> list[RunRecord]:
    """The records of an experiment as it stands: its profiles, its arms, nothing else changed."""
    wanted = experiment_named(experiment)
    arms = {
        profile: [
            (arm.recipe, plain(arm.changes_at(asdict(profile_named(profile)))))
            for arm in wanted.arms.values()
        ]
        for profile in wanted.profiles
    }
    return [
        record
        for record in records
        if (record.config.recipe, record.config["changes"]) in arms.get(record.config.profile, ())
    ]


def _reproduce(study: Study, records: Sequence[RunRecord]) -> str:
    """The command that runs a section's notebook at the profiles and seeds of its records."""
    runs = [record for found in study.arms.values() for record in found]
    profiles = _unique([record.config.profile for record in runs])
    seeds = sorted(_unique([record.seed for record in runs]))
    scale = {"profiles": profiles} if len(profiles) > 1 else {"profile": profiles[0]}
    return command(f"{PAGES[study.experiment]}.ipynb", **scale, seeds=seeds)


def results_records(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Those of the results experiment's arms: at its own profiles, which come first, and at others
    where there are two arms to compare.
    """
    wanted = experiment_named("results")
    chosen: dict[str, list[RunRecord]] = {name: [] for name in wanted.profiles}
    for record in records:
        as_defined = not telling_changes(record.config).keys() - {"steps"}
        if as_defined and record.config.recipe in wanted.arms:
            chosen.setdefault(record.config.profile, []).append(record)
    return [
        record
        for profile, found in chosen.items()
        if profile in wanted.profiles or len({one.config.recipe for one in found}) > 1
        for record in found
    ]


def _results_page(records: Sequence[RunRecord]) -> Page:
    profiles = _unique([record.config.profile for record in records])
    seeds = sorted(_unique([record.seed for record in records]))
    reproduce = command("07_results.ipynb", profiles=profiles, seeds=seeds)
    return results_page(records, reproduce)


def _unique(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
