"""``mcbench report``: pages from records, the table of claims, and what a folder still lacks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from mcbench.errors import UserError


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
    from mcbench.report import site

    first, output = Path(options.records[0]), Path(options.output)
    is_site = len(options.records) == 1 and site.is_site(first)
    if (options.complete and not is_site) or (options.dry_run and not options.complete):
        raise UserError("--dry-run goes with --complete, and --complete with a folder of reports")
    if options.dry_run:
        print(*site.what_is_missing(first, options.runs_dir, options.workers), sep="\n")
        return
    if options.complete:
        from mcbench.experiments.complete import complete

        complete(first / "records", options.runs_dir, options.workers)
    if options.single_file and first.suffix == ".html" and len(options.records) == 1:
        print(f"report: {site.as_single_file(first, output)}")
    elif options.single_file and is_site:
        raise UserError(
            "the pages of a folder share one script; name one of them, such as "
            f"mcbench report {first}/07_results.html --single-file -o page.html"
        )
    elif options.insights:
        print(*site.claims_table(options.records), sep="\n")
    elif is_site:
        print(*site.build_site(first), sep="\n")
    else:
        print(f"report: {site.page_of_runs(options.records, output, options.single_file)}")
