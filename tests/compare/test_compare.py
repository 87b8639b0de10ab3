"""The ten-line ablation: trained, drawn, kept as a page; the same through papermill."""

import json
from functools import partial

import nbformat
import numpy as np
import pytest
from fake_runs import make_curves, make_record

from mcbench import compare
from mcbench.cli import main
from mcbench.comparison import show_registered
from mcbench.errors import UserError
from mcbench.experiments.experiments import planned_runs
from mcbench.experiments.notebook import run_notebook
from mcbench.runs.compact import write_compact
from mcbench.runs.place import RECORDS

ARMS = {"mine": {"mask_ratio": 0.5, "temperature": 1.2}, "microcoder": {}}
CELL = """\
from mcbench import compare

study = compare(arms, profile="tiny", seeds=[0], steps=2, settings=settings, runs_dir=runs_dir)
print("ids", sorted(study.curves["arm"].unique()), sorted(run.run_id for run in study.records))"""


@pytest.fixture(scope="module")
def study(tiny_settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return compare(ARMS, "tiny", [0], 2, settings=tiny_settings, runs_dir=folder / "runs")


def test_an_ablation_is_trained_drawn_and_kept_as_a_page(study, tmp_path, capsys):
    assert {arm: len(runs) for arm, runs in study.arms.items()} == {"mine": 1, "microcoder": 1}
    configs = {arm: runs[0].config for arm, runs in study.arms.items()}
    assert (configs["mine"].mask_ratio, configs["mine"].temperature) == (0.5, 1.2)
    assert configs["mine"].recipe == configs["microcoder"].recipe == "microcoder"
    capsys.readouterr()
    study.show("accuracy", "length", "diversity")
    assert len(capsys.readouterr().out) < 2000  # in a script no figure is printed
    assert set(study.frame("length")["series"]) == {"mine", "MicroCoder-GRPO"}
    page = study.report(tmp_path / "mine.html").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"report: {tmp_path / 'mine.html'}\n"
    assert "mine" in page
    assert "compare({&#39;mine&#39;: {&#39;recipe&#39;" in page
    assert "arXiv" in page


def test_a_finished_comparison_trains_nothing_and_gives_the_same_page(
    study, tiny_settings, tmp_path, capsys
):
    runs_dir = study.records[0].path.parent
    again = compare(ARMS, "tiny", [0], 2, settings=tiny_settings, runs_dir=runs_dir)
    assert "2 finished before and reused, 0 to train" in capsys.readouterr().out
    pages = [one.report(tmp_path / f"{n}.html") for n, one in enumerate((study, again))]
    assert pages[0].read_bytes() == pages[1].read_bytes()


@pytest.mark.slow
def test_the_same_arms_through_papermill_are_the_same_runs(study, tiny_settings, tmp_path):
    runs_dir = str(study.records[0].path.parent)
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "p", "language": "python"}
    parameters = f'arms = {{}}\nsettings = {{}}\nruns_dir = "{tmp_path}"'
    notebook.cells = [
        nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(CELL),
    ]
    path, output = tmp_path / "n.ipynb", tmp_path / "out.ipynb"
    nbformat.write(notebook, path)
    run_notebook(path, {"arms": ARMS, "settings": tiny_settings, "runs_dir": runs_dir}, output)
    text = output.read_text()
    assert "2 finished before and reused, 0 to train" in text
    ids = sorted(one.run_id for one in study.records)
    assert f"ids ['microcoder', 'mine'] {ids}" in text


def test_arms_on_the_command_line_are_the_same_runs(study, tiny_settings, capsys):
    runs_dir = str(study.records[0].path.parent)
    sets = [f"--set={name}={json.dumps(value)}" for name, value in tiny_settings.items()]
    command = ["sweep", "results", "--arms", json.dumps(ARMS), "--profile", "tiny", "--seeds", "0"]
    command += ["--steps", "2", "--dry-run", "--runs-dir", runs_dir, *sets]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert all(one.run_id in out for one in study.records)
    assert "finished: 2, to train: 0" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None,), "compare needs arms, or the name of an experiment"),
        (({"mine": {"mask_ration": 0.5}},), "did you mean mask_ratio"),
        (({"mine": {}}, "nanno"), "unknown profile 'nanno'; did you mean nano"),
        (({"mine": {}}, "nano", ["0"]), "a seed must be a whole number"),
    ],
)
def test_a_wrong_call_is_one_sentence_before_anything_is_trained(arguments, message, tmp_path):
    with pytest.raises(UserError, match=message):
        compare(*arguments, runs_dir=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_unknown_figure_is_one_sentence(study):
    with pytest.raises(UserError, match="unknown panel 'acuracy'; did you mean accuracy"):
        study.show("acuracy")


def test_what_is_registered_is_shown_once_it_is_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(RECORDS, str(tmp_path))
    shown = partial(show_registered, "traces_originals", "accuracy", runs_dir=tmp_path / "runs")
    older = compare({"traced": {}}, "nano-traces", runs_dir=tmp_path / "runs", train=False)
    assert older.with_registered("traces_originals", tmp_path / "runs") is older
    shown()
    told = "X3, X4: registered, not trained yet (mcbench sweep traces_originals)."
    assert capsys.readouterr().out.splitlines()[-1].strip(": ") == told
    for one in planned_runs("traces_originals"):
        curves = make_curves(one.config, np.random.default_rng(one.config.seed))
        write_compact(make_record(curves, one.config), tmp_path, samples=False)
    more = older.with_registered("traces_originals", tmp_path / "runs")
    assert {"X3", "X4"} <= more.sources.results.keys()
    shown()
    told = capsys.readouterr().out
    assert "not trained" not in told
    assert all(words in told for words in ("Accuracy", "X3", "X4"))
    with pytest.raises(UserError, match="unknown registered experiment 'rivals'"):
        show_registered("rivals")
