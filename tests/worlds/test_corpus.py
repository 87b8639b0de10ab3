"""Tokenizer and demonstrations."""

import random
from itertools import islice

from mcbench.worlds import induced
from mcbench.worlds.corpus import MODERN, OLD, Style, demonstrations, hypothesis, induced_response
from mcbench.worlds.tokenizer import FENCE_OPEN, N_INTEGERS, load_tokenizer


def test_encoding_is_lossless():
    tokenizer = load_tokenizer()
    texts = [text for pair in islice(demonstrations(1, MODERN), 300) for text in pair]
    texts += ["while True:\n\tpass", " 1234 -7 {}[]~|`", "".join(map(chr, range(32, 127)))]
    for text in texts:
        ids = tokenizer(text).input_ids
        assert tokenizer.decode(ids) == text.replace("\t", tokenizer.unk_token)


def test_every_integer_is_one_token():
    tokenizer = load_tokenizer()
    assert all(len(tokenizer(f" {n}").input_ids) == 1 for n in range(N_INTEGERS))


def test_hypothesis_infers_the_constant_and_checks_the_other_examples():
    examples = ((3, 7), (5, 11), (2, 5), (8, 17))  # 2 * x + 1
    text, k, fits = hypothesis(random.Random(0), 1, examples)
    assert (k, fits) == (1, True)
    assert ": 3 6 7 k 1;" in text
    assert text.count(";") == 3
    text, k, fits = hypothesis(random.Random(0), 0, examples)  # x + 4 fits the first only
    assert (k, fits) == (4, False)
    assert text.count(";") == 1


def test_a_tireless_demonstrator_always_finds_the_function():
    rng, style = random.Random(0), Style(give_up=0.0, loop=0.0)
    for _ in range(100):
        problem = induced.draw(rng, [(f, k) for f in range(16) for k in induced.CONSTANTS])
        response = induced_response(rng, problem, style)
        expr, k = induced.FEATURES[problem.feature].expr, problem.k
        assert f"{expr} + {k}" in response or f"{k} + {expr}" in response


def test_the_older_generation_answers_sooner():
    def length(style: Style) -> int:
        return sum(len(response) for _, response in islice(demonstrations(0, style), 500))

    assert length(OLD) < 0.7 * length(MODERN)


def test_every_finished_demonstration_ends_in_a_program():
    for _, response in islice(demonstrations(2, OLD), 200):
        assert FENCE_OPEN in response
        assert response.endswith("```")
