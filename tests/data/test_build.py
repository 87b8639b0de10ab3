"""Builds from end to end: same bytes whatever happened in between, files, card, command line."""

import json
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from benchmarks.planted import plant
from mcbench.data import config as data_config
from mcbench.data.audit import StageFailed
from mcbench.data.build import build
from mcbench.data.collect import load_sources
from mcbench.data.config import BuildConfig, load_config
from mcbench.data.decontaminate import DecontaminateConfig
from mcbench.data.difficulty import DifficultyConfig
from mcbench.data.report import examples, inspect, overlap
from mcbench.data.storage import decode, iter_dataset, read_manifest
from mcbench.errors import UserError

from . import published
from .generated import generate
from .published import jsonl, parquet

DEFECTS = ["html", "cut_off", "short", "copy", "contaminated"]
POOL = plant(generate(60), share=0.05, defects=DEFECTS)


def config(folder, **options):
    # Few problems made from few sentences have much in common.
    overlap = DecontaminateConfig(min_share=0.6)
    given = {"workers": 1, "skip": ("verify",), "decontaminate": overlap, **options}
    out, cache = str(folder / "out"), str(folder / "cache")
    return BuildConfig(name="set", out=out, cache=cache, **given)


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(config(tmp_path_factory.mktemp("built")), POOL.records, POOL.evaluation)


def test_against_a_cut_evaluation_set_nothing_is_built(tmp_path):
    path = parquet(tmp_path / "test.parquet", published.humaneval())
    path.write_bytes(path.read_bytes()[:-100])
    against = ({"adapter": "humaneval", "path": str(path)},)
    with pytest.raises(StageFailed, match=r"decontaminate: humaneval/test: .* nothing is clean"):
        build(config(tmp_path, against=against), POOL.records)


def test_every_row_that_is_refused_counts(tmp_path):
    rows = [{"key": "s", "text": f"add, {n}", "io": published.STDIO} for n in range(4)]
    path = jsonl(tmp_path / "rows.jsonl", *rows)
    columns = {"id": "key", "statement": "text", "tests": "io"}
    source = {"adapter": "mapping", "path": str(path), "name": "mine", "columns": columns}
    skip = ("process", "filter", "dedup", "decontaminate", "verify", "difficulty")
    funnel = build(config(tmp_path, sources=(source,), skip=skip)).manifest["funnel"]
    assert (funnel[0]["in"], funnel[0]["out"]) == (4, 1)
    assert funnel[0]["rules"] == {"duplicate_id": {"drop": 3}}


def test_the_funnel_adds_up(built):
    stages = built.manifest["funnel"]
    assert [row["stage"] for row in stages] == [
        "collect", "process", "filter", "dedup", "decontaminate", "predict", "difficulty",
    ]  # fmt: skip
    assert [(row["in"], row["out"]) for row in stages[:5]] == [
        (63, 63), (63, 60), (60, 57), (57, 54), (54, 51),
    ]  # fmt: skip
    for before, after in pairwise(stages):
        assert before["out"] == after["in"]
    assert built.manifest["rows"] == 51
    drops = {
        (stage["stage"], rule): actions["drop"]
        for stage in built.manifest["funnel"]
        for rule, actions in stage["rules"].items()
        if "drop" in actions
    }
    assert drops == {
        ("process", "completeness"): 3,
        ("filter", "length"): 3,
        ("dedup", "near_duplicate"): 3,
        ("decontaminate", "contaminated"): 3,
    }


def test_dropped_records_are_shown_with_the_reason(built):
    shown = examples(built.out, per_rule=1)
    assert [row["rule"] for row in shown] == [
        "completeness", "length", "near_duplicate", "contaminated",
    ]  # fmt: skip
    hit = shown[-1]
    assert "evaluation/generated" in hit["detail"]
    assert "of evaluation/generated" in hit["detail"]
    assert overlap(built.out) == {("generated", "generated"): 3}
    text = inspect(built.out)
    assert "near-duplicates (dropped from, kept in):" in text
    assert hit["detail"][:40] in text


def test_the_set_is_a_hub_data_set(built, tmp_path):
    import datasets

    loaded = datasets.load_dataset(str(built.out), split="train", cache_dir=str(tmp_path))
    assert [decode(row) for row in loaded] == list(iter_dataset(built.out))
    header = yaml.safe_load((built.out / "README.md").read_text().split("---")[1])
    assert header["configs"][0]["data_files"] == "data/train-*.parquet"


def test_a_changed_file_is_noticed(built, tmp_path):
    out = tmp_path / "out"
    for name, data in files(built.out).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
    inspect(out)
    (out / "data/train-00000.parquet").write_bytes(b"other")
    with pytest.raises(UserError, match="not the file that was built"):
        inspect(out)
    (out / "manifest.json").unlink()
    with pytest.raises(UserError, match="no finished data set"):
        inspect(out)


def test_workers_and_folders_change_no_byte(built, tmp_path):
    again = build(config(tmp_path, workers=2), POOL.records, POOL.evaluation)
    assert files(again.out) == files(built.out)


SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from data.test_build import POOL, build, config
replace, writes = Path.replace, 0
def dying(path, target):
    global writes
    writes += 1
    if writes == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)
