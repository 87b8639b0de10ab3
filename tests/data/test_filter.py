"""Filter: what is dropped for its text, its tests or its date; near-duplicates; contamination."""

from dataclasses import replace

import numpy as np
import pytest

from mcbench.data import Problem
from mcbench.data.audit import AuditEntry
from mcbench.data.decontaminate import Decontaminate, DecontaminateConfig, Index
from mcbench.data.dedup import Dedup, DedupConfig, signature
from mcbench.data.filter import Filter, FilterConfig
from mcbench.data.pipeline import Pipeline, read_audit, store_shard
from mcbench.data.storage import read_problems
from mcbench.data.words import run_hashes, words
from mcbench.errors import UserError
from mcbench.worlds.problems import load_split

from .generated import generate

BASE = next(generate(1))


def filtered(record, **options):
    kept, log = Filter(FilterConfig(**options)).run([record])
    return (kept[0] if kept else None), log


@pytest.mark.parametrize(
    ("change", "options", "rule"),
    [
        ({"language": "ru"}, {}, "language"),
        ({"date": "2019-12-31"}, {"first_date": "2020-01-01"}, "recency"),
        ({"date": "2031-01-01"}, {"last_date": "2030-01-01"}, "recency"),
        ({"date": ""}, {"first_date": "2020-01-01", "unknown_date": "drop"}, "recency"),
        ({"statement": "Read and print it."}, {}, "length"),
        ({"statement": "print " * 50}, {}, "repetitive"),
        ({"statement": BASE.statement + "▓▒░" * 400}, {}, "damaged"),
        ({"flags": ("image_removed",)}, {"drop": ("image",)}, "image"),
        ({"statement": BASE.statement + "\nThis is an interactive problem."}, {}, "interactive"),
        ({"statement": BASE.statement + "\nWrite a SQL query for it."}, {}, "database"),
        ({"tests": BASE.tests[:2]}, {}, "tests"),
        ({"tests": BASE.tests * 2}, {"min_tests": 9}, "tests"),
    ],
)
def test_what_is_dropped(change, options, rule):
    record, log = filtered(replace(BASE, **change), **options)
    assert record is None
    assert [(e.rule, e.action) for e in log] == [(rule, "drop")]


@pytest.mark.parametrize(
    "remark",
    ["You can prove that it ends.", "Notes explain how it works.", "Which of the following is it?",
     "Finish the trip in go mode and complete it.", "He has an SQL book."],
)  # fmt: skip
def test_remarks_do_not_make_a_problem_irrelevant(remark):
    given = replace(BASE, statement=f"{BASE.statement}\n{remark}\n")
    assert filtered(given) == (given, [])


def test_other_languages_are_other_tasks():
    given = replace(
        BASE, statement=f"Implement the class below in C++ and test it. {BASE.statement}"
    )
    assert filtered(given)[0] is None


def test_what_is_kept():
    for change in ({}, {"language": ""}, {"date": ""}, {"references": ()}):
        given = replace(BASE, **change)
        assert filtered(given, first_date="2020-01-01") == (given, [])


def test_several_answers_without_a_checker_are_flagged():
    given = replace(BASE, statement=BASE.statement + "\nIf there are several, print any of them.")
    record, _ = filtered(given)
    assert record.flags == ("special_judge",)
    assert filtered(replace(given, checker="int main() {}"))[1] == []
    assert filtered(given, drop=("special_judge",))[0] is None


def test_a_rule_that_is_often_wrong_flags():
    record, log = filtered(replace(BASE, flags=("image_removed",)))
    assert [(e.rule, e.action) for e in log] == [("image", "flag")]
    assert "image" in record.flags


