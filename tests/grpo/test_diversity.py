import math
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from mcbench.grpo.diversity import (
    distinct_n,
    last_code_block,
    program_key,
    self_bleu,
    unique_share,
)


def ngrams(ids, n):
    return [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]


def brute_distinct(groups, n):
    pooled = [[g for ids in group for g in ngrams(ids, n)] for group in groups]
    return float(np.mean([len(set(grams)) / len(grams) for grams in pooled if grams]))


def brute_self_bleu(group):
    scores = []
    for i, hypothesis in enumerate(group):
        others = [ids for j, ids in enumerate(group) if j != i]
        score, orders = 0.0, range(1, min(4, len(hypothesis)) + 1)
        for n in orders:
            counts = Counter(ngrams(hypothesis, n))
            references = [Counter(ngrams(ids, n)) for ids in others]
            clipped = sum(min(c, max(r[g] for r in references)) for g, c in counts.items())
            score += math.log((clipped or 0.1) / (len(hypothesis) - n + 1)) / len(orders)
        closest = min((abs(len(ids) - len(hypothesis)), len(ids)) for ids in others)[1]
        brevity = 1 if len(hypothesis) >= closest else math.exp(1 - closest / len(hypothesis))
        scores.append(brevity * math.exp(score))
    return float(np.mean(scores))


def random_groups(vocabulary, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, size=(6, 4))
    return [[rng.integers(0, vocabulary, n).tolist() for n in row] for row in sizes]


@pytest.mark.parametrize("vocabulary", [3, 12, 150_000])
def test_against_brute_force(vocabulary):
    groups = random_groups(vocabulary)
    measured = distinct_n(groups)
    assert measured == pytest.approx({n: brute_distinct(groups, n) for n in range(1, 5)})
    assert self_bleu(groups) == pytest.approx(np.mean([brute_self_bleu(g) for g in groups]))


def test_extremes():
    same = [[list(range(10, 30))] * 8]
    assert distinct_n(same)[4] == pytest.approx(1 / 8)  # the floor of G equal responses
    assert self_bleu(same) == pytest.approx(1.0)
    different = [[list(range(20 * i, 20 * i + 20)) for i in range(8)]]
    assert distinct_n(different)[1] == 1.0
    assert self_bleu(different) < 0.01
    assert distinct_n([[[1], [2]], [[3, 3], [3]]], (1, 2)) == {1: (1 + 1 / 3) / 2, 2: 1.0}
    assert math.isnan(distinct_n([[[1], [2]]], (4,))[4])
    assert math.isnan(self_bleu([[[1, 2]]]))


@pytest.mark.parametrize("tokens", range(6))
def test_equal_responses_are_all_alike_however_short(tokens):
    assert self_bleu([[list(range(tokens))] * 4]) == pytest.approx(1.0)


def test_short_responses_that_differ():
    assert self_bleu([[[5], [6], [7]]]) == pytest.approx(0.1)  # one 1-gram, unknown to the others
    assert self_bleu([[[1, 2, 3, 4], [], [1, 2, 3, 4], []]]) == pytest.approx(1.0)
    assert self_bleu([[[1, 2], []]]) == pytest.approx(math.sqrt(0.05 * 0.1) / 2)
    assert self_bleu([[[1, 2], [1, 3]]]) == pytest.approx(math.sqrt(1 / 2 * 0.1))


def test_one_large_group_needs_memory_for_its_tokens():
    """Kinds of n-grams times responses would be 8 x 64 bytes a token, several times."""
    group = list(np.random.default_rng(0).integers(0, 30_000, size=(64, 600)))
    tracemalloc.start()
    self_bleu([group])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300 * 64 * 600


def test_self_bleu_scores_evenly_spread_groups_within_the_budget():
    groups = random_groups(5)
    total = sum(len(ids) for group in groups for ids in group)
    assert self_bleu(groups, token_budget=total // 2) == pytest.approx(
        self_bleu(groups[::3]), rel=1
    )
    assert self_bleu(groups, token_budget=1) == pytest.approx(self_bleu(groups[:1]))


def test_programs_are_compared_without_layout():
    one = 'def f(a):\n    """Add."""\n    # one more\n    return (a + 1)\n'
    same = "def f(a): return a+1"
    renamed = "def f(b): return b+1"
    groups = [[one, same, renamed, None], ["x ==", " x ==\n", "x =", 'print("\\d")'], [None] * 4]
    keys = [[program_key(text) for text in group] for group in groups]
    assert [unique_share([group]) for group in keys] == [2 / 4, 3 / 4, 0.0]
    assert unique_share(keys) == pytest.approx((2 / 4 + 3 / 4) / 3)


@pytest.mark.parametrize(
    "source",
    [
        "x = 0x" + "f" * 5000,  # more digits than Python writes down
        "x = " + "9" * 5000,
        "(" * 500 + ")" * 500,
        "a" + ".b" * 30_000,  # deeper than Python recurses
        "not " * 20_000 + "1",
        "x = '\ud800'",
        "a\0b",
    ],
)
def test_every_response_has_a_key(source):
    assert 0 < program_key(source) < 2**63
    assert program_key(source) == program_key(f" {source}\n") != program_key(source + "7")


def test_last_complete_fenced_block():
    text = "a\n```python\nx = 1\n```\nb\n```\ny = 2\n```\n```python\nunfinished"
    assert last_code_block(text) == "y = 2\n"
    assert last_code_block("no block") is None
    started = time.process_time()
    assert last_code_block("```x\n" * 20_000) is None
    assert time.process_time() - started < 2  # linear: quadratic takes half a minute
