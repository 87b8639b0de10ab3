"""What the browser of responses is sent; what it does with it is tested in a browser
(:mod:`tests.report.test_browser`, :mod:`tests.dashboard.test_jupyterlab`).
"""

import json
from pathlib import Path
from typing import Any

from mcbench.report.dashboard.follower import StoreFollower
from mcbench.report.dashboard.sample_browser import Responses
from mcbench.report.style import arm_styles

from .runs import HOSTILE, begin, responses

TEXTS = ["alpha", "beta", f"gamma {HOSTILE}", "\x1b[31mred\x00\u202egnp.exe", "x" * 300_000, "zeta"]


class Browser:
    """Asks as the page does, and keeps what is answered."""

    def __init__(self, store: StoreFollower) -> None:
        style = arm_styles(["grpo"])["grpo"]
        self.named = {f"Run {n}": (style, store.runs[n]) for n in "abc"}
        self.responses, self.asked = Responses(), dict[str, Any]()
        self.refresh()

    def refresh(self) -> None:
        self.data, self.texts = self.responses.answer(self.asked, self.named)


def browser(root: Path) -> Browser:
    for name, recipe in (("a", "grpo"), ("b", "microcoder")):
        run = begin(root, name, recipe=recipe)
        run.write_completions(1, responses(TEXTS))
        run.write_completions(9, responses(TEXTS[:4]))
    begin(root, "c")
    store = StoreFollower(root)
    store.poll()
    return Browser(store)


def ask(made: Browser, **wanted: Any) -> list[str]:
    """The ids of the rows that come for it."""
    made.asked |= wanted
    made.refresh()
    json.dumps([made.data, made.texts], allow_nan=False)
    return [row["id"] for row in made.data["rows"]]


def test_the_newest_generation_of_the_first_run_comes_first(tmp_path: Path) -> None:
    made = browser(tmp_path)
    assert ask(made) == ["a/9/0", "a/9/1", "a/9/2", "a/9/3"]
    assert made.data["steps"] == [1, 9]
    assert {i: one["stored"] for i, one in made.data["arms"].items()} == {
        "a": True, "b": True, "c": False,
    }  # fmt: skip
    assert len(ask(made, step="1")) == 6
    assert ask(made, run="b", step="latest")[0] == "b/9/0"
    row = made.data["rows"][3]
    assert (row["cut"], row["masked"], row["reward"], row["verdicts"]) == (True, True, 0.0, "AC,WA")
    assert made.data["verdicts"]["WA"] == "wrong answer"


def test_what_the_chosen_run_has_no_generation_of_is_its_last(tmp_path: Path) -> None:
    made = browser(tmp_path)
    last = ["a/9/0", "a/9/1", "a/9/2", "a/9/3"]
    told = {"": "", "latest": "", "9": "", "5": "; these are of step 9, its last."}
    for step, message in told.items():  # nothing is offered yet; its own; another run's
        assert ask(made, step=step) == last
        assert made.data["message"].endswith(message)
        assert bool(made.data["message"]) == bool(message)


def test_another_run_stands_beside(tmp_path: Path) -> None:
    made = browser(tmp_path)
    assert {row["arm"] for row in made.data["rows"]} == {"a"}
    assert ask(made, beside="b", step="1")[::6] == ["a/1/0", "b/1/0"]
    assert ask(made, beside="c") == ask(made, beside="")


def test_texts_come_for_what_is_shown_and_only_as_text(tmp_path: Path) -> None:
    made = browser(tmp_path)
    assert made.texts == {}
    assert "completion" not in made.data["rows"][0]
    ask(made, need=["a/9/2", "a/9/3", "no such"])
    assert made.texts["a/9/2"] == {"prompt": f"prompt 1 {HOSTILE}", "text": f"gamma {HOSTILE}"}
    assert made.texts["a/9/3"]["text"] == "␛[31mred␀⟨U+202E⟩gnp.exe"
    ask(made, step="1", need=["a/1/4"])
    assert made.texts["a/1/4"]["text"].endswith("(100000 more characters)")


def test_tokens_come_where_colours_are_wanted(tmp_path: Path) -> None:
    made = browser(tmp_path)
    assert made.data["probable"]
    ask(made, need=["a/9/1"], colour="levels")
    assert made.texts["a/9/1"]["pieces"] == ["b", "eta"]
    assert made.texts["a/9/1"]["levels"] == "09"


def test_words_are_searched_in_prompts_and_responses(tmp_path: Path) -> None:
    made = browser(tmp_path)
    found = {}
    for words in ("", "alpha", "prompt 1"):
        ask(made, words=words)
        found[words] = made.data["hits"]
    assert found == {"": None, "alpha": ["a/9/0"], "prompt 1": ["a/9/2", "a/9/3"]}


def test_a_step_that_disappears_is_said(tmp_path: Path) -> None:
    made = browser(tmp_path)
    ask(made, step="1")
    (tmp_path / "a" / "completions" / "step_000001.parquet").unlink()
    made.responses._kept.clear()
    made.refresh()
    told = "No responses are stored for step 1 of this run; these are of step 9, its last."
    assert made.data["message"] == told
    for path in tmp_path.glob("*/completions/*"):
        path.unlink()
    made.refresh()
    assert made.data["chosen"] is None
    assert "No responses are stored yet" in made.data["message"]
