"""``mcbench train``: one run, here or in several processes."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from mcbench.cli.options import settings_options
from mcbench.errors import UserError, unknown


@click.command()
@click.option("--profile", default="nano", show_default=True, help="The scale.")
@click.option("--recipe", default="microcoder", show_default=True, help="The algorithm.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--config",
    metavar="FILE",
    help="A file that names profile, recipe and settings (configs/train), which --set may change; "
    "or a whole configuration, such as the run.json of a run; - reads it from standard input.",
)
@click.option("--label", help="How progress lines name the run.")
@click.option(
    "--launch",
    metavar="CONFIG",
    help="Train with several processes: cpu, ddp, fsdp2, or the path of an accelerate "
    "configuration.",
)
@click.option("--processes", type=int, help="How many (default: CONFIG's).")
@settings_options
@click.option(
    "--measure",
    is_flag=True,
    help="With --dry-run: time some updates here (at most 30 s; 15 min on GPUs).",
)
def train(**options: Any) -> None:
    """Train one run; resumes an interrupted one, reuses a finished one."""
    from mcbench.scale.launch import check_gpu, launch, train_here, train_launched
    from mcbench.scale.process import end_with_parent

    end_with_parent()
    if options["measure"] and not options["dry_run"]:
        raise UserError("--measure goes with --dry-run; without both the run is trained")
    config = _config(options)
    name, processes = options["launch"], options["processes"]
    if name is None and processes is not None:
        raise UserError("--processes needs --launch CONFIG")
    chosen = None if name is None else launch(name, processes)
    if options["dry_run"]:
        from mcbench.scale.dry_run import dry_run

        arguments = _train_arguments(options)
        for line in dry_run(config, options["runs_dir"], chosen, arguments, options["measure"]):
            print(line, flush=True)
        return
    check_gpu(config)
    if chosen is None:
        train_here(config, options["runs_dir"], options["label"])
    else:
        train_launched(config, options["runs_dir"], chosen, options["label"])


def _config(options: dict[str, Any]) -> Any:
    from mcbench.runs.config import Config
    from mcbench.runs.resolve import parse_settings, resolve

    chosen = {"profile": options["profile"], "recipe": options["recipe"], "settings": {}}
    if options["config"] is not None:
        given = _read_config(options["config"])
        whole = "model" in given  # as run.json has it
        if whole and (
            options["changed"] or options["steps"] is not None or _typed(*chosen, "seed")
        ):
            raise UserError(
                "--config is a whole configuration; --profile, --recipe, --seed, --set and --steps "
                "cannot change it"
            )
        if whole:
            return Config.from_dict(given)
        for name in given:
            if name not in chosen:
                raise unknown(f"entry of {options['config']}", name, chosen)
            if _typed(name):
                raise UserError(f"--{name} and {options['config']} both name the {name}; drop one")
        chosen |= given
    if not isinstance(chosen["settings"], dict):
        raise UserError(f"configuration {options['config']}: settings map names to values")
    settings = chosen["settings"] | parse_settings(options["changed"], "--set")
    scale = {} if options["steps"] is None else {"steps": options["steps"]}
    return resolve(chosen["profile"], chosen["recipe"], settings, options["seed"], common=scale)


def _typed(*names: str) -> bool:
    """Whether any of these options stands in the command."""
    command = click.get_current_context()
    return any(command.get_parameter_source(n) is ParameterSource.COMMANDLINE for n in names)


def _read_config(name: str) -> dict[str, Any]:
    from mcbench.files import read_configuration

    data = read_configuration(name)
    config = data.get("config", data) if isinstance(data, dict) else None
    if not isinstance(config, dict):
        raise UserError(f"configuration {name} does not map names to values")
    return config


def _train_arguments(options: dict[str, Any]) -> list[str]:
    """The options that say what is trained, for the commands that a dry run shows."""
    chosen = ["--profile", options["profile"], "--recipe", options["recipe"]]
    if options["config"] is not None:
        chosen = ["--config", options["config"]]
    if options["config"] is None or _typed("seed"):
        chosen += ["--seed", str(options["seed"])]
    for change in options["changed"]:
        chosen += ["--set", change]
    if options["steps"] is not None:
        chosen += ["--steps", str(options["steps"])]
    if options["label"] is not None:
        chosen += ["--label", options["label"]]
    return [*chosen, "--runs-dir", options["runs_dir"]]
