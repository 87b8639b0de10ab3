"""Our comparison rules, and those of a published evaluator under which runs are trained as well.

Written anew from what their code does with a program's output (the sections say where), with
their mistakes. How a program is run and fed is not part of a rule set. They know no options, so
those of a test are ignored. Common departures: our size limit comes first (they have none), and
whatever makes their comparison raise is a refusal with a reason. Their call tests hold the
expected value as JSON text, so here it is passed through JSON where JSON can express it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from mcbench.errors import unknown
from mcbench.evaluator.checking import run_checker
from mcbench.evaluator.compare import (
    RULE_NAMES,
    Comparison,
    Rules,
    compare_text,
    compare_values,
    far_longer,
)
from mcbench.evaluator.submission import check_rules


@dataclass(frozen=True)
class RuleSet:
    """How another evaluator compares what was printed (``text``) and values, made safe: bounded in
    size, and never raising.
    """

    name: str
    text: Callable[[str, str], bool]
    values: Callable[[Any, Any], bool]

    def compare(self, expected: Any, actual: Any, text: bool) -> Comparison:
        """Whether ``actual`` answers ``expected``: two texts, or two values; in this process."""
        if text and far_longer(expected, actual):
            return Comparison(None, f"{len(actual)} characters, far more than expected")
        wanted, rule = (expected, self.text) if text else (through_json(expected), self.values)
        try:
            accepted = rule(wanted, actual)
        except (ArithmeticError, ValueError, TypeError, RecursionError, LookupError) as error:
            return Comparison(None, f"{self.name}'s comparison raises {type(error).__name__}")
        if accepted:
            return Comparison(self.name)
        return Comparison(None, f"refused by {self.name}'s rules")


def rule_set(name: str) -> RuleSet | None:
    """The rule set of this name; None for our own.

    Raises:
        UserError: there is none.
    """
    if not isinstance(name, str) or name not in RULE_SETS:
        raise unknown("rule set", name, RULE_SETS)
    return RULE_SETS[name]


def outputs_match(expected: Any, actual: Any, *, rules: str = "microcoder", **options: Any) -> bool:
    """Whether ``actual`` answers ``expected``: text if both are str, values otherwise.

    ``rules`` is the name of a rule set; options are those of `mcbench.evaluator.compare.Rules`.

    Raises:
        UserError: an unknown rule set or option, a tolerance that is negative or not finite, a
            checker that is no function.
    """
    if strange := sorted(options.keys() - {*RULE_NAMES, "checker"}):
        raise unknown("comparison option", strange[0], (*RULE_NAMES, "checker"))
    checker = options.pop("checker", None)
    stated = Rules(**options)
    check_rules(stated, checker)
    text = isinstance(expected, str) and isinstance(actual, str)
    if chosen := rule_set(rules):
        return chosen.compare(expected, actual, text).accepted
    if checker is not None:
        return run_checker(checker, expected, actual, None).accepted
    return (compare_text if text else compare_values)(expected, actual, stated).accepted


# What they share ---------------------------------------------------------------------------------


def through_json(value: Any) -> Any:
    """The value as the peers' files hold it; as it is where they cannot."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return value  # sets, bytes, huge integers: their files cannot hold it


def _stripped_lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


# LiveCodeBench -----------------------------------------------------------------------------------
# github.com/LiveCodeBench/LiveCodeBench, lcb_runner/evaluation/testing_util.py


def _livecodebench_text(expected: str, actual: str) -> bool:
    """Line by line, stripped; a line that differs must be equal token by token as decimals.

    Known to be wrong: no tolerance at all, white space inside a line of words and letter case
    count, 1_000 is 1000, 1.0 is 1.
    """
    wanted, got = _stripped_lines(expected), _stripped_lines(actual)
    if len(wanted) != len(got):
        return False
    return all(w == g or _equal_decimals(w, g) for w, g in zip(wanted, got, strict=True))


def _equal_decimals(wanted: str, got: str) -> bool:
    a, e = ([Decimal(token) for token in line.split()] for line in (got, wanted))
    return a == e


def _livecodebench_values(expected: Any, actual: Any) -> bool:
    """== after making a list of a tuple, at the top only.

    Known to be wrong: floats are exact, nested tuples and the keys that JSON changed are refused,
    True is 1. Departure: builtin values only, so that a lying __eq__ has no say here.
    """
    if isinstance(actual, tuple):
        actual = list(actual)
    return bool(actual == expected)


RULE_SETS: dict[str, RuleSet | None] = {
    "microcoder": None,
    "livecodebench": RuleSet("livecodebench", _livecodebench_text, _livecodebench_values),
}
"""By name; None are our own. ``benchmarks/peer_rules.py`` adds those that are only measured."""
