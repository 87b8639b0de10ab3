"""A sub-agent that searches (SWE-grep): F0.5 by hand, tools, malformed turns, what stays hidden."""

from itertools import islice
from typing import Any

import pytest

from mcbench.data.schema import Problem
from mcbench.evaluator import Evaluator
from mcbench.worlds.multi_turn import episode_means, play
from mcbench.worlds.search import (
    DEFINITION_F05,
    NAMED_F05,
    PHRASES,
    TURNS,
    Search,
    answer_of,
    demonstrations,
    f_beta,
    judge,
    load_search,
    look,
    named,
    program,
    score,
)
from mcbench.worlds.tokenizer import load_tokenizer
from tests.worlds.test_turns import Script

TOKENIZER = load_tokenizer(PHRASES)
FILES = {
    "core/a.py": ["def mint(a):", "    a = fern(a)", "    return elm(a)", "def owl(a):",
                  "    return mint(a)"],
    "util/b.py": ["def elm(a):", "    return sum(a)", "def fern(a):", "    return a[1:]"],
    "test/a.py": ["check(mint)", "check(elm)"],
}  # fmt: skip
PROBLEM = Problem(
    id="search/one", statement="Find mint.\n", form="stdin", source="search",
    tests=({"stdin": "4 5 6\n", "expected": "11\n"},), references=("MARK-1",),
    metadata={"name": "mint", "files": FILES, "note": "MARK-2",
              "needed": [["core/a.py", 1, 3], ["util/b.py", 3, 4], ["util/b.py", 1, 2]]},
)  # fmt: skip
ALL = "answer\ncore/a.py 1 3\nutil/b.py 1 4\n"


@pytest.fixture(scope="module")
def evaluator() -> Any:
    with Evaluator(workers=1) as found:
        yield found


def test_f_of_one_half_by_hand() -> None:
    assert f_beta({1, 2}, {1, 2}) == 1
    assert f_beta({1, 2}, {3}) == f_beta(set(), {1}) == 0
    # P = 1/2, R = 1: 1.25 * .5 / (.125 + 1) = .5556; P = 1, R = 1/2: 1.25 * .5 / .75 = .8333
    assert f_beta({1, 2}, {1}) == pytest.approx(0.5556, abs=1e-4)
    assert f_beta({1}, {1, 2}) == pytest.approx(0.8333, abs=1e-4)
    # 3 of the 7 lines and 1 line too many, 1 of the 2 files: P = 3/4, R = 3/7
    one, wrong = answer_of("answer\ncore/a.py 1 4\n")
    assert wrong == ""
    found = score(one, PROBLEM)
    assert found["files"] == pytest.approx(0.8333, abs=1e-4)
    assert found["lines"] == pytest.approx(1.25 * 0.75 * (3 / 7) / (0.25 * 0.75 + 3 / 7))
    assert found["f05"] == (found["files"] + found["lines"]) / 2


def test_tools_on_text_in_memory() -> None:
    assert look(FILES, "grep mint") == (
        "core/a.py 1: def mint(a):\ncore/a.py 5:     return mint(a)\ntest/a.py 1: check(mint)\n",
        {("core/a.py", 1), ("core/a.py", 5), ("test/a.py", 1)},
    )
    assert look(FILES, "grep (a+)+$") == look(FILES, "read ../etc 1") == ("none\n", set())
    assert look(FILES, "read /etc/passwd 1") == look(FILES, "glob /*") == ("none\n", set())
    assert look(FILES, "glob util/*") == look(FILES, "glob u*.py") == ("util/b.py\n", set())
    text, shown = look(FILES, "read util/b.py 3")  # type: ignore[misc]
    assert (text, len(shown)) == ("util/b.py\n 3: def fern(a):\n 4:     return a[1:]\n", 2)
    many = {"x": ["aaa"] * 9}
    text, shown = look(many, "grep a")  # type: ignore[misc]
    assert text.endswith("x 6: aaa\nmore\n")
    assert len(shown) == 6


MALFORMED = (
    *("", "\n", "grep", "grep ", "read core/a.py", "read core/a.py one", "rm core/a.py", "answer"),
    *("grep mint\nanswer\ncore/a.py 1 3\n", "answer\ncore/a.py 3 1\n", "answer\ncore/a.py\n"),
    *("grep a\n" * 9, "grep " + "a" * 5000, "answer\n" + "core/a.py 1 3\n" * 500, "\x00"),
    *("answer\n\n", "read core/a.py 1111111111", "grep mint\n\ngrep elm", "answer\nx 1 99999\n"),
)


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_turn_ends_the_episode_with_nothing(text: str) -> None:
    search = Search(None)  # nothing is run
    search.reset([PROBLEM])
    (step,) = search.step({0: text}, ()).values()
    assert (step.reward, step.done, step.passed, step.verdict) == (0.0, True, False, "malformed")
    assert step.parts["malformed"] == 1


def test_an_episode_that_is_cut_tells_all_that_an_ended_one_does() -> None:
    search = Search(None)  # nothing is run
    search.reset([PROBLEM] * 2)
    cut, ended = search.step({0: "grep def mint\n", 1: "answer\n"}, {0}).values()
    assert cut.parts.keys() == ended.parts.keys()
    assert (cut.verdict, cut.parts["f05"], cut.parts["f05_3"]) == ("no answer", 0.0, 0.0)
    assert cut.parts["f05_1"] > 0


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("answer\n", "empty"),
        ("answer\ncore/a.py 1 25\n", "too wide"),
        ("answer\n" + "".join(f"f{n} 1 1\n" for n in range(7)), "too wide"),
        ("grep mint\n", "no answer"),
    ],
)
def test_empty_wide_and_missing_answers_are_worth_nothing(text: str, wrong: str) -> None:
    (found,) = judge([PROBLEM], [text], "f05", None)
    assert (found.reward, found.passed, found.message) == (0.0, False, wrong)
    assert found.parts["f05"] == 0