def test_each_assertion_counts_as_a_test():
    check = "def check(f):\n    assert f(1) == 2\n    assert f(2) == 3\n    assert f(3) == 4\n"
    many = "def check(f):\n    for n in range(9):\n        assert f(n) == n + 1\n"
    one = "def check(f):\n    assert f(1) == 2\n"
    for setup, kept in ((check, True), (many, True), (one, False)):
        tests = ({"code": "check(g)", "setup": setup, "entry_point": "g"},)
        assert (filtered(replace(BASE, form="assert", tests=tests))[0] is not None) == kept


def test_unusable_tests_are_dropped_alone():
    good, other = BASE.tests[:5], BASE.tests[5]
    bad = (
        good[0],
        {"stdin": "1\n" + " " * 3000, "expected": "1"},
        other,
        {**other, "stdin": other["stdin"] + " \n", "expected": "no"},
    )
    record, log = filtered(replace(BASE, tests=(*good, *bad)), max_test_kb=2)
    assert record.tests == good
    assert log[0].detail == "dropped 1 contradictory, 2 repeated, 1 too large"
    assert len(filtered(BASE, max_tests=5)[0].tests) == 5


@pytest.mark.parametrize(
    "options",
    [{"min_words": 5, "max_words": 4}, {"min_tests": 0}, {"max_tests": 1}, {"min_distinct": 2},
     {"first_date": "2020"}, {"unknown_date": "maybe"}],
)  # fmt: skip
def test_impossible_settings_are_refused(options):
    with pytest.raises(UserError):
        FilterConfig(**options)


# Words -------------------------------------------------------------------------------------------


def test_words_ignore_case_punctuation_and_numbers():
    assert words("At MOST 10^5, or one hundred thousand!") == ["at", "most", "0", "or", "0"]
    assert words("At 10^5", numbers=True) == ["at", "10", "5"]


def test_run_hashes_depend_on_words_and_order_alone():
    one = run_hashes(["a", "b", "c", "a", "b"], 2)
    assert one[0] == one[3]
    assert len(set(one.tolist())) == 3
    assert run_hashes(["b", "a"], 2)[0] != one[0]
    assert len(run_hashes(["a"], 3)) == 1
    assert len(run_hashes([], 3)) == 0


# Near-duplicates ---------------------------------------------------------------------------------


def deduplicated(tmp_path, records, **options):
    shard = store_shard(tmp_path / "in", records, [])
    (out,) = Pipeline(tmp_path).run(Dedup(DedupConfig(**options)), [shard])
    return [r.id for r in read_problems(out.path)]


def test_signatures_estimate_jaccard_similarity():
    config = DedupConfig(run=1, permutations=600)
    letters = [chr(97 + i) * 3 for i in range(26)]
    one, other = " ".join(letters[:18]), " ".join(letters[6:])
    estimate = (signature(one, config) == signature(other, config)).mean()
    assert estimate == pytest.approx(12 / 26, abs=0.07)


def test_the_richest_of_a_group_is_kept(tmp_path):
    poor = replace(BASE, id="b/poor", references=())
    few = replace(BASE, id="b/few", tests=BASE.tests[:5])
    rich = replace(BASE, id="b/rich", statement=BASE.statement.upper())
    assert deduplicated(tmp_path, [poor, few, rich]) == ["b/rich"]


def test_one_template_is_many_problems(tmp_path):
    """Statements alike, answers to the same input not; without tests they would be copies."""
    statement = BASE.statement
    tests = [
        tuple({"stdin": f"{i}\n", "expected": f"{i * k}\n"} for i in range(1, 6)) for k in (2, 3)
    ]
    pair = [Problem(f"k/{k}", statement, "stdin", t) for k, t in enumerate(tests)]
    assert deduplicated(tmp_path, pair) == ["k/0", "k/1"]
    broken = ({"stdin": "1\n", "expected": "7\n"}, *tests[0][1:])
    assert deduplicated(tmp_path, [pair[0], replace(pair[1], tests=broken)]) == ["k/0"]


