"""pass@k by hand, its interval, and the table."""

import itertools

import pytest

from mcbench.errors import UserError
from mcbench.runs.scores import (
    EvalResult,
    cells_of,
    pass_at_k,
    score,
    summary,
    table_text,
)


def rows(*passes, attempts=4, **about):
    return [{"passes": c, "attempts": attempts, **about} for c in passes]


def result(per_problem, attempts=2):
    return EvalResult(96, 1.0, attempts, 0.5, 50.0, 0.25, 0.3, tuple(per_problem))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 2), (5, 3, 2), (6, 0, 3), (6, 6, 1), (4, 2, 4)])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_pass(n, c, k):
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_refuses_more_than_there_are():
    with pytest.raises(UserError, match="pass@5 needs 1 <= k <= attempts"):
        pass_at_k(4, 1, 5)
    with pytest.raises(UserError, match="5 of 4 attempts cannot have passed"):
        pass_at_k(4, 5, 1)


def test_scores_by_hand():
    assert score(rows(4, 0, 2, 2)).value == pytest.approx(0.5)
    assert score(rows(2, 0), k=2).value == pytest.approx((1 - 1 / 6) / 2)  # 1 - C(2,2)/C(4,2)
    assert score([*rows(4), *rows(0, attempts=1)], k=2).problems == 1
    with pytest.raises(UserError, match="no problem has 5 judged attempts"):
        score(rows(4), k=5)


def test_the_interval_is_that_of_the_mean_over_problems():
    interval = score(rows(*[4] * 50, *[0] * 50))
    assert interval.low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.01)
    assert interval.high == pytest.approx(0.5 + 1.96 * 0.05, abs=0.01)
    certain = score(rows(4, 4, 4))
    assert (certain.low, certain.high) == (1.0, 1.0)


def test_a_summary_says_what_was_lost():
    lines = summary(result([*rows(2, 0, attempts=2), *rows(1, attempts=1)]))
    assert lines[0].startswith("up to 96 tokens: pass@1 66.7% (")
    assert "pass@2 50.0% (" in lines[0]
    assert lines[1] == "  mean length 50, truncated 25.0%, Distinct-4 0.300"
    assert lines[2].startswith("  1 attempts are not counted")
    assert "nothing was judged" in summary(result(rows(0, attempts=0)))[0]


ROWS = [
    *rows(1, attempts=2, form="stdin", difficulty="easy", kind="atcoder"),
    *rows(0, attempts=2, form="stdin", difficulty="hard", kind="atcoder"),
    *rows(2, attempts=2, form="call", difficulty="hard", kind="leetcode"),
    *rows(0, attempts=0, form="call", difficulty="medium", kind="leetcode"),  # nothing judged
]


def test_the_table_has_the_papers_shape():
    cells = cells_of(ROWS, "kind", "LiveCodeBench")
    assert cells == {
        ("atcoder", "easy"): 50.0,
        ("atcoder", "hard"): 0.0,
        ("atcoder", "all"): 25.0,
        ("leetcode", "hard"): 100.0,
        ("leetcode", "all"): 100.0,
        ("LiveCodeBench", "easy"): 50.0,
        ("LiveCodeBench", "hard"): 50.0,
        ("LiveCodeBench", "all"): 50.0,
    }
    lines = table_text({"base": cells, "trained": {("atcoder", "easy"): 75.0}}).splitlines()
    assert lines[0].split() == ["atcoder", "leetcode", "LiveCodeBench"]
    assert lines[1].split() == ["easy", "hard", "all", "hard", "all", "easy", "hard", "all"]
    assert lines[3].split() == ["trained", "75.0", *"-------"]


def test_forms_stand_for_the_platforms():
    cells = cells_of(ROWS, "form", "all")
    assert [source for source, level in cells if level == "all"] == ["stdin", "call", "all"]
