"""The nano problems with several valid output formats, judged by two sets of rules."""

import pytest

from mcbench.evaluator import outputs_match
from mcbench.worlds.formats import load_formats, with_formats, write_float, write_list
from mcbench.worlds.problems import load_split


@pytest.fixture(scope="module")
def pairs():
    """The problems of nano and these, to train on."""
    return tuple(zip(load_split("train"), load_formats("train"), strict=True))


def accepted(problem, changed, rules: str) -> bool:
    """Whether what the reference program prints is accepted on every test."""
    return all(
        outputs_match(
            test["expected"],
            printed["expected"],
            rules=rules,
            **{name: test[name] for name in ("atol",) if name in test},
        )
        for printed, test in zip(problem.tests, changed.tests, strict=True)
    )


def test_only_expected_outputs_and_ids_differ_from_nano(pairs):
    for problem, changed in pairs:
        assert changed.statement == problem.statement
        assert changed.id == problem.id.replace("nano/", "nano-formats/")
        assert [t.get("stdin") for t in changed.tests] == [t.get("stdin") for t in problem.tests]
        if changed.metadata["format"] == "plain":
            assert changed.tests == problem.tests
        else:
            assert problem.form == "stdin"
    assert {c.metadata["format"] for _, c in pairs} == {"plain", "lines", "spaces", "float"}


def test_the_other_formats():
    assert write_list("1 2 3\n", "\n") == "1\n2\n3\n"
    assert write_list("1 2\n", "  ") == "1  2\n"
    assert [write_float(t) for t in ("5\n", "0\n", "-3\n", "\n")] == [
        "4.999999999999\n",
        "0.000000000001\n",
        "-2.999999999999\n",
        "\n",
    ]


def test_our_rules_accept_every_reference_and_livecodebench_s_reject_a_quarter(pairs):
    """The calibration: references only, whole train split, 375 of 1500."""
    assert all(accepted(*pair, rules="microcoder") for pair in pairs)
    rejected = [c for p, c in pairs if not accepted(p, c, rules="livecodebench")]
    assert len(rejected) / len(pairs) == 0.25
    assert {c.metadata["format"] for c in rejected} == {"lines", "float"}


def test_an_answer_that_is_off_by_one_stays_wrong(pairs):
    changed = next(c for _, c in pairs if c.metadata["format"] == "float")
    for test in changed.tests:
        wrong = str(round(float(test["expected"])) + 1)
        assert not outputs_match(test["expected"], wrong, atol=test["atol"])


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_choice_depends_on_the_problem_alone(split):
    problems = load_split(split)[::-1]
    assert with_formats(problems)[::-1] == load_formats(split)
