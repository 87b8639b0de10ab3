"""The documentation: the generated page is current, links lead somewhere, the site builds."""

import asyncio
import importlib
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcbench.cli import main
from mcbench.runs.config import CHANGEABLE

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s]+)")


def test_the_settings_page_is_what_the_configuration_says(capsys):
    assert main(["settings", "--markdown"]) == 0
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == capsys.readouterr().out, "run: mcbench settings --markdown > docs/settings.md"
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == [
        name
        for family in dict.fromkeys(re.findall(r"^## (.*)$", page, re.MULTILINE))
        for name in CHANGEABLE
        if f"## {family}" in page and _family(name) == family.lower()
    ]
    assert "| `mask_ratio` |" in page
    assert "number from 0 to 1" in page
    for name, default in (("beta", "0.0"), ("temperature", "1.0"), ("checkpoint_generations", "1")):
        (row,) = re.findall(rf"^\| `{name}`.*$", page, re.MULTILINE)
        assert re.search(rf"\| (\w+: )?{re.escape(default)} \|", row), row


def _family(name):
    from mcbench.runs.config import family_of

    return family_of(name).lower()


def test_the_readme_counts_the_states_that_the_committed_pages_show():
    index = (ROOT / "reports" / "index.html").read_text()
    shown = dict.fromkeys(("supported", "contradicted", "mixed", "inconclusive"), 0)
    for state, _ in re.findall(
        r'<li id="[^"]*" data-state="([a-z ]+)".*?<small>(\w+)</small>', index
    ):
        shown[state] += 1
    readme = " ".join((ROOT / "README.md").read_text().split())
    counts = ", ".join(f"{count} {state}" for state, count in shown.items())
    assert counts.replace(" supported", " are supported") in readme


def test_what_is_known_is_ten_sentences_with_intervals_and_whose_they_are():
    """And the longer ones of results.md have the same intervals."""
    told = [(ROOT / name).read_text() for name in ("README.md", "docs/results.md")]
    known, long = (
        re.findall(r"^\d+\. .*?(?=^\d+\. |^$)", text.split("What is known")[1], re.M | re.S)
        for text in told
    )
    assert len(known) == 10 == len(long)
    for short, whole in zip(known, long, strict=True):
        for interval in re.findall(r"[−\d.]+ to [\d.−]+(?=[;)])", short):
            assert interval in whole, short
    assert sum(" to " in one for one in known) >= 9
    assert "are of the paper, the others ours" in told[0]


def test_what_is_told_of_round_2_is_what_its_records_say():
    frozen = json.loads((ROOT / "tests" / "claims" / "frozen.json").read_text())
    page = (ROOT / "docs" / "results.md").read_text()
    told = {
        row[0]: row[2:] for row in re.findall(
            r"^\| (H\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| (\w+)", page, re.M)
    }  # fmt: skip
    found = {}
    for name, one in frozen.items():
        if name.startswith("round 2 "):
            state, _, value, low, high, _ = one
            ends = f"{low:.1f} to {high:.1f}".replace("-", "−")
            state = "open" if state == "inconclusive" else state
            found[name.removeprefix("round 2 ")] = (f"{value:.1f}".replace("-", "−"), ends, state)
    assert told == found


def examples():
    """The Python of the trainer's page, in order."""
    page = (ROOT / "docs" / "trainer.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_the_trainer_s_page_has_every_option():
    from trl import GRPOConfig

    from mcbench.grpo import MicroCoderGRPOConfig

    page = (ROOT / "docs" / "trainer.md").read_text()
    theirs = GRPOConfig.__dataclass_fields__
    ours = [name for name in MicroCoderGRPOConfig.__dataclass_fields__ if name not in theirs]
    assert [name for name in ours if f"`{name}`" not in page] == []
    for example in examples():
        compile(example, "docs/trainer.md", "exec")


@pytest.mark.slow
def test_the_first_example_of_the_trainer_s_page_masks_a_response(tmp_path):
    (tmp_path / "first.py").write_text(examples()[0])
    done = subprocess.run(
        [sys.executable, "first.py"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    updates = re.findall(
        r"^update \d: of 32 (\d+) right, (\d+) cut, (\d+) masked", done.stdout, re.M
    )
    assert len(updates) == 3
    assert all(0 < int(right) < 32 for right, _, _ in updates), "mixed rewards"
    assert "[cut: reward 0, advantage 0]" in done.stdout


def test_the_reward_of_the_asynchronous_trainer_is_made_where_it_is_used(tmp_path, monkeypatch):
    """TRL pickles it, and calls it in a child of its own."""
    (tmp_path / "worker.py").write_text(examples()[-1].replace("workers=8", "workers=1"))
    monkeypatch.syspath_prepend(tmp_path)
    worker = importlib.import_module("worker")
    again = pickle.loads(pickle.dumps(worker.code))
    program = "```python\nprint(int(input()) + 1)\n```"
    tests = json.dumps([{"stdin": "1", "expected": "2"}])
    columns = {"form": ["stdin"] * 2, "fn_name": [None] * 2, "tests": [tests] * 2}
    try:
        found = asyncio.run(again(["a", "a"], [program, "no"], **columns))
    finally:
        worker.own_reward().evaluator.close()
    assert found == [1.0, 0.0]


@pytest.mark.slow
def test_the_site_builds_strictly_and_asks_for_nothing_from_a_network(tmp_path):
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs is not installed; make docs brings it")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.name: path.read_text() for path in site.glob("*.html")}
    assert {"index.html", "trainer.html", "evaluator.html", "settings.html", "api.html"} <= set(
        pages
    )
    asked = re.compile(r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?://[^\">\s]+)")
    assert not {name: found for name, page in pages.items() if (found := asked.findall(page))}
    api = pages["api.html"]
    for name in ("mcbench.comparison.compare", "mcbench.evaluator.adapters.verl_score"):
        assert f'id="{name}"' in api
    assert ":func:" not in api


@pytest.mark.parametrize("folder", ["notebooks", "docs", "."])
def test_no_document_links_to_a_file_that_is_not_there(folder: str) -> None:
    root = ROOT / folder
    found = [*root.glob("*.md"), *root.glob("*.ipynb")]
    assert found
    links = [(path, one) for path in found for one in LINK.findall(path.read_text())]
    local = [(path, one) for path, one in links if not one.startswith(("http", "mailto:"))]
    assert not [(path.name, one) for path, one in local if not (path.parent / one).exists()]


def test_no_page_links_to_a_file_that_is_not_there():
    pages = sorted((ROOT / "reports").glob("*.html"))
    local = [
        (page, link.split("#")[0])
        for page in pages
        for link in re.findall(r'<a [^>]*href="(?!https?:|#)([^"]+)"', page.read_text())
    ]
    assert len(local) > len(pages)
    assert not {(page.name, link) for page, link in local if not (page.parent / link).exists()}