@pytest.mark.slow
def test_nano_problems_are_no_duplicates(tmp_path):
    records = list(load_split("test"))
    kept = deduplicated(tmp_path, records, threshold=0.95, threshold_same_tests=0.95)
    assert len(kept) >= 0.95 * len(records)


# Contamination -----------------------------------------------------------------------------------

TASK = (
    "Given a rooted tree with n vertices and a positive weight on every edge, choose two different "
    "leaves so that the xor of the weights on the path between them is as large as possible, and "
    "print that largest value. There are at most 1000 vertices and weights are below 2^20."
)


def decontaminated(tmp_path, records, evaluation, **options):
    config = DecontaminateConfig(**options)
    problems = [Problem(f"e/{i}", text, "stdin") for i, text in enumerate(evaluation)]
    shard = store_shard(tmp_path / "in", records, [])
    (out,) = Pipeline(tmp_path).run(Decontaminate(Index.build(problems, config), config), [shard])
    return [r.id for r in read_problems(out.path)], read_audit(out)


@pytest.mark.parametrize(
    "text",
    [
        TASK,
        TASK.upper().replace("1000", "five hundred").replace("2^20", "10^9"),
        f"A story about trees comes first.\n\n{TASK.replace(',', ' -')}\n\nAnd thanks at the end.",
        TASK[:170],
    ],
)
def test_overlap_is_found_whatever_numbers_case_and_layout(tmp_path, text):
    kept, log = decontaminated(
        tmp_path, [replace(BASE, statement=text)], [TASK, BASE.statement[::-1]]
    )
    assert kept == []
    assert "as in e/0" in log[0].detail
    assert (
        '"given a rooted tree with 0 vertices' in log[0].detail or "given a rooted" in log[0].detail
    )


PAIRS = [{"stdin": f"{n}\n", "expected": f"{n * n % 7}\n"} for n in range(21)]
OTHER = [{"stdin": f"{n}\n", "expected": f"{n * n % 7 + (n > 3)}\n"} for n in range(21)]
FILLED = [{"stdin": f"{n}\n", "expected": "0"} for n in range(100, 160)] + PAIRS
CASE = [{"stdin": f"{n}\n", "expected": f"YES {n / 2}\n"} for n in range(21)]
LOWER = [{"stdin": f"{n}\n", "expected": f"Yes {n / 2:.3f}\n"} for n in range(21)]
LONG = [{"stdin": " ".join(map(str, range(99))), "expected": "5"}]


@pytest.mark.parametrize(
    ("tests", "theirs", "detail"),
    [
        (PAIRS, PAIRS, "has 21 of 21 tests of e/0"),
        (PAIRS[2:7], [{**one, "stdin": f" {one['stdin']}"} for one in PAIRS], "has 5 of 21 tests"),
        ([*OTHER, *LONG], [*PAIRS, *LONG], "has 5 of 22 tests"),  # a long one tells by itself
        (FILLED, PAIRS, "has 21 of 21 tests"),  # wherever they are
        (CASE, LOWER, "has 21 of 21 tests"),  # however the answers are written
        (OTHER, PAIRS, ""),  # four of 21, by chance
        (PAIRS[:2], PAIRS, ""),
    ],
)
def test_a_program_with_the_tests_of_an_evaluation_problem_is_found(
    tmp_path, tests, theirs, detail
):
    config = DecontaminateConfig()
    index = Index.build([Problem("e/0", TASK, "stdin", tuple(theirs))], config)
    shard = store_shard(tmp_path / "in", [replace(BASE, form="stdin", tests=tuple(tests))], [])
    (out,) = Pipeline(tmp_path).run(Decontaminate(index, config), [shard])
    log = read_audit(out)
    assert detail in log[0].detail if detail else not log


def test_phrases_of_the_trade_are_no_contamination(tmp_path):
    phrase = "The input is given from standard input in the following format, on several lines: n k"
    evaluation = [f"{text} {phrase}" for text in _texts(6)]
    record = replace(BASE, statement=f"{TASK} {phrase}")
    kept, log = decontaminated(tmp_path, [record], evaluation)
    assert (kept, log) == ([record.id], [])


