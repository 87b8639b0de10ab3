"""``mcbench report``: pages from records, the table of claims, and what a folder still lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcbench.cli.options import runs_dir_option
from mcbench.errors import UserError


@click.command()
@click.argument("records", nargs=-1)
@click.option("-o", "--output", default="runs/report.html", show_default=True, help="The page.")
@click.option(
    "--single-file",
    is_flag=True,
    help="Put plotly's script (5 MB) into the page, so that the one file can be sent to somebody; "
    "of a page that was built before (reports/07_results.html) this writes a copy.",
)
@click.option(
    "--insights", is_flag=True, help="Print the table of the paper's claims and of ours instead."
)
@click.option(
    "--complete",
    is_flag=True,
    help="Of a folder of reports: first train the runs whose records are missing and measure what "
    "is missing beside them.",
)
@runs_dir_option
@click.option(
    "--workers", type=int, default=2, show_default=True, help="Runs side by side, with --complete."
)
@click.option("--dry-run", is_flag=True, help="Print what --complete would do and do nothing.")
def report(records: tuple[str, ...], **options: Any) -> None:
    """Write one HTML page from run records, or rebuild a folder of reports from its records.

    RECORDS is a folder of reports (default: reports), or run directories, compact records and
    folders of them (such as runs), or with --single-file one page.
    """
    names = records or ("reports",)
    first, output = Path(names[0]), Path(options["output"])
    is_folder = len(names) == 1 and (first / "records").is_dir()
    if options["complete"] or options["dry_run"]:
        if not is_folder or not options["complete"]:
            raise UserError(
                "--dry-run goes with --complete, and --complete with a folder of reports"
            )
        _complete(first, options)
        if options["dry_run"]:
            return
    if options["single_file"] and first.suffix == ".html" and len(names) == 1:
        from mcbench.report.site import single_file

        print(f"report: {single_file(first, output)}")
    elif options["single_file"] and is_folder:
        raise UserError(
            "the pages of a folder share one script; name one of them, such as "
            f"mcbench report {first}/07_results.html --single-file -o page.html"
        )
    elif options["insights"]:
        from mcbench.report.site import claims_table

        print(*claims_table([first / "records"] if is_folder else names), sep="\n")
    elif is_folder:
        from mcbench.report.site import build_site

        print(*build_site(first), sep="\n")
    else:
        from mcbench.report.site import one_page

        print(f"report: {one_page(names, output, options['single_file'])}")


def _complete(folder: Path, options: dict[str, Any]) -> None:
    from mcbench.experiments.complete import complete, missing_of

    if not options["dry_run"]:
        complete(folder / "records", options["runs_dir"], options["workers"])
        return
    missing = missing_of(folder / "records", options["runs_dir"])
    for planned in missing.plan.missing:
        print(f"to train: {planned.config.run_id}  {planned.label}")
    for name in missing.measurements:
        print(f"to measure: {name}")
    print(*missing.plan.describe(options["workers"]), sep="\n")
