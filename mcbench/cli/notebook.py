"""``mcbench run``: a notebook in batch, its parameters checked."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mcbench.errors import FailedError


@click.command()
@click.argument("notebook")
@click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter, as in papermill; VALUE is JSON, or plain text.",
)
@click.option("-o", "--output", help="The executed notebook (default: <runs_dir>/<name>.ipynb).")
@click.option("--dry-run", is_flag=True, help="Check and print the parameters and do nothing.")
def run(
    notebook: str, parameters: tuple[tuple[str, str], ...], output: str | None, dry_run: bool
) -> None:
    """Execute a notebook with parameters; keep it with its outputs, and the page that it makes."""
    from mcbench.experiments.notebook import check_parameters, notebook_parameters, run_notebook
    from mcbench.files import json_or_text
    from mcbench.runs.place import in_project

    defaults = notebook_parameters(notebook)
    given = {
        # a text parameter stays text even where it looks like JSON
        name: value if isinstance(defaults.get(name), str) else json_or_text(value)
        for name, value in parameters
    }
    if dry_run:
        print(json.dumps(check_parameters(defaults, given), indent=1))
        return
    from mcbench.report.site import notebook_page

    resolved = check_parameters(defaults, given)
    folder = in_project(resolved.get("runs_dir", "runs"))
    kept = Path(output) if output else folder / Path(notebook).name
    try:
        run_notebook(notebook, given, kept)
    except FailedError as error:
        page = notebook_page(kept, reason=str(error))
        raise FailedError(f"{error}\nreport of what there was: {page}") from error
    print(f"executed notebook: {kept}")
    print(f"report: {notebook_page(kept)}")
