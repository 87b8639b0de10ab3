"""Evaluation sets by name, and evaluating on them."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcbench.data.benchmarks import (
    LIVECODEBENCH,
    PAPER_COUNTS,
    benchmark,
)
from mcbench.data.judge import submission
from mcbench.data.prompts import prompt_for
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.report import paper
from mcbench.runs import benchmark_run
from mcbench.runs.benchmark import (
    EvaluationRequest,
    evaluate_benchmark,
    open_run,
    vllm_engine_sampler,
)
from mcbench.runs.benchmark_run import BenchmarkRun, EvaluationSettings
from mcbench.runs.benchmark_scores import score, summary, table_cells
from mcbench.runs.problems import open_benchmark
from mcbench.runs.score_table import table_text

from . import published
from .published import PROGRAM, jsonl


@pytest.fixture
def problems(tmp_path):
    """Two problems of AtCoder, one of LeetCode."""
    path = jsonl(
        tmp_path / "test6.jsonl",
        published.lcb(),
        published.lcb(
            question_id="abc390_b", contest_date="2025-01-25T00:00:00", difficulty="hard"
        ),
        published.lcb_call(),
    )
    return open_benchmark("livecodebench", tmp_path / "cache", str(path))


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=2) as evaluator:
        yield evaluator


class Letters:
    """A tokenizer: every character is a token, 0 ends a response."""

    def apply_chat_template(self, messages, **_):
        return {"input_ids": [ord(c) for m in messages for c in m["content"]]}

    def __call__(self, texts):
        return {"input_ids": [[ord(c) for c in text] for text in texts]}

    def batch_decode(self, rows, **_):
        return ["".join(map(chr, filter(None, row))) for row in rows]


def block(code):
    return f"```python\n{code}\n```"


RIGHT = block(PROGRAM)
CALL = block("class Solution:\n    def total(self, nums, k):\n        return sum(nums) * k")
WRONG = block("print(0)")


class Scripted:
    """A sampler that gives texts in turn and remembers its calls."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.calls = []

    def __call__(self, prompts, max_new_tokens, temperature, seed):
        if not self.texts:
            raise InterruptedError
        self.calls.append((prompts, seed))
        texts, self.texts = self.texts[: len(prompts)], self.texts[len(prompts) :]
        return [[*map(ord, text), 0][:max_new_tokens] for text in texts]


def settings(problems, **changes):
    values = {"lengths": (1000,), "attempts": 2, "benchmark": "livecodebench", "model": "m"}
    return EvaluationSettings(
        **{"problems": problems.digest, "model_digest": "d", **values, **changes}
    )


# Sets ------------------------------------------------------------------------------------------


def test_the_set_of_the_paper_has_these_counts():
    """Every percentage of Table 1 is a whole number of four attempts at this many problems."""
    cells = dict(PAPER_COUNTS)
    for level in ("easy", "medium", "hard"):
        cells["both", level] = cells["atcoder", level] + cells["leetcode", level]
    names = ("atcoder", "leetcode", "both")
    counts = []
    for name in names:
        levels = [cells[name, level] for level in ("easy", "medium", "hard")]
        counts += [*levels, sum(levels)]
    assert counts[-1] == 175
    rows = [*paper.NOT_TRAINED.values(), *(r for b in paper.TRAINED.values() for r in b.values())]
    for row in rows:
        for value, count in zip(row, counts, strict=True):
            passes = value * 4 * count / 100
            assert abs(round(passes) * 100 / (4 * count) - value) < 0.051


def test_a_set_knows_its_problems_without_their_tests(problems):
    assert len(problems) == 3
    assert problems.counts()["atcoder", "hard"] == 1
    assert [r.id for r in problems.problems(1, 3)] == [
        "livecodebench/abc390_b",
        "livecodebench/3500",
    ]
    assert problems.refused == ()


def test_a_window_of_dates(problems):
    assert [e.id for e in problems.window("2025-02-01").entries] == [
        "livecodebench/abc400_a",
        "livecodebench/3500",
    ]
    assert len(problems.window(end="2025-01-25")) == 1
    assert problems.window("2025-02-01").digest != problems.digest
    with pytest.raises(UserError, match="its problems are of 2025-01-25 to 2025-04-05"):
        problems.window("2026-01-01")
    with pytest.raises(UserError, match="YYYY-MM-DD"):
        problems.window("01.02.2025")


