"""Every adapter on files of the published form."""

import json
import re

import pytest

from mcbench.data.collect import ADAPTERS, Source, load_sources, read_source
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator

from . import published
from .published import PROGRAM, jsonl, packed, parquet

SUM_TESTS = ({"stdin": "1 2\n", "expected": "3\n"}, {"stdin": "3 4\n", "expected": "7\n"})


def read(adapter, path, **options):
    """Records and rejections of a source."""
    rejected = []
    records = list(
        read_source(Source(adapter=adapter, path=str(path), **options), reject=rejected.append)
    )
    return records, rejected


def only(adapter, path, **options):
    records, rejected = read(adapter, path, **options)
    assert len(records) == 1, rejected
    return records[0]


def test_taco(tmp_path):
    parquet(tmp_path / "ALL" / "train-00000-of-00001.parquet", published.taco())
    record = only("taco", tmp_path)
    assert (record.id, record.form, record.tests) == ("taco/train/0", "stdin", SUM_TESTS)
    assert record.references == (PROGRAM,)
    assert (record.difficulty, record.difficulty_provenance) == ("medium", "source")
    assert (record.time_limit_s, record.memory_limit_mb) == (2.0, 256.0)
    assert record.tags == ("Mathematics", "Greedy algorithms")
    assert (record.licence, record.date) == ("Apache-2.0", "2019-12-31")


def test_taco_as_the_datahub_publishes_it(tmp_path):
    import datasets

    datasets.Dataset.from_list([published.taco()] * 3).save_to_disk(tmp_path / "train")
    records, _ = read("taco", tmp_path)
    assert [record.id for record in records] == ["taco/train/0", "taco/train/1", "taco/train/2"]
    assert records[2].tests == SUM_TESTS
    [file] = (tmp_path / "train").glob("*.arrow")
    file.write_bytes(file.read_bytes()[:700])
    assert [r.rule for r in read("taco", tmp_path)[1]] == ["source_disappeared"]


def test_taco_tests_of_a_method_lose_the_list_around_results(tmp_path):
    wrapped = {"fn_name": "f", "inputs": [[1, [2]], ["a", []]], "outputs": [[[3]], [None]]}
    plain = {"fn_name": "f", "inputs": [[1]], "outputs": [[1, 2]]}
    rows = [published.taco(input_output=json.dumps(tests)) for tests in (wrapped, plain)]
    first, second = read("taco", jsonl(tmp_path / "t.jsonl", *rows))[0]
    assert (first.form, first.fn_name) == ("call", "f")
    assert first.tests == (
        {"args": [1, [2]], "expected": [3]},
        {"args": ["a", []], "expected": None},
    )
    assert second.tests == ({"args": [1], "expected": [1, 2]},)


def test_deepcoder_reads_the_three_forms_of_its_tests(tmp_path):
    case = {"type": "stdin_stdout", "input": "1 2\n", "output": "3\n"}
    call = {"type": "function_call", "fn_name": "f", "input": [1, 2], "output": [3]}
    lcb = {
        "testtype": "functional",
        "input": "[1]\n2",
        "output": "3",
        "metadata": {"func_name": "g"},
    }
    forms = [published.STDIO, [case], [call], [lcb]]
    rows = [{"problem": "p", "solutions": ["s"], "tests": json.dumps(form)} for form in forms]
    parquet(tmp_path / "taco" / "train-00000-of-00001.parquet", *rows)
    records, _ = read("deepcoder", tmp_path, subset="taco")
    assert [record.tests for record in records] == [
        SUM_TESTS,
        SUM_TESTS[:1],
        ({"args": [1, 2], "expected": 3},),
        ({"args": [[1], 2], "expected": 3},),
    ]
    assert [record.fn_name for record in records] == ["", "", "f", "g"]


def test_deepcoder_takes_the_method_from_the_rows_metadata(tmp_path):
    tests = [{"input": "4", "output": "5", "testtype": "functional"}]
    metadata = json.dumps({"func_name": "h"})
    row = {"problem": "p", "tests": json.dumps(tests), "starter_code": "c", "metadata": metadata}
    parquet(tmp_path / "lcbv5" / "train-00000-of-00011.parquet", row)
    record = only("deepcoder", tmp_path, subset="lcbv5")
    assert (record.fn_name, record.starter_code) == ("h", "c")


def test_codeforces(tmp_path):
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", published.codeforces())
    record = only("codeforces", tmp_path)
    assert (record.id, record.date, record.difficulty) == ("codeforces/1/A", "2010-02-19", "easy")
    assert record.url == "https://codeforces.com/problemset/problem/1/A"
    assert len(record.tests) == 2
    assert (record.checker_language, record.time_limit_s) == ("python", 1.5)
    parts = ["Add two", "Input", "Output", "Example input\n1 2\nExample output\n3", "Mind the gap"]
    assert [record.statement.index(part) for part in parts] == sorted(
        record.statement.index(part) for part in parts
    )


