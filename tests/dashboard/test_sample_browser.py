"""Choosing, filtering and comparing responses; whatever they hold stays text."""

import threading
from pathlib import Path
from typing import Any

from mcbench.report.dashboard.follower import StoreFollower
from mcbench.report.dashboard.sample_browser import SampleBrowser

from .runs import HOSTILE, begin, responses

TEXTS = ["alpha", "beta", f"gamma {HOSTILE}", "\x1b[31mred\x00\u202egnp.exe", "x" * 100_000, "zeta"]


def browser(root: Path) -> SampleBrowser:
    for name, recipe in (("a", "grpo"), ("b", "microcoder")):
        run = begin(root, name, recipe=recipe)
        run.write_completions(1, responses(TEXTS))
        run.write_completions(9, responses(TEXTS[:4]))
    store = StoreFollower(root)
    store.poll()
    named = {"GRPO, seed 0": ("GRPO", store.runs["a"]), "Micro, seed 0": ("M", store.runs["b"])}
    made = SampleBrowser(lambda: named, threading.RLock())
    made.refresh()
    return made


def shown(made: SampleBrowser) -> list[list[int]]:
    """The numbers of the responses, column by column."""
    return [[r["number"] for r in column["responses"]] for column in made.view.view["columns"]]


def test_steps_problems_and_filters(tmp_path: Path) -> None:
    made = browser(tmp_path)
    assert made.view.view["columns"][0]["title"] == "GRPO, seed 0, step 9: 1 of 2 right"
    made.step.value = 1
    assert len(made.problem.options) == 3
    made.next.click()
    assert made.problem.value == 1
    made.verdict.value = "WA"
    assert shown(made) == [[2]]
    made.verdict.value = "right"
    assert shown(made) == [[1]]
    made.verdict.value = "any"
    made.masked.value = True
    assert made.problem.options == (("3. p2: 1 of 2 right", 2),)
    assert made.view.view["columns"][0]["responses"][0]["words"] == "wrong, cut, masked"
    made.truncated.value = False
    assert made.view.view == {"message": "No response fits the filters."}
    made.masked.value = made.truncated.value = "any"
    made.search.value = "ALPHA"
    assert made.problem.options == (("1. p0: 1 of 2 right", 0),)
    assert shown(made) == [[1]]


def test_the_same_problem_in_two_arms(tmp_path: Path) -> None:
    made = browser(tmp_path)
    made.beside.value = "b"
    assert shown(made) == [[1, 2], [1, 2]]
    made.arm.value = "M"
    assert made.run.value == "b"
    assert [value for _, value in made.beside.options] == ["", "a"]


def test_per_test_details_and_token_probabilities(tmp_path: Path) -> None:
    made = browser(tmp_path)
    wrong: dict[str, Any] = made.view.view["columns"][0]["responses"][1]
    assert wrong["verdicts"] == ["AC", "WA"]
    assert wrong["meanings"] == ["accepted", "wrong answer"]
    assert wrong["why"] == "Test 2: wrong answer; later tests were not run."
    assert "pieces" not in wrong
    made.colored.value = True
    colored = made.view.view["columns"][0]["responses"][1]
    assert colored["pieces"] == ["b", "eta"]
    assert colored["logprobs"] == [-0.1, -3.0]


def test_control_characters_are_spelled_out(tmp_path: Path) -> None:
    made = browser(tmp_path)
    made.problem.value = 1
    texts = [r["text"] for r in made.view.view["columns"][0]["responses"]]
    assert HOSTILE in texts[0]  # as text: the page never parses it
    assert texts[1] == "␛[31mred␀⟨U+202E⟩gnp.exe"


def test_a_step_that_disappears_is_said(tmp_path: Path) -> None:
    made = browser(tmp_path)
    made.step.value = 1
    for path in (tmp_path / "a" / "completions").iterdir():
        path.unlink()
    made.refresh()
    assert made.run.value == "b"
    for path in (tmp_path / "b" / "completions").iterdir():
        path.unlink()
    made.refresh()
    assert "No responses are stored yet" in made.view.view["message"]