def test_spread_takes_problems_from_the_whole_set(problems):
    assert [e.id for e in problems.spread(2).entries] == [
        "livecodebench/abc400_a",
        "livecodebench/abc390_b",
    ]
    assert problems.spread(5) is problems


def test_what_could_not_be_read_is_said(tmp_path):
    path = jsonl(tmp_path / "test6.jsonl", published.lcb(), published.lcb(private_test_cases="?"))
    opened = open_benchmark("livecodebench", tmp_path / "cache", str(path))
    assert len(opened) == 1
    assert "line 2 of test6.jsonl: private_test_cases is neither" in opened.refused[0]
    jsonl(path, published.lcb(private_test_cases="?"))
    with pytest.raises(UserError, match="no usable problem"):
        open_benchmark("livecodebench", tmp_path / "cache", str(path))


def test_sets_are_named(tmp_path):
    assert benchmark("livecodebench").subset == "v6"
    assert benchmark("livecodebench:release_v5").time_limit_s == LIVECODEBENCH.time_limit_s
    assert len(open_benchmark("nano:test", tmp_path)) == 120
    with pytest.raises(UserError, match=r"unknown benchmark 'livecode'; .*allowed"):
        benchmark("livecode")
    with pytest.raises(UserError, match="unknown subset"):
        benchmark("livecodebench:v9")


def test_prompts(problems, tmp_path):
    stdin, _, call = problems.problems()
    system, user = prompt_for(call)
    assert (system["role"], user["role"]) == ("system", "user")
    assert "Return the sum of the list times k." in user["content"]
    assert "```python\nclass Solution:" in user["content"]
    assert "stdin" in prompt_for(stdin, "plain")
    nano = open_benchmark("nano:test", tmp_path).problems(0, 1)[0]
    assert prompt_for(nano, "plain") == nano.statement
    with pytest.raises(UserError, match="unknown prompt style"):
        prompt_for(nano, "chatty")


def test_prompts_for_functions(tmp_path):
    path = jsonl(tmp_path / "HumanEval.jsonl", published.humaneval())
    [record] = open_benchmark("humaneval", tmp_path / "cache", str(path)).problems()
    assert "def quarter(x):" in prompt_for(record)[1]["content"]
    path = jsonl(tmp_path / "mbpp.jsonl", published.mbpp())
    [record] = open_benchmark("mbpp", tmp_path / "cache", str(path)).problems()
    assert "Write a function to add." in prompt_for(record)[1]["content"]
    assert "assert add(1, 2) == 3" in prompt_for(record)[1]["content"]


# Evaluating -------------------------------------------------------------------------------------


def run(folder, problems, evaluator, sampler, **changes):
    evaluation = BenchmarkRun(folder, problems, settings(problems, **changes))
    return evaluation, evaluation.run(sampler, Letters(), {0}, evaluator)


def test_responses_are_judged_at_every_length(tmp_path, problems, evaluator):
    late = "thinking " * 20 + "\n" + RIGHT
    sampler = Scripted(RIGHT, late, WRONG, "no code at all", CALL, CALL)
    evaluation, (short, long) = run(
        tmp_path / "run", problems, evaluator, sampler, lengths=(100, 1000)
    )
    assert [row["passes"] for row in short.per_problem] == [1, 0, 2]
    assert [row["passes"] for row in long.per_problem] == [2, 0, 2]
    assert long.pass_at_1 == pytest.approx(4 / 6)
    assert long.truncated_share == 0
    assert short.truncated_share == pytest.approx(1 / 6)
    assert long.by("kind") == {("atcoder",): 0.5, ("leetcode",): 1.0}
    first, second, _ = evaluation.samples()
    assert first["attempts"][1]["text"] == late
    assert first["attempts"][1]["verdicts"] == {"100": "no code", "1000": "AC,AC"}
    assert [a["verdicts"]["1000"] for a in second["attempts"]] == ["WA", "no code"]


