"""Every labelled comparison under our rules: nothing wrong accepted, nothing right refused."""

from collections import Counter

from benchmarks.suite import COMPARISONS
from mcbench.evaluator import outputs_match


def test_the_suite_is_large_balanced_and_named():
    labels = Counter(case.right for case in COMPARISONS)
    assert min(labels[True], labels[False]) >= 150
    assert len(COMPARISONS) >= 320
    assert len({case.id for case in COMPARISONS}) == len(COMPARISONS)


def test_no_false_accept_and_no_false_reject():
    wrong = [
        case.id
        for case in COMPARISONS
        if outputs_match(case.expected, case.actual, **case.options) != case.right
    ]
    assert not wrong


def test_a_right_output_matches_itself():
    plain = [case for case in COMPARISONS if "checker" not in case.options]
    assert all(outputs_match(c.expected, c.expected, **c.options) for c in plain)
    assert all(outputs_match(c.actual, c.actual, **c.options) for c in plain)
