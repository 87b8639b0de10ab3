"""What a run's log gets: records, metrics, TRL's own completion files, evaluation."""

import types
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, TrainerCallback

from mcbench.errors import UserError
from mcbench.grpo import diversity, early
from mcbench.grpo.checks import changed_sampling
from mcbench.grpo.generation import _scored, completion_text, own_text
from mcbench.grpo.metrics import gradient_metrics, group_metrics
from mcbench.runs.sampling import TOKENS_ALONE

from . import table
from .conftest import letter_reward, logged, make_dataset


def judged(completions, log_extra, problem_id, **columns):
    log_extra("verdicts", [f"{p}:{t[:1]}" for p, t in zip(problem_id, completions, strict=True)])
    return [
        None if p == "p1" else r for p, r in zip(problem_id, table.right(completions), strict=True)
    ]


def test_record_of_a_batch(make_trainer, tmp_path):
    records = []
    parts = {**table.trainer_parts(), "reward_funcs": judged, "on_generation": records.append}
    trainer = make_trainer(
        trainer=parts,
        **table.settings(per_device_train_batch_size=32, max_steps=2, mask_ratio=1.0),
        log_completions=True,
        num_completions_to_print=0,
    )
    trainer.train()
    assert [batch.step for batch in records] == [0, 1]
    batch = records[1]
    assert batch.columns["problem_id"] == [f"p{i // 4}" for i in range(32)]
    assert batch.columns["verdicts"][4] == f"p1:{batch.completions[4][0]}"
    assert batch.group.tolist() == [i // 4 for i in range(32)]
    assert batch.lengths.tolist() == [len(ids) for ids in batch.completion_ids]
    assert np.isnan(batch.rewards[4:8]).all()  # unscored: neither eligible nor counted
    assert not batch.eligible["incorrect"][4:8].any()
    assert batch.eligible["non_incorrect"][4]
    metrics = next(line for line in trainer.state.log_history if line["step"] == 2)
    assert (metrics["group/mixed"], metrics["group/all_fail"]) == (7 / 8, 0.0)
    groups = [batch.completion_ids[i : i + 4] for i in range(0, 32, 4)]
    assert metrics["diversity/distinct_2"] == diversity.distinct_n(groups)[2]
    assert metrics["diversity/self_bleu"] == diversity.self_bleu(groups)
    assert metrics["length/p50"] == np.median(batch.lengths)
    assert metrics["time/generate_s"] > 0
    written = pd.read_parquet(tmp_path / "completions" / "completions_00002.parquet")
    np.testing.assert_allclose(written["advantage"], batch.advantages)
    assert written["advantage"][batch.masked].eq(0.0).all()


def test_evaluation_is_measured_but_never_masked(make_trainer):
    records = []
    trainer = make_trainer(
        trainer={"eval_dataset": make_dataset(4), "on_generation": records.append},
        truncation_mask="conditional",
        mask_when="correct",
        mask_ratio=1.0,
        repeat_window=4,
        per_device_eval_batch_size=4,
    )
    measured = trainer.evaluate()
    assert measured["eval_mask/share"] == 0.0
    assert measured["eval_mask/eligible_correct"] > 0.0
    assert 0 < measured["eval_diversity/distinct_4"] <= 1
    assert records == []


def test_a_reward_function_logs_metrics_of_an_evaluation(make_trainer):
    def noting(completions, log_metric, **_):
        log_metric("spaces", sum(text.count(" ") for text in completions))
        return letter_reward(completions)

    parts = {"eval_dataset": make_dataset(4), "reward_funcs": noting}
    measured = make_trainer(trainer=parts, per_device_eval_batch_size=16).evaluate()
    assert measured["eval_spaces"] > 0


def test_metrics_are_computed_of_all_responses_of_an_evaluation(make_trainer):
    """Also of a last batch that is not full, and the best checkpoint can be chosen by them."""
    seen = []

    def compute(batch):
        seen.append(batch)
        return {"shortest": batch.lengths.min(), "right": np.nanmean(batch.rewards)}

    trainer = make_trainer(
        trainer={"eval_dataset": make_dataset(5), "compute_metrics": compute},
        per_device_eval_batch_size=8, num_generations_eval=2, eval_strategy="steps", eval_steps=1,
        max_steps=1, metric_for_best_model="right", greater_is_better=True, save_strategy="best",
    )  # fmt: skip
    trainer.train()
    (batch,) = seen
    assert sorted(batch.columns["problem_id"]) == [f"p{i // 2}" for i in range(10)]
    assert batch.group.tolist() == [i // 2 for i in range(10)]
    assert batch.rewards.tolist() == letter_reward(batch.completions)
    measured = next(line for line in trainer.state.log_history if "eval_right" in line)
    assert measured["eval_shortest"] == batch.lengths.min()
    assert trainer.state.best_metric == measured["eval_right"] == batch.rewards.mean()


def test_metrics_may_have_the_prefix_and_may_be_none(make_trainer):
    parts = {"eval_dataset": make_dataset(2), "compute_metrics": lambda batch: {"eval_n": 8}}
    trainer = make_trainer(trainer=parts)
    assert trainer.evaluate()["eval_n"] == 8
    assert "eval_eval_n" not in trainer.evaluate()


@pytest.mark.parametrize("found", [None, {"n": "many"}, {"n": [1, 2]}])
def test_metrics_are_numbers_by_name(make_trainer, found):
    parts = {"eval_dataset": make_dataset(2), "compute_metrics": lambda batch: found}
    with pytest.raises(UserError, match="compute_metrics returns numbers by name"):
        make_trainer(trainer=parts).evaluate()


def test_a_column_is_of_the_responses_or_in_no_record(make_trainer, caplog):
    """Two functions log one of their name, one logs too little; some batches lack one."""
    batches, seen = [], []

    def one(completions, log_extra, **_):
        log_extra("both", completions)
        log_extra("short", ["a"])
        if len(seen) % 2 == 0:
            log_extra("some", completions)
        seen.append(completions)
        return letter_reward(completions)

    def other(completions, log_extra, **_):
        log_extra("both", completions)
        return letter_reward(completions)

    parts = {"eval_dataset": make_dataset(2), "compute_metrics": lambda b: batches.append(b) or {}}
    make_trainer(
        trainer={**parts, "reward_funcs": [one, other]}, per_device_eval_batch_size=4
    ).evaluate()
    assert sorted(batches[0].columns) == ["problem_id", "some"]
    assert batches[0].columns["some"] == [*seen[0], *[None] * 4]
    assert caplog.text.count("log_extra: the column both has 8 values for 4 responses") == 1
    assert caplog.text.count("log_extra: the column short has 1 values for 4") == 1


def test_every_row_of_the_shown_completions_has_its_own_columns(make_trainer, tmp_path):
    """One that is logged now and then, or of evaluations alone, and one of the wrong length."""
    calls = []

    def noting(completions, log_extra, **_):
        calls.append(completions)
        if len(calls) % 2:
            log_extra("some", [f"of {len(calls)}"] * len(completions))
        if len(completions) == 2:
            log_extra("evaluated", completions)
        log_extra("odd", ["a"])
        return letter_reward(completions)

    trainer = make_trainer(
        trainer={"reward_funcs": noting, "eval_dataset": make_dataset(1)}, num_generations_eval=2,
        per_device_eval_batch_size=2, eval_strategy="steps", eval_steps=3, max_steps=3,
        log_completions=True,
    )  # fmt: skip
    trainer.train()
    second, last = (
        pd.read_parquet(tmp_path / "completions" / f"completions_0000{step}.parquet")
        for step in (2, 3)
    )
    assert second["some"].tolist() == [None] * 4
    assert "odd" not in second
    # The evaluation of the last step has two of its four rows.
    assert last["some"].fillna("").tolist() == ["of 3", "of 3", "", ""]
    assert last["evaluated"].fillna("").tolist() == ["", "", *calls[3]]


def test_each_set_of_an_evaluation_has_its_own_numbers(make_trainer):
    """Whether of a dictionary, of a prediction, or of the evaluation after one."""
    given = iter([0.0, 0.0, 1.0, 1.0, 0.0])

    def counted(completions, **_):
        return [next(given)] * len(completions)

    trainer = make_trainer(
        trainer={
            "reward_funcs": counted,
            "eval_dataset": {"zero": make_dataset(2), "one": make_dataset(2)},
        },
        per_device_eval_batch_size=4,
    )
    measured = trainer.evaluate()
    assert (measured["eval_zero_reward"], measured["eval_one_reward"]) == (0, 1)
    assert "eval_reward" not in measured
    assert logged(trainer, "eval_zero_reward") == [0]
    assert trainer.predict(make_dataset(1)).metrics["test_reward"] == 0
    given = iter([1.0])
    assert trainer.evaluate(make_dataset(1))["eval_reward"] == 1


def test_a_callback_that_leaves_evaluation_mode_on_takes_no_numbers_from_the_log(make_trainer):
    class Leaving(TrainerCallback):
        def on_step_end(self, *args, model, **kwargs):
            model.eval()

    trainer = make_trainer(trainer={"callbacks": [Leaving()]}, max_steps=2)
    trainer.train()
    assert len(logged(trainer, "loss")) == len(logged(trainer, "reward")) == 2


def test_a_tool_s_text_is_no_program_of_the_policy():
    said = [{"role": "assistant", "content": "a"}, {"role": "tool", "content": "```\nx\n```"}]
    assert own_text(said) == "a"
    assert own_text("a") == "a"


def test_programs_and_conversations(make_trainer):
    tokenizer_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    records = []
    prompts = [[{"role": "user", "content": "a b"}], [{"role": "user", "content": "c d"}]]

    def even(completions, **columns):
        return letter_reward([completion_text(c) for c in completions])

    trainer = make_trainer(
        trainer={
            "train_dataset": Dataset.from_dict({"prompt": prompts}),
            "reward_funcs": even,
            "on_generation": records.append,
            "extract_program": lambda text: "x = 1",
        },
        max_steps=1,
    )
    trainer.processing_class.chat_template = tokenizer_template
    trainer.train()
    assert all(isinstance(text, str) for text in records[0].completions)
    assert trainer.state.log_history[0]["diversity/unique_programs"] == pytest.approx(1 / 4)


class EarlyReward:
    """Told of the responses before it is asked; its ``start`` is its own business."""

    __name__ = "early"

    def __init__(self):
        self.told = []

    def start(self):
        raise AssertionError("not the trainer's to call")

    def start_scoring(self, completions, problem_id, **columns):
        assert not columns
        self.told.append((completions, problem_id))

    def __call__(self, completions, problem_id, **columns):
        assert self.told[-1] == (completions, problem_id)
        return letter_reward(completions)


def test_a_reward_function_may_start_early(make_trainer):
    reward = EarlyReward()
    trainer = make_trainer(trainer={"reward_funcs": [reward, letter_reward]}, max_steps=2)
    early.responses(trainer, [{"prompt": "a b"}])  # belongs to no batch: nobody is told
    trainer.train()
    assert [len(completions) for completions, _ in reward.told] == [4, 4]


def test_what_a_model_thought_is_in_its_text():
    thought = {"role": "assistant", "name": "it", "reasoning_content": "cut in", "content": ""}
    assert completion_text([thought]) == "cut in"
    said = {"content": "so", "thinking": "hm", "role": "assistant"}
    assert completion_text([said, {"role": "tool", "tool_call_id": "1", "content": "3"}]) == (
        "hm\nso\n3"
    )


def test_what_passes_is_decided_by_the_thresholds(make_trainer):
    trainer = make_trainer(
        trainer={"reward_funcs": lambda completions, **_: [0.7] * len(completions)},
        correct_threshold=0.6,
        incorrect_threshold=0.3,
        max_steps=1,
    )
    trainer.train()
    (line, _) = trainer.state.log_history
    assert (line["group/all_pass"], line["group/all_fail"]) == (1.0, 0.0)
    assert line["length/correct_mean"] == line["completions/mean_length"]


def test_group_shares():
    rewards = np.array([1, 1, 1, 0, 0, 0, np.nan, np.nan, 1, np.nan])
    shares = group_metrics(rewards, rewards >= 1, 2)
    assert shares == {"group/all_fail": 0.2, "group/mixed": 0.2, "group/all_pass": 0.4}


def test_ratios_of_a_batch_are_those_of_its_updates(make_trainer):
    """Each of the four updates of a generation sees a quarter of the responses; TRL logs the share
    of their tokens that it clips.
    """
    told, seen, batches = [], [], []
    trainer = make_trainer(
        trainer={"on_generation": batches.append},
        steps_per_generation=4,
        max_steps=4,
        learning_rate=3e-2,
        epsilon_high=0.28,
        length_groups=2,
        loss_type="dapo",
    )

    class Ends(TrainerCallback):
        def on_step_end(self, *args, **kwargs):
            told.append(trainer.log_ratios())
            seen.append(set(trainer._log_ratios).difference(*seen))

    trainer.add_callback(Ends())
    trainer.train()
    (batch,), (*early, ratios) = batches, told
    assert early == [None] * 3  # not all responses are trained on yet
    assert [len(row) for row in ratios] == batch.lengths.tolist()
    shares = []
    for places in seen:
        clipped = [
            np.exp(ratios[i]) > 1.28 if batch.advantages[i] > 0 else
            (np.exp(ratios[i]) < 0.8) & (batch.advantages[i] < 0)
            for i in places
        ]  # fmt: skip
        shares.append(np.concatenate(clipped).mean())
    logged = [line["clip_ratio/region_mean"] for line in trainer.state.log_history[:-1]]
    assert shares == pytest.approx(logged)
    assert shares[0] == 0.0 < shares[-1]  # the first update's policy is the one that sampled


def test_responses_without_a_token_in_the_loss_have_no_ratios(make_trainer):
    """TRL scores them as padding: what comes of it is no ratio of the policy's."""
    batches, told = [], []
    trainer = make_trainer(
        trainer={"on_generation": batches.append},
        steps_per_generation=4,
        max_steps=4,
        length_groups=2,
        loss_type="dapo",
        truncation_mask="all",
    )

    class Ends(TrainerCallback):
        def on_step_end(self, *args, **kwargs):
            told.append(trainer.log_ratios())

    trainer.add_callback(Ends())
    trainer.train()
    (batch,), ratios = batches, told[-1]
    assert 0 < batch.masked.sum() < len(batch.masked)
    assert [len(row) for row in ratios] == (batch.lengths * ~batch.masked).tolist()


def test_an_evaluation_between_two_updates_leaves_the_ratios_of_the_batch(make_trainer):
    batches, told = [], []
    trainer = make_trainer(
        trainer={"on_generation": batches.append, "eval_dataset": make_dataset(1)},
        steps_per_generation=2, max_steps=2, eval_strategy="steps", eval_steps=1,
    )  # fmt: skip

    class Ends(TrainerCallback):
        def on_step_end(self, *args, **kwargs):
            told.append(trainer.log_ratios())

    trainer.add_callback(Ends())
    trainer.train()
    assert [len(row) for row in told[-1]] == batches[0].lengths.tolist()


@pytest.mark.parametrize(
    ("per_response", "cut", "longest"), [(False, 8 / 15, 8 / 15), (True, 0.25, 0.25)]
)
def test_whose_gradient_an_update_is(per_response, cut, longest):
    batch = types.SimpleNamespace(
        advantages=np.array([1.0, -1.0, 0.0, 2.0]),
        lengths=np.array([8, 1, 8, 3]),
        truncated=np.array([True, False, True, False]),
        max_completion_length=8,
    )
    found = gradient_metrics(batch, per_response)
    assert found["gradient/cut"] == pytest.approx(cut)
    assert found["gradient/to_100"] == pytest.approx(longest)
    assert sum(found[f"gradient/to_{q}"] for q in (25, 50, 75, 100)) == pytest.approx(1)
    batch.advantages = np.zeros(4)
    assert gradient_metrics(batch, per_response) == {}


def test_old_log_probs_of_the_sampler_are_for_rotary_positions_alone(make_trainer, tmp_path):
    """TRL scores without positions, so that learned ones count a prompt's padding."""
    small = GPT2Config(vocab_size=16, n_positions=64, n_embd=16, n_layer=1, n_head=2,
                       eos_token_id=0, bos_token_id=None, pad_token_id=1)  # fmt: skip
    GPT2LMHeadModel(small).save_pretrained(tmp_path / "gpt2")
    learned = GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2")
    assert make_trainer(sample_unfinished=True).scores_what_it_samples
    options = {"sample_unfinished": True, "trainer": {"model": learned}}
    assert not make_trainer(**options).scores_what_it_samples


def test_what_is_logged_before_the_first_batch_is_of_training(make_trainer):
    trainer = make_trainer()
    trainer.log_of_batch({"task/turns": 2.0})
    assert trainer._metrics["train"]["task/turns"] == [2.0]


def test_what_runs_ask_of_vllm_changes_no_log_probability(config):
    asked = config(generation_kwargs=dict(TOKENS_ALONE))
    assert changed_sampling(asked, {}) == {}


def test_an_environment_s_tokens_have_no_entropy_in_what_is_measured(make_trainer):
    trainer = make_trainer(sample_unfinished=True)
    traced = torch.zeros(3), torch.tensor([0.5, 0.0, 1.5])
    own = dict.fromkeys((f.name for f in fields(early.Rollout)), None)
    one = early.Rollout(**own | {"ids": [3, 4, 5], "own": [1, 0, 1], "traced": traced})
    trainer.stages._over = lambda grid, measure: measure([one])
    assert trainer.stages.measure_entropy() == pytest.approx(1.0)


def test_what_was_removed_before_it_was_scored_has_the_sampler_s_log_probabilities():
    scored = torch.tensor([[-1.0, -2.0], [0.0, 0.0]])
    output = {"old_per_token_logps": scored, "completion_mask": torch.tensor([[1, 1], [0, 0]])}
    said = [torch.tensor([-1.1, -2.1]), torch.tensor([-3.0, -4.0])]
    assert [row.tolist() for row in _scored(output, said)] == [[-1, -2], [-3, -4]]
    assert _scored(output, None)[1].isnan().all()
    assert _scored({}, said) is said
