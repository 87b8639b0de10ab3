"""Every notebook runs from its first to its last cell, as ``mcbench run`` and papermill run it.

With ``MCBENCH_EXECUTED`` set to a folder the executed copies are kept there: ``make nbval`` runs
them again and compares what comes out.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from mcbench.errors import UserError
from mcbench.experiments.experiments import ARMS, EXPERIMENTS, ROUND_2
from mcbench.experiments.notebook import notebook_parameters, run_notebook
from mcbench.report.site import notebook_page

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
PLOTLY = "application/vnd.plotly.v1+json"


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where executed copies lie, and the runs and pages that they wrote."""
    kept = os.environ.get("MCBENCH_EXECUTED")
    folder = ROOT / kept if kept else tmp_path_factory.mktemp("executed")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(name: str, folder: Path, **parameters: Any) -> tuple[str, list[Any]]:
    """All printed text, and the outputs of the executed notebook."""
    output = folder / f"{name}.ipynb"
    run_notebook(NOTEBOOKS / f"{name}.ipynb", parameters, output)
    notebook = nbformat.read(output, as_version=4)
    outputs = [out for cell in notebook.cells if cell.cell_type == "code" for out in cell.outputs]
    drawn = [out.data for out in outputs if PLOTLY in out.get("data", {})]
    assert all(len(data.get("text/plain", "")) < 1000 for data in drawn)  # for where no script runs
    text = "".join(out.text for out in outputs if out.output_type == "stream")
    return text, outputs


def page_of(name: str, folder: Path) -> str:
    """The page of the executed copy."""
    return notebook_page(folder / f"{name}.ipynb").read_text(encoding="utf-8")


def html_of(outputs: list[Any]) -> str:
    return "".join(out.data.get("text/html", "") for out in outputs if "data" in out)


def some(experiment: str, *arms: str) -> dict[str, Any]:
    return {arm: ARMS[experiment][arm] for arm in arms}


