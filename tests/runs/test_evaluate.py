"""Evaluation: one sampling for several lengths, kept and resumed in a folder, for any problems."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig

from mcbench.data.benchmarks import open_benchmark
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.files import read_lines
from mcbench.runs import evaluate as module
from mcbench.runs import sampling
from mcbench.runs.evaluate import evaluate, select_problems
from mcbench.runs.problems import load_problems
from mcbench.runs.sampling import (
    Policy,
    load_model,
    load_policy,
    prompt_ids,
    transformers_policy,
    vllm_engine_sampler,
)
from mcbench.runs.scores import cells_of, mean_pass_at


@pytest.fixture(scope="module")
def model_and_tokenizer(tiny_model):
    return load_model(str(tiny_model))


@pytest.fixture(scope="module")
def policy(model_and_tokenizer):
    return transformers_policy(*model_and_tokenizer)


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=2) as evaluator:
        yield evaluator


@pytest.fixture(scope="module")
def problems(problem_file):
    return load_problems(str(problem_file))


def test_a_limit_spreads_over_the_whole_set(problems):
    assert [p.id for p in select_problems(problems, 3)] == ["p0", "p2", "p4"]
    assert select_problems(problems, None) == tuple(problems)


def test_evaluating_changes_neither_mode_nor_random_state(
    model_and_tokenizer, policy, evaluator, problems
):
    model, _ = model_and_tokenizer
    model.train()
    before = torch.get_rng_state(), random.getstate()
    options = {"evaluator": evaluator, "lengths": [6, 12], "attempts": 3, "seed": 5}
    first = evaluate(policy, problems, **options)
    assert model.training
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert evaluate(policy, problems, **options) == first
    assert evaluate(policy, problems, **{**options, "seed": 6}) != first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temperature": 0.0}, "temperature must be greater than 0"),
        ({"temperature": float("inf")}, "temperature must be greater than 0"),
        ({"attempts": 0}, "attempts must be at least 1"),
        ({"lengths": []}, "lengths must be whole numbers from 1"),
        ({"lengths": [0, 4]}, "lengths must be whole numbers from 1"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_a_model_is_loaded(problems, change, message):
    with pytest.raises(UserError, match=message):
        evaluate(pytest.fail, problems, **{"lengths": [4], **change})
    with pytest.raises(UserError, match="the problem set is empty"):
        evaluate(pytest.fail, [], lengths=[4])


# Samples of a script ------------------------------------------------------------------------------


class Letters:
    """A tokenizer: every character is a token, 0 ends a response."""

    def __call__(self, texts):
        return {"input_ids": [[ord(c) for c in text] for text in texts]}

    def apply_chat_template(self, messages, **_):
        return {"input_ids": [ord(c) for m in messages for c in m["content"]]}

    def batch_decode(self, rows, **_):
        return ["".join(map(chr, filter(None, row))) for row in rows]


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


def says(*texts):
    return Policy(Scripted(*texts), Letters(), {0})


def block(code):
    return f"```python\n{code}\n```"


PROGRAM = "print(sum(map(int, input().split())))"
RIGHT, WRONG = block(PROGRAM), block("print(0)")
CALL = block("class Solution:\n    def total(self, nums, k):\n        return sum(nums) * k")
SUMS = ({"stdin": "1 2\n", "expected": "3\n"}, {"stdin": "2 2\n", "expected": "4\n"})
THREE = (
    Problem(id="a", statement="s", form="stdin", tests=SUMS, difficulty="easy", kind="atcoder"),
    Problem(id="b", statement="s", form="stdin", tests=SUMS, difficulty="hard", kind="atcoder"),
    Problem(
        id="c", statement="s", form="call", difficulty="hard", kind="leetcode", fn_name="total",
        tests=({"args": [[1, 2], 2], "expected": 6},),
    ),
)  # fmt: skip


def test_responses_are_judged_at_every_length(tmp_path, evaluator):
    late = "thinking " * 20 + "\n" + RIGHT
    policy = says(RIGHT, late, WRONG, "no code at all", CALL, CALL)
    short, long = evaluate(
        policy, THREE, lengths=(100, 1000), attempts=2, evaluator=evaluator, folder=tmp_path / "e"
    )
    assert [row["passes"] for row in short.per_problem] == [1, 0, 2]
    assert [row["passes"] for row in long.per_problem] == [2, 0, 2]
    assert long.pass_at_1 == pytest.approx(4 / 6)
    assert mean_pass_at(short.per_problem, 2) == mean_pass_at(long.per_problem, 2) == 2 / 3
    assert (short.truncated_share, long.truncated_share) == (pytest.approx(1 / 6), 0)
    lengths = [len(text) + 1 for text in (RIGHT, late, WRONG, "no code at all", CALL, CALL)]
    assert long.mean_length == pytest.approx(sum(lengths) / 6)
    assert short.mean_length == pytest.approx(sum(min(n, 100) for n in lengths) / 6)
    assert cells_of(long.per_problem, "kind", "both") == {
        ("atcoder", "easy"): 100.0, ("atcoder", "hard"): 0.0, ("atcoder", "all"): 50.0,
        ("leetcode", "hard"): 100.0, ("leetcode", "all"): 100.0,
        ("both", "easy"): 100.0, ("both", "hard"): 50.0, ("both", "all"): pytest.approx(200 / 3),
    }  # fmt: skip
    files = sorted((tmp_path / "e" / "samples").glob("*.jsonl"))
    first, second, _ = [row for file in files for row in read_lines(file)]
    assert first["attempts"][1]["text"] == late
    assert first["attempts"][1]["verdicts"] == {"100": "no code", "1000": "AC,AC"}
    assert [a["verdicts"]["1000"] for a in second["attempts"]] == ["WA", "no code"]


def test_a_folder_changes_no_number(tmp_path, evaluator, policy, problems):
    options = {"lengths": [6, 12], "attempts": 2, "evaluator": evaluator}
    kept = evaluate(policy, problems, **options, folder=tmp_path / "e")
    assert kept == evaluate(policy, problems, **options)
    # From what is there, without a model; "no 4-gram" survives the folder too.
    assert evaluate(pytest.fail, problems, **options, folder=tmp_path / "e") == kept
    short = {**options, "lengths": [3]}
    one, two = (
        evaluate(policy, problems, **short, folder=folder) for folder in (None, tmp_path / "short")
    )
    assert one[0].distinct_4 != one[0].distinct_4  # NaN
    assert repr(one) == repr(two)


def test_an_interrupted_evaluation_goes_on_and_ends_alike(tmp_path, evaluator, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 1)
    monkeypatch.setattr(module, "CHUNK_RESPONSES", 1)
    texts = [RIGHT, WRONG, RIGHT, RIGHT, CALL, WRONG]
    options = {"lengths": [1000], "attempts": 2, "seed": 3, "evaluator": evaluator}
    whole = says(*texts)
    expected = evaluate(whole, THREE, **options, folder=tmp_path / "whole")
    with pytest.raises(InterruptedError):  # in the second chunk
        evaluate(says(*texts[:2]), THREE, **options, folder=tmp_path / "half")
    again = says(*texts[2:])
    assert evaluate(again, THREE, **options, folder=tmp_path / "half") == expected
    seeds = [seed for _, seed in whole.sampler.calls]
    assert len(set(seeds)) == 3
    assert [seed for _, seed in again.sampler.calls] == seeds[1:]
    files = sorted((tmp_path / "whole" / "samples").iterdir())
    assert len(files) == 3
    for file in files:
        assert (tmp_path / "half" / "samples" / file.name).read_bytes() == file.read_bytes()


def test_kill_9_then_the_same_call_ends_in_the_same_files(
    tmp_path, policy, problems, evaluator, monkeypatch
):
    monkeypatch.setattr(module, "CHUNK", 2)
    monkeypatch.setattr(module, "CHUNK_RESPONSES", 1)
    options = {"lengths": [6, 12], "seed": 1, "evaluator": evaluator}
    rows = module._rows

    def run_and_die():
        """In another process: killed while it samples the second of three chunks."""
        done = []

        def then_killed(*arguments, **named):
            if done:
                os.kill(os.getpid(), signal.SIGKILL)
            done.append(1)
            return rows(*arguments, **named)

        module._rows = then_killed
        evaluate(policy, problems, **{**options, "evaluator": None}, folder=tmp_path / "killed")

    whole = evaluate(policy, problems, **options, folder=tmp_path / "whole")
    process = multiprocessing.get_context("fork").Process(target=run_and_die)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert len(list((tmp_path / "killed" / "samples").iterdir())) == 1
    assert evaluate(policy, problems, **options, folder=tmp_path / "killed") == whole
    for file in (tmp_path / "whole").rglob("*.json*"):
        copy = tmp_path / "killed" / file.relative_to(tmp_path / "whole")
        assert copy.read_bytes() == file.read_bytes()


def test_a_folder_keeps_one_evaluation(tmp_path, evaluator):
    def again(**changes):
        options = {"lengths": (1000,), "attempts": 2, "evaluator": evaluator, **changes}
        evaluate(says(*[RIGHT] * 6), THREE, folder=tmp_path / "e", **options)

    again(about={"model": "m"})
    kept = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    assert (kept["attempts"], kept["lengths"], kept["model"]) == (2, [1000], "m")
    with pytest.raises(UserError, match=r"another temperature \(1\.0, now 0\.6\)"):
        again(about={"model": "m"}, temperature=0.6)
    with pytest.raises(UserError, match=r"another model \('m', now 'n'\)"):
        again(about={"model": "n"})
    with pytest.raises(UserError, match=r"another thinking \(None, now True\)"):
        again(about={"model": "m", "thinking": True})
    with pytest.raises(UserError, match=r"another model \('m', now None\)"):
        again()


def test_attempts_that_our_own_failure_lost_do_not_count():
    class Failing:
        def evaluate(self, submissions, early_exit):
            return [SimpleNamespace(verdicts=["AC", "IE"]) for _ in submissions]

    texts = [RIGHT, "no code", *[RIGHT] * 4]
    [result] = evaluate(says(*texts), THREE, lengths=[99], attempts=2, evaluator=Failing())
    assert [row["attempts"] for row in result.per_problem] == [1, 0, 0]


def test_a_benchmark_is_a_set_of_problems_like_any_other(tmp_path, evaluator):
    row = {
        "task_id": "HumanEval/0", "entry_point": "add", "canonical_solution": "    return a + b\n",
        "prompt": 'BASE = 1\n\ndef add(a, b):\n    """The sum."""\n',
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    }  # fmt: skip
    path = tmp_path / "HumanEval.jsonl"
    path.write_text(json.dumps(row) + "\n")
    opened = open_benchmark("humaneval", tmp_path / "cache", str(path))
    # What the prompt defines is there when the program runs.
    right, wrong = block("def add(a, b):\n    return a + b + BASE - 1"), block("def add(a, b): 3")
    policy = says(right, wrong)
    [result] = evaluate(
        policy, opened, lengths=[500], attempts=2, prompt_style="chat", evaluator=evaluator
    )
    [kept] = result.per_problem
    assert (kept["id"], kept["form"], kept["passes"]) == ("humaneval/0", "assert", 1)
    asked = "".join(map(chr, policy.sampler.calls[0][0][0]))
    assert "def add(a, b):" in asked


# Samplers -----------------------------------------------------------------------------------------


def test_lengths_are_distributed_as_those_of_plain_generate(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    (prompt,) = prompt_ids(tokenizer, ["in 1 out 1\nAnswer:\n"])
    sampler = transformers_policy(model, tokenizer, batch_size=1500).sampler
    responses = sampler([prompt] * 3000, 6, 1.0, 0)
    torch.manual_seed(0)
    plain = model.generate(
        torch.tensor([prompt] * 3000), max_new_tokens=6, do_sample=True, top_k=0,
        pad_token_id=tokenizer.pad_token_id,
    )[:, len(prompt) :]  # fmt: skip
    ends = plain == tokenizer.eos_token_id
    lengths = torch.where(ends.any(1), ends.int().argmax(1) + 1, 6).tolist()
    shares = [
        [some.count(n) / 3000 for n in range(1, 7)] for some in (list(map(len, responses)), lengths)
    ]
    error = 4 * (0.5 * 0.5 * 2 / 3000) ** 0.5  # four standard errors of a difference of shares
    assert shares[0] == pytest.approx(shares[1], abs=error)


HABITS = {  # what a model may come with; each changes what `generate` draws
    "repetition_penalty": 1.8,
    "no_repeat_ngram_size": 1,
    "encoder_repetition_penalty": 1.5,
    "encoder_no_repeat_ngram_size": 2,
    "top_k": 1,
    "top_p": 0.1,
    "top_h": 0.2,
    "min_p": 0.9,
    "typical_p": 0.2,
    "epsilon_cutoff": 0.5,
    "eta_cutoff": 0.5,
    "temperature": 0.1,
    "do_sample": False,
    "num_beams": 2,
    "num_return_sequences": 2,
    "length_penalty": 3.0,
    "exponential_decay_length_penalty": [1, 3.0],
    "min_length": 60,
    "min_new_tokens": 3,
    "max_time": 0.0,
    "bad_words_ids": [[5], [6]],
    "sequence_bias": [[[5], -9.0]],
    "suppress_tokens": [4, 5, 6],
    "begin_suppress_tokens": [5, 6],
    "forced_bos_token_id": 7,
    "forced_eos_token_id": 7,
    "guidance_scale": 3.0,
    "watermarking_config": {"greenlist_ratio": 0.1, "bias": 9.0},
    "stop_strings": ["a"],
    "cache_implementation": "static",
    "return_dict_in_generate": True,
    "output_scores": True,
    "prompt_lookup_num_tokens": 2,
    "use_cache": False,
}


def test_no_habit_of_a_models_generation_config_reaches_an_evaluation(tiny_model):
    model, tokenizer = load_model(str(tiny_model))
    asked = prompt_ids(tokenizer, ["in 1 out 1\nAnswer:\n", "in 2"]) * 8

    def drawn():
        policy = transformers_policy(model, tokenizer, 4)
        return policy.ends, policy.sampler(asked, 6, 1.0, 3)

    usual, plain = model.generation_config, drawn()
    for name, value in HABITS.items():
        model.generation_config = GenerationConfig(eos_token_id=usual.eos_token_id, do_sample=True)
        setattr(model.generation_config, name, value)
        own = model.generation_config.to_dict()
        assert drawn() == plain, name
        assert model.generation_config.to_dict() == own  # what is saved with the weights stays
    adapted = get_peft_model(model, LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"))
    adapted.base_model.model.generation_config = GenerationConfig(repetition_penalty=1.8)
    assert transformers_policy(adapted, tokenizer, 4).sampler(asked, 6, 1.0, 3) == plain[1]


class Bar:
    """What an evaluation asks of its bar."""

    def __init__(self, total, disable):
        self.n, self.places = 0, []

    def update(self, more):
        self.n += more
        self.places.append(self.n)

    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *_: None  # noqa: E731


def test_the_bar_moves_within_a_batch(monkeypatch, policy, problems, evaluator, tmp_path):
    bars = []
    monkeypatch.setattr(module, "tqdm", lambda **kwargs: bars.append(Bar(**kwargs)) or bars[-1])
    options = {"lengths": [12], "attempts": 1, "evaluator": evaluator, "progress": True}
    evaluate(policy, problems, folder=tmp_path / "kept", **options)
    [places] = [bar.places for bar in bars]
    assert places == sorted(places)
    assert places[-1] == len(problems)
    assert len({place for place in places if 0 < place < len(problems)}) > 2
    about = json.loads((tmp_path / "kept/evaluation.json").read_text())
    assert about["chunk"] == module.CHUNK_RESPONSES  # one attempt: as many problems
    (tmp_path / "kept/evaluation.json").write_text(json.dumps({**about, "chunk": 32}))
    with pytest.raises(UserError, match="another chunk"):
        evaluate(policy, problems, folder=tmp_path / "kept", **options)


def test_no_more_responses_are_sampled_at_once_than_have_room(model_and_tokenizer, monkeypatch):
    model, tokenizer = model_and_tokenizer
    # One layer with keys and values of one head of 16 float32 each: 128 bytes a token.
    monkeypatch.setattr(sampling, "CACHE_BYTES", 128 * 10 * 5)
    assert [sampling.rows_at_once(model, tokens) for tokens in (10, 11, 51)] == [5, 4, 1]
    sizes = []
    generate = model.generate

    def counted(input_ids, **options):
        sizes.append(len(input_ids))
        return generate(input_ids=input_ids, **options)

    monkeypatch.setattr(model, "generate", counted)
    prompts = [[5] * 4] * 6 + [[5] * 5] * 5
    found = transformers_policy(model, tokenizer, 8).sampler(prompts, 6, 1.0, 0)
    assert (sizes, len(found)) == ([5, 4, 2], 11)


def test_a_program_judged_before_is_not_judged_again(problems):
    asked = []

    def evaluate(submissions, early_exit):
        asked.append(len(submissions))
        verdicts = ["IE"] if len(asked) == 1 else ["WA"]
        return [SimpleNamespace(verdicts=verdicts) for _ in submissions]

    counting = SimpleNamespace(evaluate=evaluate)
    known = {(problems[0].id, "print(1)\n"): "AC"}
    texts = {9: [f"```python\nprint({n})\n```" for n in (1, 2)]}
    for expected in ("IE", "WA", "WA"):  # our own failure is not remembered
        assert module.judge(counting, problems[:1], texts, 2, known) == {9: ["AC", expected]}
    assert asked == [1, 1]


class Engine:
    """What the sampler asks of vLLM; a response is its prompt, seed and limit, then the end."""

    def __init__(self, model, **options):
        self.model = model

    def generate(self, prompts, parameters):
        return [
            SimpleNamespace(
                outputs=[
                    SimpleNamespace(token_ids=(*p["prompt_token_ids"], s["seed"], s["max_tokens"]))
                ]
            )
            for p, s in zip(prompts, parameters, strict=True)
        ]


def test_a_vllm_engine_gets_one_seed_a_response(monkeypatch, tiny_model):
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=Engine, SamplingParams=dict))
    assert vllm_engine_sampler("somewhere")([[1], [2]], 8, 0.6, 40) == [[1, 40, 8], [2, 41, 8]]
    policy = load_policy(str(tiny_model), "vllm")
    assert policy.ends == [policy.tokenizer.eos_token_id]
    assert [r[-2:] for r in policy.respond(["in", "out"], 2, 8, 1.0, 5)] == [
        [5, 8], [6, 8], [7, 8], [8, 8],
    ]  # fmt: skip
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="vLLM is not installed"):
        load_policy(str(tiny_model), "vllm")
    assert partial(load_policy, str(tiny_model))().ends == policy.ends


def test_reading_records_and_scores_loads_no_torch():
    names = ("compact", "store", "scores", "distributions", "evaluate")
    code = (
        f"import sys; from mcbench.runs import {', '.join(names)}\n"
        "assert not {'torch', 'transformers', 'trl'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
