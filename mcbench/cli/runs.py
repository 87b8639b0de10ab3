"""``mcbench runs``: list, filter and open runs."""

from __future__ import annotations

import json
from typing import Any

import click

from mcbench.cli.options import runs_dir_option
from mcbench.errors import UserError, unknown


@click.command()
@click.argument("run", required=False)
@runs_dir_option
@click.option("--records", is_flag=True, help="The committed records instead of the run folder.")
@click.option(
    "--state",
    type=click.Choice(["finished", "running", "interrupted", "failed"]),
    help="Only these.",
)
@click.option("--profile", help="Only runs of this profile.")
@click.option("--recipe", help="Only runs of this recipe.")
@click.option(
    "--where", multiple=True, metavar="NAME=VALUE", help="Only runs with this setting; repeatable."
)
def runs(run: str | None, runs_dir: str, records: bool, **wanted: Any) -> None:
    """List runs; or show one, named by the beginning of its id: settings, times, last numbers."""
    from mcbench.runs.place import COMMITTED, in_project
    from mcbench.runs.records import read_records
    from mcbench.runs.resolve import parse_settings

    folder = in_project(COMMITTED) if records else runs_dir
    found = read_records(folder)
    if run is not None:
        _show([one for one in found if one.run_id.startswith(run)], run, str(folder))
        return
    where = parse_settings(wanted.pop("where"), "--where")
    where |= {name: value for name, value in wanted.items() if value and name != "state"}
    for one in found:
        values = one.config.model_dump(mode="json")
        if unknown_names := where.keys() - values.keys():
            raise unknown("setting", min(unknown_names), values)
        state = wanted["state"] in (None, one.state)
        if state and all(values[name] == value for name, value in where.items()):
            print(_line(one))
    if not found:
        print(f"no runs in {folder}")


def _line(one: Any) -> str:
    config = one.config
    accuracy = _accuracy(one)
    scored = "      –" if accuracy is None else f"{accuracy:7.1%}"
    changed = ", ".join(f"{name} {value}" for name, value in config.differences().items())
    done = len(one.step_lines)
    return (
        f"{one.run_id}  {one.state:11}  {done:>5} of {config.steps:<5} pass@1 {scored}  "
        f"{config.profile} {config.recipe} seed {config.seed}{'  ' + changed if changed else ''}"
    )


def _accuracy(one: Any) -> float | None:
    """The last pass@1 after training began."""
    from mcbench.runs.scores import accuracy_by_step

    found = accuracy_by_step(one.eval_lines, one.config.eval_temperature)
    return next((value for step, value in reversed(found.items()) if step > 0), None)


def _show(found: list[Any], run: str, folder: str) -> None:
    if len(found) != 1:
        several = ", ".join(one.run_id for one in found)
        raise UserError(
            f"{run!r} begins the ids of several runs: {several}"
            if found
            else f"no run in {folder} has an id that begins with {run!r}; mcbench runs lists them"
        )
    one = found[0]
    print(_line(one))
    print(f"folder: {one.path}")
    print(json.dumps(one.config.to_dict(), indent=1))
    for line in one.eval_lines:
        print(
            f"step {line['step']:>5}, up to {line['max_completion_length']} tokens, "
            f"{len(line['per_problem'])} problems, T = {line.get('temperature', 1.0):g}: "
            f"pass@1 {line['pass_at_1']:.1%}, length {line['mean_length']:.0f}"
        )