Path.replace = dying
build(config(Path({folder!r})), POOL.records, POOL.evaluation)
"""


@pytest.mark.slow
@pytest.mark.parametrize("last", [4, 22])
def test_killed_and_started_again_it_gives_the_same_bytes(built, tmp_path, last):
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), last=last, folder=str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "out/manifest.json").exists()
    again = build(config(tmp_path), POOL.records, POOL.evaluation)
    assert files(again.out) == files(built.out)


def test_a_set_of_which_nothing_is_left_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"is left; filter/\w+ dropped 4 \(such as: .+\)"):
        build(config(tmp_path), [replace(r, statement="Read and print.") for r in POOL.records[:4]])
    with pytest.raises(UserError, match="needs sources"):
        build(config(tmp_path))


def test_repeated_ids_cost_a_line(tmp_path):
    record = next(iter(generate(1)))
    built = build(config(tmp_path), [record, record])
    assert built.manifest["funnel"][0] == {
        "stage": "collect", "in": 2, "out": 1, "rules": {"duplicate_id": {"drop": 1}},
    }  # fmt: skip


def test_difficulty_is_selected_to_a_distribution(tmp_path):
    target = {"easy": 0.2, "medium": 0.3, "hard": 0.5}
    options = config(tmp_path, difficulty=DifficultyConfig(target=target, keep_source_labels=False))
    built = build(options, POOL.records, POOL.evaluation)
    assert built.manifest["difficulty"]["before"] == {"easy": 17, "medium": 17, "hard": 17}
    assert built.manifest["counts"]["difficulty"] == {"easy": 6, "medium": 10, "hard": 17}


# Configuration and command line ------------------------------------------------------------------


def test_configuration_from_yaml(tmp_path):
    path = tmp_path / "build.yaml"
    path.write_text(
        "name: mine\nout: out\nskip: [verify]\nsources: [{adapter: taco, path: x}]\n"
        "filter: {min_tests: 3, first_date: 2024-01-01, max_test_kb: 64}\n"
        "process: {translator: {base_url: 'http://localhost:1/v1', model: m}}\n"
        "difficulty: {target: {easy: 0.5, hard: 0.5}, size: 10}\n"
    )
    found = load_config(path)
    assert found.filter.first_date == "2024-01-01"
    assert (found.filter.max_test_kb, found.filter.min_tests) == (64.0, 3)
    assert found.process.translator.model == "m"
    assert found.difficulty.size == 10
    assert found.sources == ({"adapter": "taco", "path": "x"},)


def test_the_documented_configuration_is_one(tmp_path):
    path = tmp_path / "build.yaml"
    path.write_text(textwrap.dedent(data_config.__doc__.split("section:\n")[1]))
    found = load_config(path)
    assert found.difficulty.target == {"easy": 0.2, "medium": 0.4, "hard": 0.4}
    load_sources([*found.sources, *found.against])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x", "build.yaml: 'out' is missing"),
        ("[1]", "must be a mapping"),
        ("", "must be a mapping of names to values, got nothing"),
        ("name: [", "is neither YAML nor JSON"),
        ("{name: x, out: y, sauces: []}", "unknown field 'sauces'; .*allowed: .*sources"),
        ("{name: x, out: y, skip: [polish]}", "unknown skip 'polish'; allowed: .*process, verify"),
        ("{name: x, out: y, workers: two}", "workers must be a whole number, got 'two'"),
        ("{name: x, out: y, workers: true}", "workers must be a whole number, got True"),
        (
            "{name: x, out: y, filter: {min_tests: 0}}",
            "filter: min_tests must be greater than 0, got 0",
        ),
        ("{name: x, out: y, dedup: {threshold: 2}}", "dedup: threshold must be at most 1"),
        (
            "{name: x, out: y, verify: {repeats: 0}}",
            "verify: repeats must be greater than 0",
        ),
        ("{name: x, out: y, difficulty: {weights: {bloom: 1}}}", "unknown difficulty dimension"),
        ("{name: x, out: y, difficulty: {target: {easy: 0.5}}}", "must sum to 1"),
        ("{name: x, out: y, sources: {}}", "sources must be a list"),
    ],
)
def test_mistakes_in_a_configuration_are_named(tmp_path, text, message):
    path = tmp_path / "build.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        load_config(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")


def test_every_field_of_a_resolved_configuration_is_read_back(built):
    resolved = built.manifest["config"]
    found = BuildConfig.read({**resolved, "out": "o"}, "manifest").model_dump(mode="json")
    assert {name: found[name] for name in resolved} == resolved
    assert found.keys() - resolved.keys() == {"out", "cache", "workers"}


def test_the_manifest_is_read_back(built):
    assert read_manifest(built.out) == json.loads(json.dumps(built.manifest))


@pytest.mark.parametrize("what", ["out", "cache"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_read(tmp_path, what):
    (tmp_path / "file").write_text("")
    paths = {"out": tmp_path / "out", "cache": tmp_path / "cache", what: tmp_path / "file" / "x"}
    config = BuildConfig(name="a", workers=1, **{name: str(path) for name, path in paths.items()})
    with pytest.raises(UserError, match=rf"^{what} .* cannot be written to: Not a directory$"):
        build(config, iter(lambda: pytest.fail("read"), None))
