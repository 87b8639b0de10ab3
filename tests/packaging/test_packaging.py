"""What the project promises about itself: pins, notebooks, files that name no machine."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# What a conda user is promised by name.
NEEDED = {
    *("jupyterlab", "papermill", "ipywidgets", "plotly", "nbval", "pytest"),
    *("torch", "trl", "peft", "transformers", "vllm"),
}


def split_pin(requirement: str) -> tuple[str, frozenset[str]]:
    name, pins = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?(.*)", requirement).groups()  # type: ignore[union-attr]
    return name.lower(), frozenset(pin for pin in pins.replace(" ", "").split(",") if pin)


def project_pins() -> dict[str, frozenset[str]]:
    extras = PROJECT["optional-dependencies"]
    listed = (PROJECT["dependencies"], *(extras[name] for name in ("workbench", "gpu", "dev")))
    return dict(split_pin(line) for lines in listed for line in lines)


def conda_pins() -> dict[str, frozenset[str]]:
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    return dict(split_pin(line) for line in pip if not line.startswith("-e"))


def test_environment_has_the_packages_and_pyprojects_pins() -> None:
    conda, project = conda_pins(), project_pins()
    assert set(conda) >= NEEDED
    assert {name: project[name] for name in conda} == conda
    everything = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["workbench"]]
    runtime = {split_pin(line)[0] for line in everything}
    assert runtime <= set(conda)


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_file_names_a_machine() -> None:
    machine = re.compile("/" + "(?:work|root|home)/" + r"[A-Za-z]")
    named = []
    for path in tracked_files():
        if path.suffix in {".safetensors", ".parquet", ".png", ".gz", ".js"}:
            continue
        text = path.read_text(encoding="utf-8")
        named += [f"{path}: {hit.group()}" for hit in machine.finditer(text)]
    assert named == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_thin_and_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    too_long = [cell["source"] for cell in code if len("".join(cell["source"]).splitlines()) > 25]
    assert too_long == []
    assert cells[0]["cell_type"] == "markdown"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_one_parameter_cell_of_plain_values(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    for statement in ast.parse("".join(tagged[0]["source"])).body:
        # papermill turns a tuple into a string and cannot see an annotated parameter
        assert isinstance(statement, ast.Assign)
        value = ast.literal_eval(statement.value)
        assert json.loads(json.dumps(value)) == value


LEFT_OUT = ("plotly", "jupyterlab", "papermill", "ipywidgets", "nbformat", "ftfy", "datasketch")


@pytest.mark.slow
def test_who_only_trains_needs_no_workbench() -> None:
    """Everything that training imports, in a process that cannot import the workbench."""
    named = {split_pin(line)[0] for line in PROJECT["dependencies"]}
    workbench = {split_pin(line)[0] for line in PROJECT["optional-dependencies"]["workbench"]}
    assert set(LEFT_OUT) <= workbench - named
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({LEFT_OUT!r}))\n"
        "import mcbench.cli.train, mcbench.evaluator, mcbench.grpo.trainer, mcbench.runs.train\n"
        "import mcbench.scale.launch, mcbench.scale.sweep"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    assert (ROOT / "mcbench" / "py.typed").is_file()


def test_who_starts_runs_or_reads_them_does_not_load_the_trainer() -> None:
    """PyTorch and TRL take seconds, in every notebook and every command."""
    code = (
        "import sys, mcbench.comparison, mcbench.scale.launch, mcbench.report.site\n"
        "sys.exit(' '.join({'torch', 'trl', 'transformers', 'sklearn'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.strip() == ""