def test_the_solver_needs_every_line_of_every_function(evaluator: Any) -> None:
    named = ("", "core/a.py 1 3\n", "core/a.py 1 2\nutil/b.py 1 4\n",
             "core/a.py 1 5\nutil/b.py 1 4\ntest/a.py 1 2\n", "no/file.py 1 3\n")  # fmt: skip
    texts = [ALL, *(f"answer\n{one}" for one in named[1:])]
    found = judge([PROBLEM] * 5, texts, "tests", evaluator)
    assert [one.reward for one in found] == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert [one.passed for one in found] == [True, False, False, True, False]
    found = judge([PROBLEM] * 2, texts[:2], "f05", evaluator)
    assert found[0].reward == 1.0
    # one of two files, 3 of 7 lines: 1.25 * 3 / (7 / 4 + 3)
    assert found[1].reward == pytest.approx((0.8333 + 3.75 / 4.75) / 2, abs=1e-4)
    assert program(PROBLEM, {("core/a.py", 2)}).startswith("print(mint(")


def test_an_episode_by_hand(evaluator: Any) -> None:
    """F0.5 by turn: what was shown until then; the answer's stands for later turns."""
    first, second = ["grep mint\n", "grep def mint\n"], ["read core/a.py 1\nread util/b.py 1\n"]
    script = Script(
        first, [*second, "answer\ncore/a.py 1 3\n"], ["glob *\n"], [ALL], tokenizer=TOKENIZER
    )

    played = play(Search(evaluator), [PROBLEM] * 2, script, TOKENIZER, 200)
    one, two = played.episodes
    assert (one.reward, one.passed, one.truncated, len(one.turns)) == (1.0, True, False, TURNS)
    # shown: 3 lines of 2 files, one of them needed; then all needed, and two more of 3 files
    assert one.parts["f05_1"] == pytest.approx((0.5 + 1.25 / (7 / 4 + 3)) / 2)
    assert one.parts["f05_2"] == pytest.approx(
        (1.25 * 2 / (2 / 4 + 3) + 1.25 * 7 / (7 / 4 + 10)) / 2
    )
    assert one.parts["f05_3"] == one.parts["f05_2"]
    assert (one.parts["f05"], two.parts["f05_2"], two.parts["f05_3"]) == (
        1, two.parts["f05"], two.parts["f05"]
    )  # fmt: skip
    assert one.turns[0]["observation"].endswith("test/a.py 1: check(mint)\nNext:\n")
    assert one.turns[2]["observation"] == "\ncore/a.py\nutil/b.py\ntest/a.py\nLast:\n"
    own = TOKENIZER.decode([t for t, mine in zip(one.ids, one.own, strict=True) if mine])
    assert own == f"grep mint\n<eos>{second[0]}<eos>glob *\n<eos>{ALL}<eos>"
    assert episode_means(played.episodes)["f05"] == (1 + two.parts["f05"]) / 2
    seen = "".join(text for contexts in script.contexts for text in contexts)
    assert "MARK" not in seen
    assert "11" not in seen


def test_a_spent_budget_is_no_answer(evaluator: Any) -> None:

    script = Script(["grep mint\n"], tokenizer=TOKENIZER)
    length = len(TOKENIZER("grep mint\n")["input_ids"]) + 1
    (one,) = play(Search(evaluator), [PROBLEM], script, TOKENIZER, length).episodes
    assert (one.reward, one.truncated, one.verdicts) == (0.0, True, "no answer")


def test_a_broken_sandbox_is_no_verdict() -> None:
    class Broken:
        def evaluate(self, submissions: Any, early_exit: bool) -> list[Any]:
            return [type("R", (), {"verdicts": ["IE"], "passed": False})() for _ in submissions]

    (found,) = judge([PROBLEM], [ALL], "f05", Broken())
    assert (found.reward, found.passed, found.verdict) == (None, None, "IE")


def test_repositories_queries_and_demonstrations(evaluator: Any) -> None:
    train, test = load_search("train"), load_search("test")
    assert (len(train), len(test)) == (600, 120)
    shown = {repr(one.metadata["files"]) for one in train}
    assert not any(repr(one.metadata["files"]) in shown for one in test)
    for one in (*train, *test):
        assert len(one.metadata["files"]) == 12
        assert one.statement == f"Find {one.metadata['name']}.\n"
    answers = ["answer\n" + "".join("{} {} {}\n".format(*r) for r in one.metadata["needed"])
               for one in test]  # fmt: skip
    assert all(one.reward == 1 for one in judge(test[:20], answers[:20], "f05", evaluator))
    assert all(one.passed for one in judge(test, answers, "tests", evaluator))
    alone = [answer_of(f"answer\n{text.splitlines()[1]}\n")[0] for text in answers]
    for found, worth in ((map(named, test), NAMED_F05), (alone, DEFINITION_F05)):
        values = [score(*pair)["f05"] for pair in zip(found, test, strict=True)]
        assert sum(values) / len(test) == pytest.approx(worth, abs=5e-5)
    for said, text in islice(demonstrations(0), 300):
        assert TOKENIZER.decode(TOKENIZER(said + text)["input_ids"]) == said + text
