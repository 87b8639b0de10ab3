"""``mcbench data``: what the commands print, and what they say of mistakes."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mcbench.cli.data import _Progress, data
from mcbench.data.build import build
from mcbench.data.collect import load_sources
from mcbench.data.config import BuildConfig, load_config
from mcbench.data.difficulty import read_pass_rates
from mcbench.data.report import inspect
from mcbench.errors import UserError

from .generated import generate


def run(*arguments):
    data.main([*map(str, arguments)], standalone_mode=False)


def rows(folder, count=12):
    """Generated problems as a JSONL file that the mapping adapter reads."""
    path = folder / "rows.jsonl"
    with path.open("w") as file:
        for record in generate(count):
            row = {"key": record.id, "text": record.statement, "io": list(record.tests)}
            file.write(json.dumps(row) + "\n")
        file.write("{broken\n")
    return path


def config(folder):
    source = {
        "adapter": "mapping",
        "name": "mine",
        "path": str(rows(folder)),
        "columns": {"id": "key", "statement": "text", "tests": "io"},
        "test_keys": {"input": "stdin", "output": "expected"},
    }
    path = folder / "build.yaml"
    settings = {
        "name": "mine",
        "out": str(folder / "out"),
        "cache": str(folder / "cache"),
        "workers": 1,
        "skip": ["verify"],
        "sources": [source],
    }
    path.write_text(json.dumps(settings))  # JSON is YAML
    return path


def test_build_and_inspect(tmp_path, capsys):
    run("build", config(tmp_path))
    printed = capsys.readouterr().out
    assert "mine: 12 problems" in printed
    assert f"written to {tmp_path}/out" in printed
    run("inspect", tmp_path / "out")
    printed = capsys.readouterr().out
    assert "predict" in printed
    assert "collect/" in printed  # the broken line, with its reason


def test_every_stage_has_a_bar(capsys):
    progress = _Progress()
    for stage in ("filter", "verify"):
        for done in (1, 2, 3):
            progress(stage, done, 3)
    progress("difficulty", 1, 3)
    progress.close()
    told = re.findall(r"\r(\w+): +\d+%.*? (\d)/3 \[", capsys.readouterr().err)
    assert {("filter", "3"), ("verify", "3"), ("difficulty", "1")} <= set(told)


def test_a_dry_run_builds_nothing(tmp_path, capsys):
    run("build", config(tmp_path), "--dry-run", "--out", "elsewhere")
    assert json.loads(capsys.readouterr().out)["out"] == "elsewhere"
    assert not (tmp_path / "cache").exists()


def test_mistakes_are_named(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        run("build", tmp_path / "none.yaml")
    with pytest.raises(UserError, match="no finished data set"):
        run("inspect", tmp_path)
    path = config(tmp_path)
    path.write_text(path.read_text().replace('"mapping"', '"mopping"'))
    with pytest.raises(UserError, match="source 1: unknown source 'mopping'"):
        run("build", path, "--dry-run")


def test_one_huge_test_costs_one_record(tmp_path):
    """200 MB in one test of one record; the others come out as without it."""
    good, huge = generate(2)
    test = {"stdin": "7" * (200 << 20), "expected": "1\n"}
    bad = type(huge)(**{**huge.__dict__, "tests": (test,)})
    names = {"cache": str(tmp_path / "cache"), "workers": 1, "skip": ("verify",)}
    built = build(BuildConfig(name="set", out=str(tmp_path / "out"), **names), [good, bad])
    assert built.manifest["rows"] == 1
    assert built.manifest["funnel"][0]["rules"] == {"too_large": {"drop": 1}}
    assert "200 MiB of statement and tests, more than 64" in inspect(built.out)


def test_an_emptied_build_shows_what_the_rules_did(tmp_path):
    path = config(tmp_path)
    path.write_text(
        path.read_text().replace('"workers"', '"filter": {"min_words": 999}, "workers"')
    )
    with pytest.raises(UserError, match=r"filter/length dropped 12 .*funnel\.html shows"):
        run("build", path)
    page = (tmp_path / "out" / "funnel.html").read_text()
    assert "<b>length</b> dropped 12" in page
    assert "words, fewer than 999" in page
    assert (tmp_path / "out" / "audit.parquet").exists()


def test_a_built_set_is_handed_on_in_the_forms_of_others(tmp_path, capsys):
    run("build", config(tmp_path))
    assert "funnel.html" in (tmp_path / "out" / "README.md").read_text()
    columns = {
        "trl": "prompt tests form checker",
        "verl": "data_source prompt ability reward_model extra_info",
    }
    for form, wanted in columns.items():
        run("export", tmp_path / "out", "--form", form, "--out", tmp_path / form)
        assert "12 problems written to" in capsys.readouterr().out
        table = pq.read_table(tmp_path / form / "train.parquet")
        assert set(wanted.split()) <= set(table.column_names)
        card = (tmp_path / form / "README.md").read_text()
        assert f"form of {form}" in card
        assert "data_files: train.parquet" in card
        assert "12 problems, written from a set" in card
        assert "funnel.html" not in card
    (row, *_) = pq.read_table(tmp_path / "verl" / "train.parquet").to_pylist()
    tests = json.loads(row["reward_model"]["ground_truth"])
    assert len(tests["inputs"]) == len(tests["outputs"]) > 2
    with pytest.raises(UserError, match="unknown form 'parquet'"):
        run("export", tmp_path / "out", "--form", "parquet", "--out", tmp_path / "x")


@pytest.mark.slow
def test_pass_rates_of_a_model_are_measured_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sums.jsonl"
    row = {"id": "s", "statement": "add", "form": "stdin",
           "tests": [{"stdin": "1 2", "expected": "3"}]}  # fmt: skip
    path.write_text(json.dumps(row) + "\n")
    given = ("calibrate", path, "--model", "nano-s", "--out", "rates.jsonl")
    run(*given, "--attempts", 2, "--length", 12)
    assert "1 problems measured" in capsys.readouterr().out
    assert read_pass_rates(tmp_path / "rates.jsonl").keys() == {"s"}


def test_the_shipped_configurations_can_be_read():
    folder = Path(__file__).parents[2] / "configs"
    names = {path.name for path in folder.glob("*.yaml")}
    assert names == {"paper-mix.yaml", "functions.yaml", "packages.yaml", "deepcoder.yaml"}
    for name in names:
        settings = load_config(folder / name)
        assert load_sources([*settings.sources, *settings.against])
