"""The peers' rules give their published verdicts, mistakes included."""

import json
import random

import pytest

from benchmarks.peer_rules import PEERS as MEASURED
from benchmarks.suite import COMPARISONS
from mcbench.errors import UserError
from mcbench.evaluator import outputs_match
from mcbench.evaluator.rule_sets import RULE_SETS

PEERS = ("livecodebench", *MEASURED)

# expected, actual, the rule sets that accept, by initials: microcoder and the peers in their order
VERDICTS = [
    ("1 2\n", "1 2", "mldvs"),
    ("1 2", "1 3", ""),
    ("a b", "a  b", "md"),
    ("1\n2", "1 2", "md"),
    ("1\n2", "1\n\n2", "mdv"),
    ("YES", "NO", "d"),
    ("YES", "yes", "mds"),
    ("abc", "xyz", "d"),
    ("abc", "ABC", "ds"),
    ("1 2", "2112", "d"),
    ("1\n2", "12", "d"),
    ("1\n2", "2\n1", "d"),
    ("100000", "100001", "d"),
    ("100000", "100001.0", "dv"),
    ("200000", "200001", "ds"),
    ("5", "5.0", "ldvs"),
    ("1000", "1_000", "ldvs"),
    ("0.333333333333", "0.3333333333333333", "mdvs"),
    ("0.5 0.25", "0.50 0.250", "mld"),
    ("0.5 0.25", "0.5000000001 0.25", "md"),
    ("0.5", "0.5001", ""),
    ("0.5", "nan", ""),
    ("1 2 3", "1 2", ""),
    ("1\n2\n3", "1\n2", ""),
    ("", "", "mldvs"),
    ("1", "", ""),
    ("snan 1", "snan 2", ""),  # Decimal cannot compare them
    ([1, 2], (1, 2), "mldvs"),
    ([[1, 2], [3]], [(1, 2), (3,)], "m"),
    (1, True, "ldvs"),
    (True, 1, "ldvs"),
    (0.3, 0.1 + 0.2, "m"),
    ({"1": 2}, {1: 2}, "mdvs"),
    ({"a": 1}, {"a": 1}, "mldvs"),
    ([1, 2], 1, "dvs"),
    ([[1, 2]], (1, 2), "dvs"),
    ([[[1, 2]]], [(1, 2)], "dvs"),
    ({1, 2}, {1, 2}, "mld"),
    (1, "1", ""),
    ([1], None, ""),
]


@pytest.mark.parametrize(("expected", "actual", "accepting"), VERDICTS)
def test_known_verdicts(expected, actual, accepting):
    names = [n for n in RULE_SETS if outputs_match(expected, actual, rules=n)]
    assert "".join(name[0] for name in names) == accepting


def test_peers_ignore_the_options_of_a_test_and_name_themselves():
    for name in PEERS:
        assert not outputs_match("0.5", "0.6", rules=name, atol=1.0)
        assert not outputs_match("0.5", "0.6", rules=name, checker=lambda e, a: True)
    assert tuple(RULE_SETS) == ("microcoder", *PEERS)


def test_unknown_rule_set():
    with pytest.raises(UserError, match="unknown rule set 'fair'; allowed: deepcoder, live"):
        outputs_match("1", "1", rules="fair")


def test_hostile_outputs_neither_raise_nor_hang():
    rng = random.Random(0)
    deep = []
    for _ in range(5000):
        deep = [deep]
    values = [deep, {(1, 2): 3}, b"x", 10**5000, float("nan"), {1.5: 2}, [{"1.5": 2}], [()]]
    texts = [
        "1e999999999",
        "nan nan",
        "9" * 10**5,
        "\x1c\x85\u2028",
        "\ud800",
        "-" * 10**5,
        "1 " * 10**5,
    ]
    texts += ["".join(chr(rng.randrange(1, 300)) for _ in range(200)) for _ in range(100)]
    for name in RULE_SETS:
        for cases in (values, texts):
            for expected in cases[:12]:
                for actual in cases:
                    outputs_match(expected, actual, rules=name)
        assert not outputs_match("1", "1 " * 10**6, rules=name)


def test_every_peer_errs_in_both_directions_on_the_suite():
    for name in PEERS:
        verdicts = [
            (case.right, outputs_match(case.expected, case.actual, rules=name))
            for case in COMPARISONS
        ]
        assert verdicts.count((True, False)) > 20
        assert verdicts.count((False, True)) > 20


def test_expected_values_pass_through_json_as_in_their_files():
    assert json.loads(json.dumps({1: 2})) == {"1": 2}
    assert not outputs_match({1: 2}, {1: 2}, rules="livecodebench")
    assert outputs_match((1, 2), [1, 2], rules="livecodebench")
