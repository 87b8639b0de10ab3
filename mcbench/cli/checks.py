"""``mcbench settings``, ``doctor`` and ``nano build``."""

from __future__ import annotations

from pathlib import Path

import click

from mcbench.errors import FailedError


@click.command()
@click.argument("family", required=False, metavar="[FAMILY or NAME]")
@click.option("--markdown", is_flag=True, help="The page docs/settings.md, of all of them.")
def settings(family: str | None, markdown: bool) -> None:
    """List the settings of a run by family (name, default, meaning, range), or all about one."""
    if markdown:
        from mcbench.runs.reference import settings_page

        print(settings_page(), end="")
        return
    from mcbench.errors import unknown
    from mcbench.runs.config import CHANGEABLE, FAMILIES, settings_of
    from mcbench.runs.reference import about

    if family in CHANGEABLE and family not in FAMILIES:
        print("\n".join([family, *(f"  {what}: {told}" for what, told in about(family).items())]))
        return
    if family not in (None, *FAMILIES):
        raise unknown("family of settings, or setting", family, {*FAMILIES, *CHANGEABLE})
    print("name, default (of profile, recipe or trainer: docs/settings.md), meaning (range)")
    for one in [family] if family else FAMILIES:
        print(f"\n{one}" if family is None else one)
        for name in settings_of(one):
            told = about(name)
            allowed = told["range"].replace("`", "")
            more = "" if allowed in ("text", "list") else f" ({allowed})"
            print(f"  {name:34} {told['default']:21} {told['meaning']}{more}")


@click.command()
@click.option(
    "--gpu", is_flag=True, help="Train a few steps of a profile on a GPU here, and check."
)
@click.option("--profile", default="qwen3-1.7b", show_default=True, help="With --gpu.")
@click.option("--length", type=int, default=4096, show_default=True, help="Tokens, with --gpu.")
def doctor(gpu: bool, profile: str, length: int) -> None:
    """Check the machine and the installation."""
    from mcbench.scale.doctor import report
    from mcbench.scale.gpu_check import gpu_report

    bad = gpu_report(profile, length, print) if gpu else report(print)
    if bad:
        raise FailedError(f"{bad} problem{'s' if bad > 1 else ''} found")


@click.group()
def nano() -> None:
    """The embedded base models."""


@nano.command()
@click.argument("name")
@click.option("-o", "--output", help="Folder (default: build/<name>).")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--steps", type=int, help="Optimizer steps (default: the model's own).")
def build(name: str, output: str | None, seed: int, steps: int | None) -> None:
    """Train a nano base model on CPU."""
    from mcbench.worlds.nano import check_name

    check_name(name)  # before anything is loaded
    from mcbench.worlds.build import build as build_model

    folder = Path(output or Path("build", name))
    print(f"model: {build_model(name, folder, seed=seed, steps=steps)}")
