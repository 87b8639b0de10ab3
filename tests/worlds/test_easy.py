"""The easy functions: right references, splits by family, tests that tell programs apart."""

from collections import Counter

import pytest

from mcbench.data.prompts import prompt_for
from mcbench.evaluator import Evaluator
from mcbench.runs.problems import load_problems
from mcbench.worlds.easy import PER_FAMILY, families, load_easy

SPLITS = {split: load_easy(split) for split in ("train", "test")}
EVERY = [problem for problems in SPLITS.values() for problem in problems]


def family(problem):
    return problem.metadata["family"]


def test_there_are_enough_families_of_every_kind_and_none_is_in_both_splits():
    held_out, trained = ({family(one) for one in SPLITS[split]} for split in ("test", "train"))
    assert not held_out & trained
    assert len(held_out | trained) == len(families()) >= 40
    assert set(Counter(map(family, EVERY)).values()) == {PER_FAMILY}
    assert len(EVERY) >= 600
    assert len({one.statement for one in EVERY}) == len({one.id for one in EVERY}) == len(EVERY)
    kinds = {"numbers", "lists", "strings", "dicts"}
    assert all({one.kind for one in problems} == kinds for problems in SPLITS.values())


def test_the_same_problems_are_made_again_and_kept():
    load_easy.cache_clear()
    for split, problems in SPLITS.items():
        assert load_easy(split) == problems
        assert load_problems(f"easy:{split}") == problems


def test_a_chat_prompt_names_the_function_and_its_first_line():
    for problem in EVERY:
        [message] = prompt_for(problem, "chat")
        assert message["content"].count(f'Begin with "{problem.starter_code}".') == 1
        assert problem.references[0].startswith(f"{problem.starter_code}\n")
        assert "<k>" not in message["content"]


@pytest.mark.slow
def test_references_pass_and_programs_that_ignore_their_input_fail():
    references = [one.submission(one.references[0]) for one in EVERY]
    constant = [one.submission(f"{one.starter_code}\n    return {{}}\n") for one in EVERY]
    with Evaluator(workers=2) as evaluator:
        results = evaluator.evaluate([*references, *constant], early_exit=True)
    assert [one.passed for one in results] == [True] * len(EVERY) + [False] * len(EVERY)


def test_tests_tell_the_constants_of_a_family_apart():
    by_family = {}
    for problem in EVERY:
        by_family.setdefault(family(problem), []).append(problem)
    for problems in by_family.values():
        for one in problems:
            for other in problems:
                body = other.references[0].partition("\n")[2]
                namespace = {}
                exec(f"{one.starter_code}\n{body}", namespace)
                same = body == one.references[0].partition("\n")[2]
                assert passes(one, namespace) == same, (one.statement, body)


def passes(problem, namespace):
    try:
        exec("\n".join(test["code"] for test in problem.tests), namespace)
    except AssertionError:
        return False
    return True
