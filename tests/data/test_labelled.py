"""Rules on statements in the style of published sources: what drops has to be right."""

from collections import Counter
from dataclasses import replace

import pytest

from mcbench.data.decontaminate import Decontaminate, DecontaminateConfig, Index
from mcbench.data.dedup import Dedup
from mcbench.data.filter import DROPPING, Filter
from mcbench.data.latex import latex_document_to_text
from mcbench.data.process import Process, ProcessConfig
from mcbench.data.schema import Problem

from .generated import generate
from .labelled import CONVERSIONS, PACKAGE, PACKAGE_TEXT, STATEMENTS

BASE = replace(next(generate(1)), language="en")


def problem(statement, **fields):
    return replace(BASE, statement=statement, **fields)


def test_every_rule_that_drops_is_right_in_nine_of_ten_cases():
    right, wrong, missed = Counter(), Counter(), Counter()
    for rule, wanted, statement in STATEMENTS:
        _, log = Filter().run([problem(statement)])
        found = {entry.rule for entry in log}
        right[rule] += wanted and rule in found
        missed[rule] += wanted and rule not in found
        wrong[rule] += not wanted and rule in found
        # Nothing drops for another reason.
        others = [e.rule for e in log if e.action == "drop" and e.rule != rule]
        assert others == [], statement
    dropping = [rule for rule in right if rule in DROPPING]
    assert all(9 * wrong[rule] <= right[rule] for rule in dropping), wrong
    assert sum(missed.values()) == 0, missed


@pytest.mark.parametrize(("what", "before", "after"), CONVERSIONS)
def test_conversions(what, before, after):
    (record,), _ = Process(ProcessConfig(state_form=False)).run([problem(before)])
    assert record.statement.strip() == (after or before)


def test_a_package_s_statement_is_text():
    assert latex_document_to_text(PACKAGE) == PACKAGE_TEXT


def asserted(name, statement, function, *tests):
    made = tuple({"code": f"assert {test}", "entry_point": function} for test in tests)
    return Problem(name, statement, "assert", made, fn_name=function)


def test_variants_of_a_template_are_no_duplicates_and_the_same_tests_are():
    square = asserted("square", "Write a function to find the perimeter of a square.",
                      "square_perimeter", "square_perimeter(10)==40", "square_perimeter(5)==20",
                      "square_perimeter(4)==16")  # fmt: skip
    rhombus = asserted("rhombus", "Write a function to find the perimeter of a rhombus.",
                       "rhombus_perimeter", "rhombus_perimeter(10)==40",
                       "rhombus_perimeter(5)==20", "rhombus_perimeter(4)==16")  # fmt: skip
    pentagon = asserted("pentagon", "Write a function to find the perimeter of a pentagon.",
                        "pentagon_perimeter", "pentagon_perimeter(10)==50",
                        "pentagon_perimeter(5)==25", "pentagon_perimeter(4)==20")  # fmt: skip
    copy = asserted("copy", "How long is the border of a shape with four equal sides at right "
                    "angles?", "square_perimeter", "square_perimeter(4) == 16",
                    "square_perimeter(10) == 40", "square_perimeter(5) == 20")  # fmt: skip
    stage = Dedup()
    found = stage.decide(stage.summarise([square, rhombus, pentagon, copy]))
    assert {i for i, d in found.items() if d.notes[0][0] == "drop"} == {"copy"}


def test_a_text_with_other_tests_is_another_problem():
    round_, angle = (
        asserted(name, f"Decide whether the brackets {pair} of a text are balanced, fast.",
                 "balanced", f"balanced('{pair}')", f"not balanced('{pair[::-1]}')")
        for name, pair in (("round", "()"), ("angle", "<>"))
    )  # fmt: skip
    stage = Dedup()
    assert stage.decide(stage.summarise([round_, angle])) == {}


def test_a_reworded_problem_is_known_by_its_function_and_an_example():
    words = "Return the positions of two entries whose sum is the goal."
    known = Problem("lcb/1", words, "call", ({"args": [[2, 7, 11], 9], "expected": [0, 1]},),
                    fn_name="twoSum")  # fmt: skip
    others = "Which pair of places in the row adds up to what is wanted?"
    example = "\n\n**Input:** nums = [2,7,11], target = 9\n**Output:** [0,1]\n"
    told = Problem("a", others + example, "call", ({"args": [[1, 2], 3], "expected": [0, 1]},),
                   fn_name="twoSum")  # fmt: skip
    tested = asserted("b", others, "twoSum", "twoSum(nums = [2,7,11], target = 9) == [0, 1]")
    else_named = asserted("c", others, "pairOf", "pairOf([2, 7, 11], 9) == [0, 1]")
    else_given = asserted("d", others, "twoSum", "twoSum([2, 7, 12], 9) == [0, 1]")
    drawn, again, other = (  # arguments that tests compute are in no example
        replace(asserted(name, text, "decode", "False"), tests=({
            "code": f"for n in range({tries}):\n    assert candidate(coded(n)) == n",
            "setup": "def coded(n):\n    return 'abcde'[n % 5]", "entry_point": "decode"},))
        for name, text, tries in (("e", words, 9), ("f", others, 9), ("g", others, 8))
    )  # fmt: skip
    config = DecontaminateConfig()
    stage = Decontaminate(Index.build([known, drawn], config), config)
    found = stage.decide(stage.summarise([told, tested, else_named, else_given, again, other]))
    assert {i for i, d in found.items() if d.notes[0][0] == "drop"} == {"a", "b", "f"}
    assert found["a"].notes[0][2] == "calls twoSum[[2,7,11],9] as lcb/1 does"
    assert found["f"].notes[0][2].startswith("has a test of e: for n in range(9): assert cand")


@pytest.mark.parametrize(
    ("setup", "same"),
    [("", False), ("cases = load(100)", False), ("cases = [Case([1, 2, 3], 6)]", True)],
)
def test_a_test_without_a_literal_of_its_own_is_of_any_problem(setup, same):
    code = "for case in cases:\n    assert candidate(case.given) == case.wanted, 'a wrong answer'"
    known, other = (
        replace(asserted(name, text, "solve", "False"), tests=({
            "code": code, "setup": setup, "entry_point": "solve"},))
        for name, text in (("sum", "Add the numbers of a list and return their sum."),
                           ("vowels", "Return the text in reverse, and without its vowels."))
    )  # fmt: skip
    stage = Decontaminate(Index.build([known], DecontaminateConfig()), DecontaminateConfig())
    assert bool(stage.decide(stage.summarise([other]))) == same