def test_codeforces_generated_tests_are_read_on_request(tmp_path):
    row = published.codeforces(generated_tests=2)
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", row)
    generated = [
        {"contest_id": "1", "problem_id": p, "test_case_i": n, "input": f"{n} {n}", "output": "0"}
        for p in ("1/A", "1/B")
        for n in range(2)
    ]
    path = parquet(tmp_path / "generated_tests" / "test_cases_0001.parquet", *generated)
    assert len(only("codeforces", tmp_path).tests) == 2
    tests = only("codeforces", tmp_path, generated_tests=True).tests
    assert [test["stdin"] for test in tests] == ["1 2", "3 4", "0 0", "1 1"]
    path.unlink()
    [], [rejected] = read("codeforces", tmp_path, generated_tests=True)
    assert rejected.rule == "source_disappeared"
    assert "test_cases_0001.parquet does not exist" in rejected.detail


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interaction_format": "Ask."}, "interactive"),
        ({"input_mode": "file"}, "reads its input from a file"),
        ({"official_tests": []}, "no usable test"),
        ({"description": " "}, "description is empty"),
    ],
)
def test_codeforces_refuses_what_cannot_be_judged(tmp_path, change, reason):
    path = jsonl(tmp_path / "c.jsonl", published.codeforces(**change))
    records, [rejected] = read("codeforces", path)
    assert not records
    assert reason in rejected.detail
    assert "line 1 of c.jsonl" in rejected.id


def test_verifiable_coding_problems(tmp_path):
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", published.verifiable())
    record = only("verifiable-coding-problems", tmp_path)
    assert record.id == "verifiable-coding-problems/vfc_1"
    assert (record.references, record.tests) == ((PROGRAM,), SUM_TESTS[:1])
    assert (record.difficulty, record.memory_limit_mb, record.time_limit_s) == ("medium", 256, 1)


def test_verifiable_problems_of_a_method_and_of_another_column_name(tmp_path):
    case = {"fn_name": "f", "input": "[1, [2]]", "output": "[3]", "type": "function_call"}
    row = published.verifiable(verification_info={"language": "python", "test_cases": [case]})
    row["problem"] = row.pop("problem_statement")  # the decontaminated variants call it so
    record = only("verifiable-coding-problems", jsonl(tmp_path / "v.jsonl", row))
    assert record.tests == ({"args": [1, [2]], "expected": 3},)


def test_livecodebench(tmp_path):
    jsonl(tmp_path / "test.jsonl", published.lcb())
    jsonl(tmp_path / "test2.jsonl", published.lcb_call())
    jsonl(tmp_path / "test3.jsonl", published.lcb(question_id="abc350_c"))
    stdin, call = read("livecodebench", tmp_path, subset="release_v2")[0]
    assert (stdin.id, stdin.date, stdin.difficulty) == (
        "livecodebench/abc400_a",
        "2025-04-05",
        "easy",
    )
    assert stdin.tests == SUM_TESTS  # the public test, then the private one
    assert (call.form, call.fn_name, call.difficulty) == ("call", "total", "hard")
    assert call.tests == (
        {"args": [[1, 2], 3], "expected": 9},
        {"args": [[], 5], "expected": 0},
    )
    assert call.metadata["platform"] == "leetcode"
    assert only("livecodebench", tmp_path, subset="v3").flags == ("errata_wrong_tests",)


def test_livecodebench_private_tests_may_be_plain_json(tmp_path):
    tests = json.dumps([{"input": "3 4\n", "output": "7\n", "testtype": "stdin"}])
    path = jsonl(tmp_path / "test6.jsonl", published.lcb(private_test_cases=tests))
    assert only("livecodebench", path).tests == SUM_TESTS


def test_kodcode(tmp_path):
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", published.kodcode())
    record = only("kodcode", tmp_path)
    assert (record.id, record.form, record.fn_name) == ("kodcode/Algorithm_1_I", "assert", "add")
    assert [test["code"] for test in record.tests] == ["test_small()", "test_zero()"]
    assert {test["setup"] for test in record.tests} == {published.kodcode()["test"]}
    assert record.difficulty == "medium"


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("from solution import f\ndef test_a(:", "no Python"),
        ("from solution import f\nassert f()", "no usable test"),
    ],
)
def test_kodcode_refuses_what_is_no_test(tmp_path, test, reason):
    path = jsonl(tmp_path / "k.jsonl", published.kodcode(test=test))
    records, [rejected] = read("kodcode", path)
    assert not records
    assert reason in rejected.detail


