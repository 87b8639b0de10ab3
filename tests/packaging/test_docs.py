"""The documentation: the generated page is current, links lead somewhere, the site builds."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcbench.cli import main
from mcbench.runs.config import CHANGEABLE

ROOT = Path(__file__).parents[2]


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
    for state, _ in re.findall(r'<li data-state="([a-z ]+)".*?<small>(\w+)</small>', index):
        shown[state] += 1
    readme = " ".join((ROOT / "README.md").read_text().split())
    counts = ", ".join(f"{count} {state}" for state, count in shown.items())
    assert counts.replace(" supported", " are supported") in readme


def test_what_is_known_is_short_and_says_whose_it_is():
    readme = (ROOT / "README.md").read_text()
    (known,) = re.findall(r"^\*\*What is known\*\*.*?(?=^\[`docs/results)", readme, re.M | re.S)
    assert len([line for line in known.splitlines() if line]) <= 12
    heads = re.findall(r"^- \*([^*]+):\*", known, re.M)
    assert [head.split(",")[0] for head in heads] == [
        "The paper's", "The paper's", "Ours", "Nobody knows yet",
    ]  # fmt: skip


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
