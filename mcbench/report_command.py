"""``mcbench report``: pages from records, the table of insights, and what a folder still lacks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mcbench.errors import UserError

if TYPE_CHECKING:
    from mcbench.runs.store import RunRecord


def add_report(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command; ``command`` makes a parser from name, function and help text."""
    parser = command(
        "report",
        run_report,
        "Write one HTML page from run records, or rebuild a folder of reports from its records.",
    )
    parser.add_argument(
        "records",
        nargs="*",
        default=["reports"],
        help="a folder of reports (default: reports), or run directories, compact records and "
        "folders of them (such as runs), or with --single-file one page",
    )
    parser.add_argument(
        "-o", "--output", default="runs/report.html", help="the page (default: runs/report.html)"
    )
    parser.add_argument(
        "--single-file",
        action="store_true",
        help="put plotly's script (5 MB) into the page, so that the one file can be sent to "
        "somebody; of a page that was built before (reports/07_results.html) this writes a copy",
    )
    parser.add_argument(
        "--insights",
        action="store_true",
        help="print the table of the paper's claims and of our questions instead of writing pages",
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="of a folder of reports: first train the runs whose records are missing and measure "
        "what is missing beside them",
    )
    parser.add_argument("--runs-dir", default="runs", help="where --complete keeps its runs")
    parser.add_argument(
        "--workers", type=int, default=2, help="runs that --complete trains side by side"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what --complete would do and do nothing"
    )


def run_report(options: argparse.Namespace) -> None:
    """Do what the options ask for, see :func:`add_report`."""
    first = Path(options.records[0])
    is_folder = len(options.records) == 1 and (first / "records").is_dir()
    if options.complete or options.dry_run:
        if not is_folder or not options.complete:
            raise UserError(
                "--dry-run goes with --complete, and --complete with a folder of reports"
            )
        _complete(first, options)
        if options.dry_run:
            return
    if options.single_file and first.suffix == ".html" and len(options.records) == 1:
        from mcbench.report.site import single_file

        print(f"report: {single_file(first, Path(options.output))}")
    elif options.single_file and is_folder:
        raise UserError(
            "the pages of a folder share one script; name one of them, such as "
            f"mcbench report {first}/07_results.html --single-file -o page.html"
        )
    elif options.insights:
        _insights(options.records, first / "records" if is_folder else None)
    elif is_folder:
        from mcbench.report.site import build_site

        for path in build_site(first):
            print(path)
    else:
        _one_page(options)


def _complete(folder: Path, options: argparse.Namespace) -> None:
    from mcbench.experiments.complete import complete, missing_of

    if not options.dry_run:
        complete(folder / "records", options.runs_dir, options.workers)
        return
    missing = missing_of(folder / "records", options.runs_dir)
    for planned in missing.plan.missing:
        print(f"to train: {planned.config.run_id}  {planned.label}")
    for name in missing.measurements:
        print(f"to measure: {name}")
    print(*missing.plan.describe(options.workers), sep="\n")


def _insights(names: list[str], folder: Path | None) -> None:
    from mcbench.claims import read_measurements
    from mcbench.report.verdicts import insight_summary, summary_lines

    sources = [folder] if folder else [Path(name) for name in names]
    measurements = [row for path in sources if path.is_dir() for row in read_measurements(path)]
    records = _records([str(path) for path in sources])
    print(*summary_lines(insight_summary(records, measurements)), sep="\n")


def _one_page(options: argparse.Namespace) -> None:
    from mcbench.report.page import write_page
    from mcbench.report.results import results_page
    from mcbench.report.site import save

    single = " --single-file" if options.single_file else ""
    reproduce = f"mcbench report {' '.join(options.records)} -o {options.output}{single}"
    page = results_page(_records(options.records), reproduce)
    write = write_page if options.single_file else save
    print(f"report: {write(page, Path(options.output))}")


def _records(names: list[str]) -> list[RunRecord]:
    from mcbench.runs.compact import read_record

    return [read_record(path) for name in names for path in _record_paths(Path(name))]


def _record_paths(path: Path) -> list[Path]:
    if not path.exists():
        raise UserError(f"no run or record at {path}")
    if path.is_file() or (path / "run.json").exists():
        return [path]
    found = sorted([*(p.parent for p in path.glob("*/run.json")), *path.glob("*.parquet")])
    if not found:
        raise UserError(f"folder {path} holds no run and no compact record")
    return found
