"""``mcbench data``: what the commands print, and what they say of mistakes."""

import json

import pytest

from mcbench.cli.data import data
from mcbench.data.build import build
from mcbench.data.config import BuildConfig
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
