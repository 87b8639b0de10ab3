"""Sets of problems by name: what trains and what a run is evaluated on."""

import json
from pathlib import Path

import pytest

from mcbench.data.build import build
from mcbench.data.config import BuildConfig
from mcbench.data.schema import Problem
from mcbench.data.storage import iter_dataset, write_problems
from mcbench.errors import UserError
from mcbench.evaluator import CodeReward, Evaluator
from mcbench.runs import problems
from mcbench.runs.problems import load_problems, problems_digest, prompt_for, training_row

from . import published
from .generated import generate
from .published import jsonl

SUM = Problem(
    "mine/sum",
    "Print the sum of two numbers.",
    "stdin",
    ({"stdin": "1 2\n", "expected": "3\n"},),
    references=(published.PROGRAM,),
)


NEAR = """import sys
given, answer, output = (int(open(path).read()) for path in sys.argv[1:4])
print(int(abs(given - output) <= 1))
"""


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=2) as evaluator:
        yield evaluator


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    config = BuildConfig(
        name="set",
        out=str(folder / "out"),
        cache=str(folder / "cache"),
        workers=1,
        skip=("verify",),
    )
    return build(config, generate(12)).out


def rewards(problems, codes, evaluator):
    """What the trainer's reward gives to programs, by the columns of the training rows."""
    rows = [training_row(problem, "chat") for problem in problems]
    columns = {name: [row[name] for row in rows] for name in rows[0] if name != "prompt"}
    completions = [f"```python\n{code}\n```" for code in codes]
    return CodeReward(evaluator)([None] * len(rows), completions, **columns)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("nano:train", "263a3f8a029f0d9e"),
        ("nano:test", "0a2389caf05cfe8d"),
        ("nano-formats:train", "c9e10c3c62c65c3c"),
        ("nano-formats:test", "dfdcb75041610c24"),
        pytest.param("nano-harder:train", "aa5854f1adae4dc4", marks=pytest.mark.slow),
        pytest.param("nano-easier:train", "3e9bd879d1930fb7", marks=pytest.mark.slow),
    ],
)
def test_the_nano_sets_keep_the_content_that_run_ids_hash(name, digest):
    assert problems_digest(load_problems(name)) == digest


def test_what_a_build_wrote_is_trained_on(built, evaluator):
    problems = load_problems(str(built))
    assert (
        problems == tuple(iter_dataset(built)) == load_problems(f"{built}/data/train-00000.parquet")
    )
    assert rewards(problems, [p.references[0] for p in problems], evaluator) == [1.0] * 12
    assert rewards(problems[:2], ["print(0)", "input("], evaluator) == [0.0, 0.0]


def test_an_unfinished_build_is_refused(built, tmp_path):
    write_problems(tmp_path / "data" / "train-00000.parquet", [SUM])
    with pytest.raises(UserError, match="no finished data set"):
        load_problems(str(tmp_path))


def test_what_cannot_be_judged_is_left_out_and_said(tmp_path):
    checked = Problem(**{**vars(SUM), "id": "mine/any", "checker": "int main() {}"})
    write_problems(tmp_path / "a.parquet", [checked, SUM])
    with pytest.warns(UserWarning, match=r"1 problems of .*a\.parquet are left out, .* mine/any"):
        assert load_problems(str(tmp_path / "a.parquet")) == (SUM,)
    write_problems(tmp_path / "b.parquet", [checked])
    with pytest.raises(UserError, match="no problem that can be judged; mine/any: its answers"):
        load_problems(str(tmp_path / "b.parquet"))


def test_limits_tolerances_and_assertions_reach_the_reward(evaluator):
    half = Problem("h", "s", "stdin", ({"stdin": "", "expected": "0.5", "atol": 0.1},))
    slow = Problem("t", "s", "stdin", ({"stdin": "", "expected": "1"},), time_limit_s=0.2)
    large = Problem("m", "s", "stdin", ({"stdin": "", "expected": "1"},), memory_limit_mb=64)
    near = Problem(
        "c", "s", "stdin", ({"stdin": "3\n", "expected": "0"},),
        checker=NEAR, checker_language="python", checker_protocol="score",
    )  # fmt: skip
    check = Problem("a", "s", "assert", ({"code": "assert f(2) == 4", "entry_point": "f"},))
    helped = Problem(**{**vars(check), "preamble": "import math\n"})
    wait = "import time\nwhile time.process_time() < 0.8: pass\nprint(1)"
    space = "x = bytearray(200 << 20)\nprint(1)"
    cases = [
        (half, "print(0.55)", 1.0),
        (near, "print(4)", 1.0),
        (near, "print(5)", 0.0),
        (half, "print(0.65)", 0.0),
        (slow, wait, 0.0),
        (SUM, f"{wait[:-8]}print(sum(map(int, input().split())))", 1.0),  # in the usual limit
        (large, space, 0.0),
        (Problem(**{**vars(large), "memory_limit_mb": None}), space, 1.0),
        (check, "def f(n): return n * n", 1.0),
        (check, "def f(n): return math.prod([n, n])", 0.0),
        (helped, "def f(n): return math.prod([n, n])", 1.0),
    ]
    problems, codes, wanted = zip(*cases, strict=True)
    assert rewards(problems, codes, evaluator) == list(wanted)
    judged = evaluator.evaluate([p.submission(c) for p, c in zip(problems, codes, strict=True)])
    assert [float(result.passed) for result in judged] == list(wanted)


