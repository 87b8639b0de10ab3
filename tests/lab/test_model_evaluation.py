"""Evaluation: pass@k, one sampling for several lengths, and leaving the training as it was."""

import itertools
import random
from types import SimpleNamespace

import pytest
import torch

from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator
from mcbench.runs.evaluate import evaluate_model, pass_at_k, select_problems
from mcbench.runs.problems import load_problems
from mcbench.runs.sampling import prompt_ids, transformers_sampler, vllm_sampler
from mcbench.runs.train import load_model


@pytest.fixture(scope="module")
def model_and_tokenizer(tiny_model):
    return load_model(str(tiny_model))


@pytest.fixture(scope="module")
def evaluator():
    with Evaluator(workers=1) as evaluator:
        yield evaluator


@pytest.fixture(scope="module")
def problems(problem_file):
    return load_problems(str(problem_file))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 2), (5, 3, 2), (6, 0, 3), (6, 6, 1), (4, 2, 4)])
def test_pass_at_k_is_the_share_of_draws_that_hold_a_pass(n, c, k):
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_refuses_more_than_there_are():
    with pytest.raises(UserError, match="pass@5 needs 1 <= k <= attempts"):
        pass_at_k(4, 1, 5)


def test_a_limit_spreads_over_the_whole_set(problems):
    assert [p.id for p in select_problems(problems, 3)] == ["p0", "p2", "p4"]
    assert select_problems(problems, None) == tuple(problems)


def test_evaluating_changes_neither_mode_nor_random_state(model_and_tokenizer, evaluator, problems):
    model, tokenizer = model_and_tokenizer
    model.train()
    before = torch.get_rng_state(), random.getstate()
    options = {"evaluator": evaluator, "lengths": [6, 12], "attempts": 3, "seed": 5}
    first = evaluate_model(model, tokenizer, problems, **options)
    assert model.training
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert evaluate_model(model, tokenizer, problems, **options) == first
    other = evaluate_model(model, tokenizer, problems, **{**options, "seed": 6})
    assert other != first


def scripted(tokenizer, texts):
    """A sampler that gives the texts, whatever the prompts, cut at the limit."""
    ids = tokenizer(list(texts))["input_ids"]
    return lambda prompts, limit, temperature, seed: [row[:limit] for row in ids]


def test_each_length_judges_what_a_cut_there_leaves(model_and_tokenizer, evaluator):
    model, tokenizer = model_and_tokenizer
    test = {"stdin": "", "expected": ""}
    problems = [
        Problem(id=name, statement="s", form="stdin", tests=(test,), difficulty=difficulty)
        for name, difficulty in (("a", "easy"), ("b", "hard"))
    ]
    short, long = "```python\n```<eos>", "x\nx\n```python\n```<eos>"
    texts = [short, long, "```python\nx\n```<eos>", "x\n" * 8]
    lengths = [len(tokenizer(short)["input_ids"]), len(tokenizer(long)["input_ids"])]
    brief, full = evaluate_model(
        model, tokenizer, problems, evaluator=evaluator, lengths=lengths, attempts=2,
        sampler=scripted(tokenizer, texts),
    )  # fmt: skip
    assert [row["passes"] for row in brief.per_problem] == [1, 0]
    assert [row["passes"] for row in full.per_problem] == [2, 0]
    assert (brief.pass_at_1, full.pass_at_1) == (0.25, 0.5)
    assert (brief.truncated_share, full.truncated_share) == (0.75, 0.25)
    assert brief.mean_length == lengths[0]
    assert full.by("difficulty") == {("easy",): 1.0, ("hard",): 0.0}
    assert (brief.pass_at(2), full.pass_at(2)) == (0.5, 0.5)


def test_spans_sample_from_the_same_distribution_as_one_generate(model_and_tokenizer, monkeypatch):
    """Shares of each response length, sampling in short spans against one span."""
    model, tokenizer = model_and_tokenizer
    prompts = prompt_ids(tokenizer, ["in 1 out 1\nAnswer:\n"] * 3000)
    shares = []
    for span in (2, 64):
        monkeypatch.setattr("mcbench.runs.sampling.FIRST_SPAN", span)
        sample = transformers_sampler(model, tokenizer, batch_size=1500)
        responses = sample(prompts, 6, 1.0, span)
        shares.append([sum(len(r) == n for r in responses) / 3000 for n in range(1, 7)])
    error = 4 * (0.5 * 0.5 * 2 / 3000) ** 0.5  # four standard errors of a difference of shares
    assert shares[0] == pytest.approx(shares[1], abs=error)


def test_a_temperature_of_zero_is_refused(model_and_tokenizer, evaluator, problems):
    with pytest.raises(UserError, match="temperature must be greater than 0"):
        evaluate_model(
            *model_and_tokenizer, problems, evaluator=evaluator, lengths=[4], temperature=0.0
        )


class VllmTrainer:
    """What the sampler asks of a trainer with a vLLM engine; answers with what it was given."""

    def __init__(self):
        self.vllm_generation = SimpleNamespace(temperature=1.2, max_completion_length=8)
        self.accelerator = SimpleNamespace(process_index=0, num_processes=1)

    def _generate_single_turn(self, prompts, images, fields, count):
        engine = self.vllm_generation
        return [[*p, engine.max_completion_length, engine.temperature] for p in prompts], None


def test_the_vllm_sampler_asks_for_its_own_settings_and_restores_the_trainers():
    trainer = VllmTrainer()
    responses = vllm_sampler(trainer)([[1], [2], [3]], 64, 0.7, 0)
    assert responses == [[1, 64, 0.7], [2, 64, 0.7], [3, 64, 0.7]]
    assert vars(trainer.vllm_generation) == {"temperature": 1.2, "max_completion_length": 8}