RAISES = """import pytest
from solution import add as plus
import solution
@pytest.fixture
def one(): return 1
@pytest.mark.parametrize("b", [1, 2])
def test_sums(one, b): assert plus(one, b) == one + b == solution.add(one, b)
def test_no_sum():
    with pytest.raises(TypeError):
        plus(1)
"""


def test_kodcode_keeps_a_module_that_needs_pytest_whole(tmp_path):
    path = jsonl(tmp_path / "k.jsonl", published.kodcode(test=RAISES))
    record = only("kodcode", path)
    assert [test["code"] for test in record.tests] == [RAISES]
    right, wrong = ("def add(a, b): return a + b", "def add(a, b=0): return a + b")
    with Evaluator(workers=1) as evaluator:
        results = evaluator.evaluate([record.submission(code) for code in (right, wrong)])
    assert [result.verdicts for result in results] == [["AC"], ["WA"]]


def test_kodcode_references_fail_tests_that_reach_into_them(tmp_path):
    """So that the verification drops them: programs run in processes of their own."""
    tests = (
        "import pytest\nfrom solution import f\ndef test_a():\n pytest.warns(f)",
        "from solution import f\ndef test_a(tmp_path):\n    assert f(tmp_path)",
        "from solution import f\nimport io, contextlib\ndef test_a():\n    out = io.StringIO()\n"
        "    with contextlib.redirect_stdout(out):\n        f()\n    assert out.getvalue()",
        "from solution import f\nimport builtins\ndef test_a():\n"
        "    builtins.input = lambda: '3'\n    assert f() == '3'",
    )
    rows = (published.kodcode(question_id=str(n), test=test) for n, test in enumerate(tests))
    path = jsonl(tmp_path / "k.jsonl", *rows)
    records, _ = read("kodcode", path)
    code = "def f(*_):\n    print(1)\n    return input()"
    with Evaluator(workers=1) as evaluator:
        results = evaluator.evaluate([record.submission(code) for record in records])
    assert [result.passed for result in results] == [False] * 4


def test_humaneval(tmp_path):
    path = jsonl(tmp_path / "HumanEval.jsonl.gz", published.humaneval())
    record = only("humaneval", path)
    [test] = record.tests
    assert (record.id, test["entry_point"]) == ("humaneval/7", "quarter")
    names: dict = {}
    exec(test["setup"], names)  # what the prompt defines before the signature, helpers included
    assert names["half"](4) == 2
    assert "quarter" not in names
    exec(record.references[0] + test["code"], names)


def test_mbpp_full_and_sanitized(tmp_path):
    full = jsonl(tmp_path / "mbpp.jsonl", published.mbpp(), published.mbpp(task_id=601))
    record = only("mbpp", full)  # 601 is of the training split
    assert (record.id, record.statement) == ("mbpp/11", "Write a function to add.\n")
    assert record.tests[0] == {
        "code": "assert add(1, 2) == 3",
        "setup": "import math",
        "entry_point": "add",
    }
    assert record.time_limit_s == 10  # of the set: its rows state none
    assert only("mbpp", full, subset="full-train").id == "mbpp/601"
    row = published.mbpp(prompt="Add.", test_imports=["import math", "import re"])
    del row["text"], row["test_setup_code"], row["challenge_test_list"]
    (tmp_path / "sanitized-mbpp.json").write_text(json.dumps([row]))
    record = only("mbpp", tmp_path, subset="sanitized")
    assert record.tests[0]["setup"] == "import math\nimport re"


def test_legacy_problem_package(tmp_path):
    settings = (
        "name: Sum\nsource: A contest\nlicense: cc by-sa\nkeywords: maths easy\n"
        "limits: {memory: 512}\nvalidator_flags: float_tolerance 1e-6\n"
    )
    files = {
        ".timelimit": "3\n",
        "data/secret/group/testdata.yaml": "output_validator_flags: case_sensitive\n",
        "data/secret/group/02.in": "5 6\n",
        "data/secret/group/02.ans": "11\n",
    }
    published.package(tmp_path / "sum", settings, **files)
    record = only("problem-package", tmp_path)
    assert (record.id, record.language, record.tags) == (
        "problem-package/sum",
        "en",
        ("maths", "easy"),
    )
    assert (record.time_limit_s, record.memory_limit_mb) == (3.0, 512.0)
    loose = {"case_sensitive": False, "rtol": 1e-6, "atol": 1e-6}
    assert record.tests == (
        {**SUM_TESTS[0], **loose},
        {**SUM_TESTS[1], **loose},
        {"stdin": "5 6\n", "expected": "11\n", "case_sensitive": True},
    )
    assert record.references == (PROGRAM,)