def test_benchmarks_from_local_copies(tmp_path, evaluator):
    path = jsonl(tmp_path / "HumanEval.jsonl", published.humaneval())
    [problem] = load_problems(f"humaneval:{path}")
    assert problem.time_limit_s == 3.0
    assert "Complete this function" in prompt_for(problem, "chat")[1]["content"]
    # A helper of the prompt is there when the program runs.
    assert rewards([problem], ["def quarter(x): return half(half(x))"], evaluator) == [1.0]
    [problem] = load_problems(f"mbpp:{jsonl(tmp_path / 'mbpp.jsonl', published.mbpp())}")
    assert rewards([problem], problem.references, evaluator) == [1.0]
    jsonl(tmp_path / "lcb" / "test6.jsonl", published.lcb(), published.lcb_call())
    stdin, call = load_problems(f"livecodebench:{tmp_path / 'lcb'}")
    assert (stdin.kind, call.kind) == ("atcoder", "leetcode")
    codes = [published.PROGRAM, "class Solution:\n    def total(self, a, k): return sum(a) * k"]
    assert rewards([stdin, call], codes, evaluator) == [1.0, 1.0]


HUMANEVAL = Path(__file__).parents[3] / "shared" / "data" / "HumanEval.jsonl.gz"


@pytest.mark.skipif(
    not HUMANEVAL.exists(), reason="the HumanEval file is not beside the repository"
)
def test_humaneval_s_references_are_rewarded(evaluator):
    problems = load_problems(f"humaneval:{HUMANEVAL}")
    assert len(problems) == 164
    assert rewards(problems, [p.references[0] for p in problems], evaluator) == [1.0] * 164


def test_problems_from_json_lines(tmp_path):
    path = tmp_path / "mine.jsonl"
    test = {"stdin": "1\n", "expected": "1\n", "atol": 0.1}
    row = {"id": "a", "statement": "s", "form": "stdin", "tests": [test], "fn_name": None}
    path.write_text(json.dumps({**row, "time_limit_s": 3, "reference": "print(1)"}) + "\n")
    [problem] = load_problems(str(path))
    assert (problem.time_limit_s, problem.references, problem.tests) == (3, ("print(1)",), (test,))
    for change, message in (
        ({"tests": []}, "line 1 of .*mine.jsonl: a: it has no tests"),
        ({"tests": [{"stdin": "1"}]}, "test 0 lacks 'expected'"),
        ({"statment": "s"}, "unknown field 'statment'"),
        ({"form": None}, "a problem needs form"),
        ({"checker": "c"}, "a checker in no known language"),
    ):
        path.write_text(json.dumps({**row, **change}) + "\n")
        with pytest.raises(UserError, match=message):
            load_problems(str(path))
    path.write_text("[1]\n")
    with pytest.raises(UserError, match=r"line 1 of .* is no problem"):
        load_problems(str(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nano:dev", r"unknown problem set 'nano:dev'; .*allowed: .*mcbench data build.*\.jsonl"),
        ("none.jsonl", r"'none\.jsonl' does not exist; name one of: nano:train.*humaneval"),
        (
            "humaneval:none",
            "unknown subset of humaneval 'none'; .*allowed: test, the path of a local",
        ),
        ("livecodebench:release_v9", "unknown subset of livecodebench .*release_v6"),
    ],
)
def test_a_set_that_is_not_there_is_one_sentence_with_what_is_allowed(name, message):
    with pytest.raises(UserError, match=message):
        load_problems(name)


def test_an_embedded_set_is_kept_and_generated_again_where_its_file_is_damaged(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    generated = problems.TASK_SETS["nano:test"].load("nano:test")
    problems._embedded.cache_clear()
    assert problems._embedded("nano:test") == generated
    (kept,) = tmp_path.rglob("*.parquet")
    for content in (kept.read_bytes(), b"no parquet"):
        kept.write_bytes(content)
        problems._embedded.cache_clear()
        assert problems._embedded("nano:test") == generated
    problems._embedded.cache_clear()
