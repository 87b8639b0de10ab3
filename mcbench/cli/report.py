"""``mcbench report``: pages from records, the table of claims, and what a folder still lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcbench.cli.options import runs_dir_option
from mcbench.errors import UserError


@click.command()
@click.argument("records", nargs=-1)
@click.option(
    "-o", "--output", help="The page (default: beside a notebook, else runs/report.html)."
)
@click.option(
    "--single-file",
    is_flag=True,
    help="Put plotly's script (5 MB) into the page, so that the one file can be sent to somebody; "
    "of a page that was built before (reports/07_results.html) this writes a copy.",
)
@click.option(
    "--insights", is_flag=True, help="Print the table of all claims and questions instead."
)
@click.option(
    "--complete",
    is_flag=True,
    help="Of a folder of reports: first train the runs whose records are missing.",
)
@runs_dir_option
@click.option(
    "--workers", type=int, default=2, show_default=True, help="Runs side by side, with --complete."
)
@click.option("--dry-run", is_flag=True, help="Print what --complete would do and do nothing.")
def report(records: tuple[str, ...], **options: Any) -> None:
    """Write the HTML page of an executed notebook, of run records, or all of a folder of reports.

    RECORDS is a notebook (.ipynb), a folder of reports (default: reports), whose notebooks are
    executed from its records, or run directories, compact records and folders of them (such as
    runs), or with --single-file one page.
    """
    from mcbench.report import site

    names = records or ("reports",)
    first, output = Path(names[0]), Path(options["output"] or "runs/report.html")
    is_folder = len(names) == 1 and site.is_site(first)
    if options["complete"] or options["dry_run"]:
        if not is_folder or not options["complete"]:
            raise UserError(
                "--dry-run goes with --complete, and --complete with a folder of reports"
            )
        if options["dry_run"]:
            print(*site.what_is_missing(first, options["runs_dir"], options["workers"]), sep="\n")
            return
        from mcbench.experiments.experiments import planned_of_all
        from mcbench.experiments.training import train_missing

        train_missing(
            "all experiments", planned_of_all(), options["runs_dir"],
            workers=options["workers"], keep=first / "records",
        )  # fmt: skip
    if first.suffix == ".ipynb" and len(names) == 1:
        page = site.notebook_page(first, options["output"], options["single_file"])
        print(f"report: {page}")
    elif options["single_file"] and first.suffix == ".html" and len(names) == 1:
        print(f"report: {site.as_single_file(first, output)}")
    elif options["single_file"] and is_folder:
        raise UserError(
            "the pages of a folder share one script; name one of them, such as "
            f"mcbench report {first}/07_results.html --single-file -o page.html"
        )
    elif options["insights"]:
        print(*site.claims_table(names), sep="\n")
    elif is_folder:
        print(*site.build_site(first), sep="\n")
    else:
        print(f"report: {site.page_of_runs(names, output, options['single_file'])}")