@pytest.mark.parametrize("number", ["1e-6", "0.000001", "'1e-6'"])
def test_a_tolerance_in_a_list_is_kept_however_it_is_written(number, tmp_path):
    published.package(tmp_path / "sum", f"validator_flags: [float_tolerance, {number}]\n")
    assert only("problem-package", tmp_path).tests[0]["rtol"] == 1e-6


def test_problem_package_of_2025(tmp_path):
    settings = (
        "problem_format_version: 2025-09\ntype: pass-fail\nname: {en: Sum, sv: Summa}\n"
        "source: {name: A contest, url: 'https://example.org'}\nlimits: {time_limit: 1.5}\n"
        "keywords: [maths]\n"
    )
    files = {
        "output_validator/validate.py": "print('ok')\n",
        "statement/problem.sv.md": "Summera.\n",
    }
    published.package(tmp_path / "sum", settings, **files)
    record = only("problem-package", tmp_path)
    assert (record.url, record.time_limit_s) == ("https://example.org", 1.5)
    assert (record.checker, record.checker_language) == ("print('ok')\n", "python")
    assert record.checker_protocol == "icpc"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("type: pass-fail interactive", "interactive"),
        ("validation: custom interactive", "interactive"),
        ("validation: custom", "no output validator"),
        ("- a list", "should be a map"),
        ("a: [", "neither YAML nor JSON"),
    ],
)
def test_problem_package_refused(tmp_path, settings, reason):
    published.package(tmp_path / "bad", settings)
    published.package(tmp_path / "good", "name: Sum")
    [record], [rejected] = read("problem-package", tmp_path)
    assert record.id == "problem-package/good"
    assert reason in rejected.detail


def test_any_rows_through_a_mapping(tmp_path):
    row = {
        "key": 5,
        "text": "Add.",
        "info": json.dumps({"cases": [{"in": "1 2\n", "out": "3\n"}], "rank": "Level 3"}),
        "limit": "500 ms",
    }
    columns = {
        "id": "key",
        "statement": "text",
        "tests": "info.cases",
        "difficulty": "info.rank",
        "time_limit_s": "limit",
    }
    config = {
        "adapter": "mapping",
        "name": "mine",
        "path": str(parquet(tmp_path / "mine.parquet", row)),
        "columns": columns,
        "test_keys": {"input": "in", "output": "out"},
        "levels": {"Level 3": "hard"},
    }
    [source] = load_sources([config])
    [record] = read_source(source)
    assert (record.id, record.tests) == ("mine/5", SUM_TESTS[:1])
    assert (record.difficulty, record.time_limit_s) == ("hard", 0.5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"adapter": "tacco"}, "unknown source 'tacco'; did you mean taco?; allowed: apps"),
        ({}, "'adapter' is missing"),
        ({"adapter": "taco", "pth": "x"}, "source 1: unknown field 'pth'"),
        ({"adapter": "taco", "limit": "5"}, "limit must be a whole number, got '5'"),
        ({"adapter": "livecodebench", "subset": "v7"}, "unknown subset of livecodebench 'v7'"),
        ({"adapter": "problem-package"}, "needs a path"),
        ({"adapter": "mapping", "name": "m", "path": "x"}, "columns.statement"),
        (
            {"adapter": "mapping", "columns": {"tets": "x"}},
            "unknown columns 'tets'; did you mean t",
        ),
        (
            {"adapter": "mapping", "levels": {"A": "eazy"}},
            "unknown levels: A 'eazy'; did you mean easy?; allowed: easy, hard, medium",
        ),
        ({"adapter": "taco", "path": "/nowhere/at/all"}, "does not exist"),
    ],
)
def test_a_wrong_source_is_one_clear_sentence(config, message):
    with pytest.raises(UserError, match=re.escape(message)):
        list(read_source(load_sources([config])[0]))


def test_every_published_set_has_an_adapter_with_a_link():
    assert {"deepcoder", "taco", "codeforces", "livecodebench", "kodcode"} < ADAPTERS.keys()
    assert all("https://" in adapter.about for adapter in ADAPTERS.values())


def test_packed_is_what_livecodebench_reads(tmp_path):
    tests = [{"input": "x" * 10**6, "output": "ö", "testtype": "stdin"}]
    row = published.lcb(private_test_cases=packed(tests))
    assert only("livecodebench", jsonl(tmp_path / "t.jsonl", row)).tests[1]["expected"] == "ö"
