"""Every notebook runs from its first to its last cell, as ``mcbench run`` and papermill run it."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from mcbench.errors import UserError
from mcbench.experiments.notebook import run_notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def run(name: str, folder: Path, **parameters: Any) -> tuple[str, list[Any]]:
    """All printed text, and the outputs of the executed notebook."""
    output = folder / "out.ipynb"
    run_notebook(NOTEBOOKS / name, parameters, output)
    cells = nbformat.read(output, as_version=4).cells
    outputs = [out for cell in cells if cell.cell_type == "code" for out in cell.outputs]
    text = "".join(out.text for out in outputs if out.output_type == "stream")
    return text, outputs


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def html_of(outputs: list[Any]) -> str:
    return "".join(out.data.get("text/html", "") for out in outputs if "data" in out)


def test_quickstart_shows_a_group_and_why_it_was_masked(tmp_path: Path) -> None:
    parameters = {
        "profile": "tiny",
        "changes": ["num_generations=4", "per_device_batch_size=8", "max_completion_length=16"],
        "steps": 2,
        "runs_dir": str(tmp_path / "runs"),
    }
    text, outputs = run("00_quickstart.ipynb", tmp_path, **parameters)
    html = html_of(outputs)
    assert html.count("<details") == 4
    assert "kept: " in html
    assert "step 2/2" in text
    # Nobody looks at a batch run: the dashboard is a line of text, and nothing of it is stored.
    output = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert "widgets" not in output.metadata
    assert any("1 planned" in out.get("data", {}).get("text/plain", "") for out in outputs)


def test_results_trains_then_reuses_and_names_its_page(tmp_path: Path) -> None:
    parameters = {
        "profiles": ["tiny"],
        "arms": ["grpo_plus", "microcoder"],
        "steps": 2,
        "workers": 1,
        "runs_dir": str(tmp_path / "runs"),
    }
    text, outputs = run("07_results.ipynb", tmp_path, **parameters)
    page = tmp_path / "runs" / "07_results.html"
    assert f"report: {page}" in text
    assert "MicroCoder-GRPO" in page.read_text(encoding="utf-8")
    assert any("application/vnd.plotly.v1+json" in out.get("data", {}) for out in outputs)

    before = page.read_bytes()
    text, _ = run("07_results.ipynb", tmp_path, **parameters)
    assert "2 finished before and reused, 0 to train" in text
    assert page.read_bytes() == before


def test_code_evaluator_judges_trains_and_names_its_page(tmp_path: Path) -> None:
    parameters = {
        "profile": "tiny",
        "steps": 4,
        "judges": ["microcoder", "livecodebench", "livecodebench_method"],
        "suite_limit": 3,
        "workers": 1,
        "runs_dir": str(tmp_path / "runs"),
    }
    text, outputs = run("06_code_evaluator.ipynb", tmp_path, **parameters)
    page = tmp_path / "runs" / "06_code_evaluator.html"
    assert f"report: {page}" in text
    assert "E1 inconclusive: at least 20 right and as many wrong solutions" in text
    assert "E2 inconclusive: reward of arm microcoder has 2 points in common" in text
    assert "E5: No times are recorded yet" in text
    assert "LiveCodeBench rules" in page.read_text(encoding="utf-8")
    assert any("application/vnd.plotly.v1+json" in out.get("data", {}) for out in outputs)


SMALL = [
    "train_batch_size=4", "ppo_mini_batch_size=2", "num_generations=2", "per_device_batch_size=4",
    "max_completion_length=24", "eval_lengths=[24]", "eval_every=2", "repeat_window=4",
    "test_limit=4", "eval_attempts=2", "reward_workers=1",
]  # fmt: skip
# Notebook: parameters beside those of all, the claims it decides, what it says of a missing arm.
SECTIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "01_cross_model": ({"changes": SMALL}, "Q1", "has 2 points in common; 5 are needed"),
    "02_truncation_mask": (
        {"profile": "tiny", "arms": ["none", "rho_02"]},
        "M1",
        "no finished run of arms rho_01, rho_03, all",
    ),
    "03_temperature": (
        {"profile": "tiny", "arms": ["t_10"], "temperatures": [0.6, 1.0, 1.4]},
        "T5",
        "no finished run of arm t_06",
    ),
    "04_kl_and_clip": (
        {"profile": "tiny", "arms": ["no_kl_high_clip"]},
        "K2",
        "no finished run of arm kl_low_clip",
    ),
    "08_batch_size": (
        {"profile": "tiny", "arms": ["medium"]},
        "B2",
        "no finished run of arms small, large",
    ),
    "09_context_length": (
        {"profile": "tiny", "arms": ["long", "short"]},
        "C1",
        "no finished run of arm middle",
    ),
}


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all sections: the usual run is an arm of most and trained once."""
    return tmp_path_factory.mktemp("sections") / "runs"


@pytest.mark.parametrize("name", SECTIONS)
def test_section_trains_assesses_and_names_its_page(
    name: str, shared_runs: Path, tmp_path: Path
) -> None:
    parameters, claim, missing = SECTIONS[name]
    text, outputs = run(
        f"{name}.ipynb", tmp_path, steps=4, workers=1, runs_dir=str(shared_runs), **parameters
    )
    page = shared_runs / f"{name}.html"
    assert f"report: {page}" in text
    assert missing in text
    html = page.read_text(encoding="utf-8")
    assert all(words in html for words in (claim, "Beyond the paper", "no evidence about Qwen3"))
    assert any("application/vnd.plotly.v1+json" in out.get("data", {}) for out in outputs)
    if name in ("04_kl_and_clip", "08_batch_size"):
        assert "1 finished before and reused, 0 to train" in text
    if name == "03_temperature":
        assert "9 measurements, 0 made before, 9 to make" in text
        assert "T2 inconclusive (exploratory): 1 of the 3 seeds it needs; slope at step 0" in text


def test_nano_world_shows_every_target(tmp_path: Path) -> None:
    text, outputs = run(
        "10_nano_world.ipynb",
        tmp_path,
        profiles=["tiny"],
        temperatures=[0.6, 1.0],
        report=str(tmp_path / "page.html"),
    )
    assert "pass@8 minus pass@1" in html_of(outputs)
    assert f"report: {tmp_path / 'page.html'}" in text


def test_an_unknown_parameter_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="runs_dir"):
        run("07_results.ipynb", tmp_path, sedes=[0])
    assert list(tmp_path.iterdir()) == []