# What the profile tiny lacks of the tasks' own profiles.
SHORT_EPISODES = {
    "model": "nano-turns", "train_set": "turns:train", "test_set": "turns:test",
    "reward": "rlef", "feedback": "failing", "eval_lengths": [48],
}  # fmt: skip
SUGGESTIONS = {
    "model": "nano-tab", "train_set": "tab:train", "test_set": "tab:test",
    "reward": "accept_25", "eval_lengths": [4], "max_completion_length": 4,
}  # fmt: skip
# Notebook: its parameters beside those of all, a claim it decides, what it says of a missing arm.
SECTIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "01_cross_model": ({}, "Q1", "has 2 points in common; 5 are needed"),
    "02_truncation_mask": (
        {"arms": some("truncation_mask", "rho_02"), "correction_seeds": []},
        "M1",
        "no finished run of ρ = 0.1, ρ = 0.3, mask all (DeepCoder)",
    ),
    "03_temperature": (
        {"arms": some("temperature", "t_10")},
        "T5",
        "no finished run of T = 0.6",
    ),
    "04_kl_and_clip": (
        {"arms": some("kl_and_clip", "no_kl_high_clip")},
        "K2",
        "no finished run of KL, low clip",
    ),
    "13_doses": (
        {"arms": some("doses", "rho_10")},
        "Q11",
        "no finished run of GRPO+ (no mask), every cut answer, tokens kept (ours), "
        "mask all (DeepCoder)",
    ),
    "11_rivals": (
        {"arms": some("rivals", "before")},
        "R1",
        "no finished run of GRPO+ (no mask), cut answers masked, tokens kept",
    ),
    "20_dense_rewards": (
        {
            "arms": some("dense_rewards", "stepcoder"),
            "profile": "nano-branches",
            "settings": {
                "train_batch_size": 4,
                "num_generations": 2,
                "per_device_batch_size": 4,
                "test_limit": 4,
            },
        },
        "V5",
        "no finished run of four outcomes",
    ),
    "30_pretrained": (
        {"arms": some("pretrained", "token_rho_10")},
        "Q19",
        "no finished run of GRPO+ (no mask)",
    ),
    "25_recipes": (
        {"arms": some("recipes", "srpo")},
        "W3",
        "no finished run of GRPO+ (no mask)",
    ),
    "21_repair": (
        {"arms": some("repair", "curriculum")},
        "S2",
        "no finished run of tests",
    ),
    "22_execution_traces": (
        {"arms": {"traced": {"recipe": "grpo_plus"}}},  # the earlier ones are not trained again
        "X1",
        "no finished run of base trained without traces",
    ),
    "23_multi_turn": (
        {"arms": {"rlef": {"recipe": "grpo_plus"}}, "settings": SHORT_EPISODES, "search_seeds": []},
        "F1",
        "no finished run of independent attempts, told another problem",
    ),
    "24_online_feedback": (
        {"arms": some("online_feedback", "on_policy"), "settings": SUGGESTIONS},
        "A3",
        "no finished run of the base model",
    ),
    "09_context_length": (
        {"arms": some("context_length", "short"), "correction_seeds": []},
        "C1",
        "no finished run of three quarters of the limit, the limit",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_section_trains_assesses_and_names_its_page(name: str, executed: Path) -> None:
    parameters, claim, missing = SECTIONS[name]
    alone = {"beside": {}} if "beside" in notebook_parameters(NOTEBOOKS / f"{name}.ipynb") else {}
    _text, outputs = run(
        name, executed, seeds=[0], steps=4, workers=1, fresh=True,
        runs_dir=str(executed / name / "runs"), **{"profile": "tiny"} | alone | parameters,
    )  # fmt: skip
    html = page_of(name, executed)
    assert missing in html
    beyond = "" if name == "11_rivals" or name[0] == "2" else "Beyond the paper"
    assert all(words in html for words in (claim, beyond, "no evidence about Qwen3"))
    assert sum(PLOTLY in out.get("data", {}) for out in outputs) >= 3


@pytest.mark.slow
def test_an_arm_of_ones_own_beside_the_paper_s_is_one_line(executed: Path) -> None:
    """One arm of the paper, one of the user."""
    mine = {"recipe": "grpo_plus", "train_batch_size": "50%", "temperature": 1.2}
    arms = {**some("batch_size", "medium"), "small and hot": mine}
    runs = executed / "08_batch_size" / "runs"
    text, outputs = run(
        "08_batch_size", executed, profile="tiny", seeds=[0], steps=4, arms=arms, fresh=True,
        workers=1, runs_dir=str(runs), beside={},
    )  # fmt: skip
    assert "batch_size: 2 runs, 0 finished before and reused, 2 to train" in text
    page = page_of("08_batch_size", executed)
    assert all(words in page for words in ("small and hot", "B2", "Beyond the paper"))
    assert "small and hot" in html_of(outputs)
    assert "no finished run of half the batch, twice the batch" in html_of(outputs)


@pytest.mark.slow
def test_quickstart_shows_a_group_and_why_it_was_masked(executed: Path) -> None:
    small = {"num_generations": 4, "per_device_batch_size": 8, "max_completion_length": 16}
    text, outputs = run(
        "00_quickstart", executed, profile="tiny", settings=small, steps=2,
        runs_dir=str(executed / "00_quickstart" / "runs"),
    )  # fmt: skip
    html = html_of(outputs)
    assert html.count("<details") == 4
    assert "kept: " in html
    assert "step 2/2" in text
    assert "Code [" in page_of("00_quickstart", executed)


@pytest.mark.slow
def test_results_trains_then_reuses_and_names_its_page(executed: Path) -> None:
    parameters = {
        "profile": "tiny",
        "beside": {},
        "arms": some("results", "grpo_plus", "microcoder"),
        "seeds": [0],
        "steps": 2,
        "workers": 1,
        "runs_dir": str(executed / "07_results" / "runs"),
    }
    run("07_results", executed, fresh=True, **parameters)
    assert "MicroCoder-GRPO" in page_of("07_results", executed)
    text, outputs = run("07_results", executed / "again", **parameters)
    assert "2 finished before and reused, 0 to train" in text
    assert "MicroCoder-GRPO" in page_of("07_results", executed / "again")
    assert any(PLOTLY in out.get("data", {}) for out in outputs)


@pytest.mark.slow
def test_code_evaluator_trains_and_names_its_page(executed: Path) -> None:
    runs = executed / "06_code_evaluator" / "runs"
    _text, outputs = run(
        "06_code_evaluator", executed, profile="tiny", seeds=[0], steps=4, timing_seeds=[],
        workers=1, fresh=True, runs_dir=str(runs), beside={},
    )  # fmt: skip
    html = html_of(outputs)
    assert "MicroCoder&#39;s rules refuse" in html
    assert "reward of MicroCoder-GRPO has 2 points in common" in html
    assert "LiveCodeBench rules" in page_of("06_code_evaluator", executed)
    assert any(PLOTLY in out.get("data", {}) for out in outputs)


@pytest.mark.slow
def test_data_quality_trains_on_sets_of_ones_own(executed: Path, problem_file: Path) -> None:
    """Real sets in place of nano's: any file or folder of problems, for training and test."""
    runs = executed / "05_data_quality" / "runs"
    sets = executed / "05_data_quality" / "problems.jsonl"
    sets.parent.mkdir(parents=True, exist_ok=True)
    sets.write_text(problem_file.read_text())
    _text, outputs = run(
        "05_data_quality", executed, profile="tiny", seeds=[0], steps=2,
        harder=str(sets), test_set=str(sets), workers=1, fresh=True, runs_dir=str(runs), beside={},
    )  # fmt: skip
    assert "has 2 points in common" in html_of(outputs)
    assert "Harder set" in page_of("05_data_quality", executed)
    config = [json.loads(path.read_text())["config"] for path in runs.glob("*/run.json")]
    assert {one["train_set"] for one in config} == {str(sets), "nano-easier:train"}
    assert {one["test_set"] for one in config} == {str(sets)}


@pytest.mark.slow
def test_nano_world_shows_every_target_of_what_was_measured(executed: Path) -> None:
    folder = executed / "10_nano_world"
    grid = ["--profiles", "tiny", "--temperatures", "0.6", "1"]
    script = [sys.executable, str(ROOT / "benchmarks/calibration.py"), *grid, "--records"]
    subprocess.run([*script, str(folder)], check=True, cwd=ROOT)
    measured = str(folder / "calibration.json.gz")
    _text, outputs = run("10_nano_world", executed, profiles=["tiny"], calibration=measured)
    assert "pass@8 minus pass@1" in html_of(outputs)
    assert "Before any training, nano-s meets" in page_of("10_nano_world", executed)


@pytest.mark.slow
def test_maps_train_their_cells_say_what_is_decided_and_name_their_page(executed: Path) -> None:
    runs = executed / "12_where_it_holds" / "runs"
    text, outputs = run(
        "12_where_it_holds", executed, profile="tiny", seeds=[0, 1], steps=4, rates=[2e-4],
        limits=["100%"], diagonal="", settings={"eval_every": 1}, workers=1, fresh=True,
        arms=some("where_it_holds", "none", "rho_10"), runs_dir=str(runs),
    )  # fmt: skip
    html = page_of("12_where_it_holds", executed)
    assert "No cell decided: 2 seeds a cell are too few" in html
    assert "[rho_10 seed 1 at 0.0002 x 24] step 4/4" in text
    assert 'id="cell-nano-s-0-0002-24"' in html
    assert "12_where_it_holds.ipynb -p arms" in html
    assert "-p limits" in html
    assert sum(PLOTLY in out.get("data", {}) for out in outputs) >= 3


@pytest.mark.slow
def test_round_2_draws_its_factorial_and_reports_every_hypothesis(executed: Path) -> None:
    arms = {arm: ROUND_2["round_2_averaging"].arms[arm] for arm in ("token_none", "response_kl")}
    _text, outputs = run(
        "14_round_2", executed, profile="tiny", seeds=[0, 1], steps=4, blocks=["round_2_averaging"],
        arms=arms, settings={"eval_every": 1}, workers=1, fresh=True,
        runs_dir=str(executed / "14_round_2" / "runs"),
    )  # fmt: skip
    html = page_of("14_round_2", executed)
    assert "Of twelve registered hypotheses: none measured yet." in html
    assert "Not whole yet, or not as registered: " in html
    assert sum(PLOTLY in out.get("data", {}) for out in outputs) >= 3


def test_the_parameters_of_round_2_hold_its_protocol_s_arms_and_blocks() -> None:
    found = notebook_parameters(NOTEBOOKS / "14_round_2.ipynb")
    assert found["arms"] == ROUND_2["round_2_averaging"].arms
    assert found["blocks"] == list(ROUND_2)


@pytest.mark.parametrize("name", [name for name, one in EXPERIMENTS.items() if not one.beside])
def test_the_parameters_of_a_notebook_hold_the_paper_s_arms(name: str) -> None:
    found = notebook_parameters(NOTEBOOKS / f"{EXPERIMENTS[name].notebook}.ipynb")
    assert found["arms"] == ARMS[name]
    assert tuple(found["seeds"]) == EXPERIMENTS[name].seeds
    assert found["profile"] == EXPERIMENTS[name].profiles[0]
    assert {*EXPERIMENTS[name].profiles[1:]} <= {*found.get("beside", ())}


def test_every_notebook_draws_from_the_frames_in_the_open() -> None:
    for name in SECTIONS:
        cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
        sources = [cell.source for cell in cells if cell.cell_type == "code"]
        assert any("study.curves" in source for source in sources), name
        assert all(ast.parse(source) for source in sources)


def test_an_unknown_parameter_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'sedes'; did you mean seeds"):
        run("07_results", tmp_path, sedes=[0])
    assert list(tmp_path.iterdir()) == []