def test_an_interrupted_evaluation_goes_on_and_ends_alike(
    tmp_path, problems, evaluator, monkeypatch
):
    monkeypatch.setattr(benchmark_run, "CHUNK", 1)
    texts = [RIGHT, WRONG, RIGHT, RIGHT, CALL, WRONG]
    whole = Scripted(*texts)
    _, expected = run(tmp_path / "whole", problems, evaluator, whole)
    with pytest.raises(InterruptedError):  # in the second chunk
        run(tmp_path / "run", problems, evaluator, Scripted(*texts[:2]))
    again = Scripted(*texts[2:])
    _, results = run(tmp_path / "run", problems, evaluator, again)
    assert results == expected
    assert [seed for _, seed in again.calls] == [seed for _, seed in whole.calls[1:]]
    files = sorted((tmp_path / "whole" / "samples").iterdir())
    assert len(files) == 3
    for file in files:
        assert (tmp_path / "run" / "samples" / file.name).read_bytes() == file.read_bytes()
    assert run(tmp_path / "run", problems, evaluator, None)[1] == expected  # nothing left to do


def test_a_folder_keeps_one_evaluation(tmp_path, problems):
    BenchmarkRun(tmp_path / "run", problems, settings(problems))
    with pytest.raises(UserError, match=r"another temperature \(1\.0, now 0\.6\)"):
        BenchmarkRun(tmp_path / "run", problems, settings(problems, temperature=0.6))
    with pytest.raises(UserError, match="no samples yet"):
        BenchmarkRun(tmp_path / "run", problems, settings(problems)).results()


@pytest.mark.parametrize("change", [{"lengths": ()}, {"attempts": 0}, {"temperature": 0.0}])
def test_settings_that_cannot_be(problems, change):
    with pytest.raises(UserError):
        settings(problems, **change)


def test_attempts_that_our_own_failure_lost_do_not_count(tmp_path, problems):
    class Failing:
        def evaluate(self, submissions, early_exit):
            return [SimpleNamespace(verdicts=["IE"]) for _ in submissions]

    _, [result] = run(tmp_path / "run", problems, Failing(), Scripted(*[RIGHT] * 6))
    assert [row["attempts"] for row in result.per_problem] == [0, 0, 0]


def test_a_request_is_an_evaluation_that_goes_on(tmp_path):
    request = EvaluationRequest(
        "nano-s", "nano:test", (24,), limit=2, attempts=2, prompt_style="plain", cache=tmp_path
    )
    run, [result] = evaluate_benchmark(request)
    assert [row["attempts"] for row in result.per_problem] == [2, 2]
    assert all(a["tokens"] <= 24 for row in run.samples() for a in row["attempts"])
    samples = run.folder / "samples" / "00000.jsonl"
    written = samples.stat().st_mtime_ns
    assert evaluate_benchmark(request)[1] == [result]
    assert samples.stat().st_mtime_ns == written
    lines = summary(run, result)
    assert lines[0].startswith("nano-s on nano:test, 2 problems x 2 attempts, up to 24 tokens")
    assert "pass@2" in lines[1]
    cells = table_cells(run.problems.benchmark, result)
    assert [source for source, level in cells if level == "all"] == ["stdin", "call", "nano"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backend": "tgi"}, "unknown backend"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"benchmark": "humanevil"}, "unknown benchmark"),
        ({"model": "./nowhere"}, "does not exist"),
        ({"start": "2025-01-01"}, "it has no dates"),
    ],
)
def test_a_wrong_request_is_one_clear_sentence(tmp_path, change, message):
    values = {"model": "nano-s", "benchmark": "nano:test", "lengths": (24,), "cache": tmp_path}
    with pytest.raises(UserError, match=message):
        open_run(EvaluationRequest(**{**values, **change}))


def verdicts(evaluator, name, path, tmp_path, *programs):
    opened = open_benchmark(name, tmp_path / "cache", str(path))
    pairs = zip(opened.problems(), programs, strict=True)
    submissions = [submission(problem, code) for problem, code in pairs]
    return [result.passed for result in evaluator.evaluate(submissions, early_exit=True)]


