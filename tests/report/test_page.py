from pathlib import Path

import pytest
from mcbench.report.results import headline, results_page, verdicts

from mcbench.errors import UserError
from mcbench.report import figures
from mcbench.report.base import Figure
from mcbench.report.page import (
    Entry,
    Page,
    Panel,
    Plot,
    Section,
    build_index,
    build_page,
    script_json,
    write_page,
)
from mcbench.report.series import group_runs
from mcbench.report.style import KNOWN, arm_styles

from .synthetic import make_record, make_records


def small(page_src: str | None = "assets/plotly.min.js", **meta: object) -> str:
    records = [make_record(arm, 0, steps=20, **meta) for arm in ("grpo", "microcoder")]
    return build_page(results_page(records, "make demo"), page_src)


def test_same_records_give_the_same_bytes() -> None:
    assert small(None) == small(None)


def test_page_carries_everything_itself() -> None:
    html = small(None)
    assert html.count("<script src") == html.count("<link") == html.count("@import") == 0
    assert "plotly.js v" in html
    for needed in ("no evidence about Qwen3", "make demo", "0123456789", "Δ", "2.13.0"):
        assert needed in html


def test_text_from_outside_never_becomes_markup() -> None:
    evil = "</script><script>alert(1)</script>"
    html = small(commit=evil, run_id=evil, versions={evil: evil})
    assert "alert(1)</script>" not in html
    assert "</script>" not in script_json({evil: [evil, "\u2028"]})


def test_one_seed_is_called_exploratory_and_has_no_interval() -> None:
    arms = group_runs(make_records(seeds=1))["nano-s"]
    tiles, sentence = headline(arms, 128)
    assert [tile.name for tile in tiles][1:] == ["GRPO", "GRPO+ (DAPO)", "MicroCoder-GRPO"]
    assert "no interval" in sentence
    assert "exploratory" in sentence


def test_every_model_and_test_length_gets_a_verdict() -> None:
    sizes = group_runs(make_records(seeds=3))
    lines = verdicts(sizes)
    assert [line.split(": ")[0] for line in lines] == [
        f"{size}, up to {length} tokens" for size in sizes for length in (128, 256)
    ]
    assert all("95 % interval" in line for line in lines)


def test_figures_share_arm_colours_and_mark_arms_for_switching() -> None:
    arms = group_runs(make_records(seeds=3))["nano-s"]
    for figure in (figures.accuracy(arms, 128), figures.entropy(arms), figures.masked_share(arms)):
        named = {t["legendgroup"]: t["line"] for t in figure.data if t["showlegend"]}
        assert {arm: line["color"] for arm, line in named.items()} == {
            arm: KNOWN[arm].color for arm in arms
        }
        assert len({line["dash"] for line in named.values()}) == 3
        assert figure.layout["xaxis"]["title"]["text"]
        assert figure.layout["yaxis"]["title"]["text"]


def test_unknown_arms_get_styles_of_their_own() -> None:
    styles = arm_styles(["grpo", "rho 0.1", "rho 0.2"])
    assert len({(style.color, style.dash) for style in styles.values()}) == 3


def test_changed_arms_are_told_apart() -> None:
    plain = make_record("grpo", 0)
    changed = make_record("grpo", 0, steps=20, settings={"epsilon_high": 0.3})
    assert list(group_runs([plain, changed])["nano-s"]) == ["grpo", "grpo (epsilon_high=0.3)"]


def test_no_evaluation_is_an_error_for_people() -> None:
    record = make_record("grpo", 0)
    record.eval_lines.clear()
    with pytest.raises(UserError, match="no evaluation"):
        results_page([record], "make demo")


def test_two_figures_with_one_id_are_refused() -> None:
    plots = [Plot("same", "", Figure()), Plot("same", "", Figure())]
    page = Page("t", "k", "l", [Section("s", "s", panels=[Panel("p", "", plots)])])
    with pytest.raises(UserError, match="same"):
        build_page(page)


def test_write_page_makes_the_folder_and_names_the_file(tmp_path: Path) -> None:
    page = Page("t", "k", "l", [])
    path = write_page(page, tmp_path / "a" / "b.html", "assets/plotly.min.js")
    assert path.is_absolute()
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_index_links_its_pages() -> None:
    html = build_index([Entry("results.html", "A <b>", "three arms")])
    assert 'href="results.html"' in html
    assert "A &lt;b&gt;" in html
    assert "no evidence about Qwen3" in html