def _texts(count):
    return [r.statement for r in generate(count, seed=77)]


def test_a_problem_that_is_whole_inside_is_found_beside_one_with_more_in_common(tmp_path):
    short = "Sort the colours of the rainbow by the number of letters of their names, last first."
    record = replace(BASE, statement=f"{TASK}. {short}")
    longer = f"{TASK} {BASE.statement[::-1]} {' '.join(_texts(3))}"
    for evaluation in ([short], [longer, short]):
        kept, log = decontaminated(tmp_path, [record], evaluation)
        assert (kept, log[0].action) == ([], "drop")


def test_a_partial_overlap_is_flagged(tmp_path):
    part = " ".join(TASK.split()[:19])
    kept, (entry,) = decontaminated(
        tmp_path, [replace(BASE, statement=f"{part}. {BASE.statement}")], [TASK], min_share=0.5
    )
    assert isinstance(entry, AuditEntry)
    assert (kept, entry.rule, entry.action) == ([BASE.id], "overlap", "flag")


CLOCK = (
    "Times are formatted as HH:MM, where HH is between 00 and 23 and MM is between 00 and 59. The "
    "earliest time is 00:00 and the latest is 23:59."
)


@pytest.mark.parametrize(
    ("name", "given", "rule"),
    [
        ("largestTime", [[1, 2, 3, 4]], "overlap"),  # defines its subject in the same words
        ("lastTime", ["1?:?4"], "contaminated"),  # a copy under another name
        ("latestTime", ["1?:?4"], "contaminated"),
    ],
)
def test_a_shared_definition_is_no_contamination_where_the_examples_differ(name, given, rule):
    def problem(key, task, name, args):
        test = {"args": args, "expected": "11:54"}
        return Problem(key, f"{CLOCK} {task}", "call", (test,), fn_name=name)

    asked = (
        "Some characters of the text s are hidden behind question marks, such as by a smudge on "
        "old paper. Replace each of them so that the time is the latest one, and return it."
    )
    other = (
        "Arrange the four digits of a list as the largest time that such a clock shows, using "
        "each exactly once with zeros in front; return the empty text where no order does."
    )
    known = problem("e/0", asked, "latestTime", ["1?:?4"])
    record = problem("r/0", other, name, given)
    config = DecontaminateConfig()
    stage = Decontaminate(Index.build([known], config), config)
    ((_, decision),) = stage.decide(stage.summarise([record])).items()
    assert decision.notes[0][1] == rule


@pytest.mark.parametrize(
    ("given", "answer", "dropped"),
    [
        ("f([-2, -3, 4, -1])", "7", True),
        ("f((-2, -3, 4, -1))", "8", False),  # MBPP asks for the sum, and elsewhere for the length
        ("f([-2, -3, 4, -1])", "g(7)", True),  # nobody knows what that is
        ("f([1, 2, 3])", "7", False),
    ],
)
def test_the_same_call_is_the_same_problem_unless_its_answer_differs(given, answer, dropped):
    def problem(key, statement, code):
        return Problem(key, statement, "assert", ({"code": code, "entry_point": "f"},), fn_name="f")

    known = problem("e/0", "The largest sum of a run.", "assert f([-2, -3, 4, -1]) == 7")
    record = problem("r/0", "How long such a run is.", f"assert {given} == {answer}")
    stage = Decontaminate(Index.build([known], DecontaminateConfig()))
    assert bool(stage.decide(stage.summarise([record]))) is dropped


def test_an_empty_evaluation_set_drops_nothing(tmp_path):
    assert decontaminated(tmp_path, [BASE], [])[0] == [BASE.id]
    assert Index.build([], DecontaminateConfig()).hashes.dtype == np.uint64