def test_functions_are_judged_by_their_statements(tmp_path, evaluator):
    rows = [published.humaneval(task_id=f"HumanEval/{n}") for n in range(3)]
    path = jsonl(tmp_path / "HumanEval.jsonl", *rows)
    right, wrong = "def quarter(x): return x / 4", "def quarter(x): return x / 2"
    with_a_helper_of_the_prompt = "def quarter(x): return half(half(x))"
    programs = (right, with_a_helper_of_the_prompt, wrong)
    assert verdicts(evaluator, "humaneval", path, tmp_path, *programs) == [True, True, False]
    path = jsonl(tmp_path / "mbpp.jsonl", published.mbpp(), published.mbpp(task_id=12))
    programs = ("def add(a, b): return a + b", "def add(a, b): return 3")
    assert verdicts(evaluator, "mbpp", path, tmp_path, *programs) == [True, False]


HUMANEVAL = Path(__file__).parents[3] / "shared" / "data" / "HumanEval.jsonl.gz"


@pytest.mark.skipif(
    not HUMANEVAL.exists(), reason="the HumanEval file is not beside the repository"
)
def test_all_references_of_humaneval_pass(tmp_path, evaluator):
    opened = open_benchmark("humaneval", tmp_path / "cache", str(HUMANEVAL))
    assert len(opened) == 164
    programs = [record.references[0] for record in opened.problems()]
    assert all(verdicts(evaluator, "humaneval", HUMANEVAL, tmp_path, *programs))


# Numbers ----------------------------------------------------------------------------------------


def rows(*passes, attempts=4, **about):
    return [{"passes": c, "attempts": attempts, **about} for c in passes]


def test_scores_by_hand():
    assert score(rows(4, 0, 2, 2)).value == pytest.approx(0.5)
    assert score(rows(2, 0), k=2).value == pytest.approx((1 - 1 / 6) / 2)  # 1 - C(2,2)/C(4,2)
    assert score([*rows(4), *rows(0, attempts=1)], k=2).problems == 1
    with pytest.raises(UserError, match="no problem has 5 judged attempts"):
        score(rows(4), k=5)


def test_the_interval_is_that_of_the_mean_over_problems():
    interval = score(rows(*[4] * 50, *[0] * 50))
    assert interval.low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.01)
    assert interval.high == pytest.approx(0.5 + 1.96 * 0.05, abs=0.01)
    certain = score(rows(4, 4, 4))
    assert (certain.low, certain.high) == (1.0, 1.0)


def test_the_table_has_the_papers_shape(tmp_path, problems, evaluator):
    sampler = Scripted(RIGHT, WRONG, WRONG, WRONG, CALL, CALL)
    _, [result] = run(tmp_path / "run", problems, evaluator, sampler)
    cells = table_cells(LIVECODEBENCH, result)
    assert cells == {
        ("atcoder", "easy"): 50.0,
        ("atcoder", "hard"): 0.0,
        ("atcoder", "all"): 25.0,
        ("leetcode", "hard"): 100.0,
        ("leetcode", "all"): 100.0,
        ("LiveCodeBench", "easy"): 50.0,
        ("LiveCodeBench", "hard"): 50.0,
        ("LiveCodeBench", "all"): 50.0,
    }
    lines = table_text({"base": cells, "trained": {("atcoder", "easy"): 75.0}}).splitlines()
    assert lines[0].split() == ["atcoder", "leetcode", "LiveCodeBench"]
    assert lines[1].split() == ["easy", "hard", "all", "hard", "all", "easy", "hard", "all"]
    assert lines[3].split() == ["trained", "75.0", *"-------"]


def test_a_vllm_engine_gets_one_seed_a_response(monkeypatch):
    class Engine:
        def __init__(self, **options):
            self.options = options

        def generate(self, prompts, parameters):
            return [
                SimpleNamespace(
                    outputs=[SimpleNamespace(token_ids=(*p["prompt_token_ids"], s["seed"]))]
                )
                for p, s in zip(prompts, parameters, strict=True)
            ]

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=Engine, SamplingParams=dict))
    sample = vllm_engine_sampler("somewhere")
    assert sample([[1], [2]], 8, 0.6, 40) == [[1, 40], [2, 41]]
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="vLLM is not installed"):
        vllm_engine_sampler("somewhere")


def test_settings_are_kept_as_json(tmp_path, problems):
    BenchmarkRun(tmp_path / "run", problems, settings(problems))
    kept = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert (kept["attempts"], kept["lengths"]) == (2, [1000])
