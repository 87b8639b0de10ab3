from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcbench.lab.store import Run, RunRecord
from mcbench.report.page import build_page
from mcbench.report.results import results_page
from mcbench.report.samples import choose_problems, samples_section, visible

from .synthetic import make_record

HOSTILE = "</pre></script><script>alert(1)</script>\x00\x1b[31m\u202ered\u202c" + "x" * 100_000


def with_responses(
    folder: Path, arm: str, rewards: list[float], problems: list[str], seed: int = 0
) -> RunRecord:
    """A run that stored one generation of two responses a problem, all of them hostile."""
    record = replace(make_record(arm, seed, steps=20), path=folder / f"{arm}-{seed}")
    count = len(rewards)
    columns: dict[str, list[Any]] = {
        "prompt": [f"<i>{name}</i>" for name in problems for _ in range(2)],
        "completion": [HOSTILE] * count,
        "length": [10] * count,
        "truncated": [False] * count,
        "masked": [False] * count,
        "reward": rewards,
        "advantage": [0.0] * count,
        "verdicts": ["AC"] * count,
        "problem_id": [name for name in problems for _ in range(2)],
        "group": [index for index in range(len(problems)) for _ in range(2)],
    }
    (record.path / "completions").mkdir(parents=True)
    Run(record.path).write_completions(5, columns)
    return record


def test_problems_on_which_arms_differ_come_first(tmp_path: Path) -> None:
    names = ["same", "differs", "never"]
    grpo = with_responses(tmp_path, "grpo", [1, 0, 0, 0, 0, 0], names)
    micro = with_responses(tmp_path, "microcoder", [1, 0, 1, 1, 0, 0], names)
    tables = {"grpo": grpo.completions(5), "microcoder": micro.completions(5)}
    assert choose_problems(tables) == [1, 0, 2]
    section = samples_section("nano-s", "nano-s", {"grpo": [grpo], "microcoder": [micro]})
    assert section is not None
    assert section.markup.index("differs") < section.markup.index("same")
    assert "MicroCoder-GRPO: 2 of 2 right" in section.markup


def test_what_a_model_wrote_is_shown_as_text(tmp_path: Path) -> None:
    record = with_responses(tmp_path, "grpo", [1, 0], ["a"])
    html = build_page(results_page([record], "make demo"), "plotly.js")
    assert "<script>alert" not in html
    assert "<i>a" not in html
    assert not {"\x00", "\x1b", "\u202e"} & set(html)
    assert len(html) < 200_000


def test_cut_text_says_how_much_is_missing() -> None:
    assert visible("ab\tc\n", 10) == "ab\tc\n"
    assert visible("x" * 12, 10).endswith("(2 more characters)")


@pytest.mark.parametrize("problems", [["b"], ["a", "b"]])
def test_arms_that_saw_other_problems_are_not_laid_side_by_side(
    tmp_path: Path, problems: list[str]
) -> None:
    grpo = with_responses(tmp_path, "grpo", [1, 0], ["a"])
    micro = with_responses(tmp_path, "microcoder", [1, 0] * len(problems), problems)
    assert samples_section("s", "s", {"grpo": [grpo], "microcoder": [micro]}) is None


def test_records_without_responses_have_no_section() -> None:
    assert samples_section("s", "s", {"grpo": [make_record("grpo", 0)]}) is None
