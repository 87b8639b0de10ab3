"""What TRL 1.16 leaves to its user: subclasses, limits, ends, and updates that would be of
something else than what was sampled, or of nothing.
"""

import math
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model

from mcbench.errors import UserError
from mcbench.grpo import MicroCoderGRPOTrainer
from mcbench.grpo.checks import other_distributions

from .conftest import (
    EOS,
    PAD,
    letter_reward,
    logged,
    make_dataset,
    make_model,
    make_tokenizer,
)

STOP = 7


def answering(trainer, rows):
    """The trainer, whose model now gives these responses, padded as transformers pads."""

    def generate(input_ids, **_):
        width = max(map(len, rows))
        padded = torch.tensor([row + [PAD] * (width - len(row)) for row in rows])
        return torch.cat([input_ids, padded], dim=1)

    trainer.model.generate = generate
    return trainer


# Rewards ------------------------------------------------------------------------------------------


class Inverted(MicroCoderGRPOTrainer):
    def _calculate_rewards(self, *batch):
        return 1 - super()._calculate_rewards(*batch)


class Replaced(MicroCoderGRPOTrainer):
    def _calculate_rewards(self, inputs, prompts, completions, ids):
        return 1 - torch.tensor(letter_reward(completions)).unsqueeze(1)


@pytest.mark.parametrize("cls", [Inverted, Replaced])
def test_a_subclass_s_rewards_are_masked_and_recorded(make_trainer, cls):
    batches = []
    options = {"truncation_mask": "conditional", "mask_ratio": 1.0, "repeat_rule": "none"}
    trainer = make_trainer(cls, {"on_generation": batches.append}, **options)
    trainer.train()
    for batch in batches:
        wanted = [1 - reward for reward in letter_reward(batch.completions)]
        assert batch.rewards.tolist() == wanted
        assert batch.masked.tolist() == (batch.truncated & (batch.rewards == 0)).tolist()
    assert logged(trainer, "reward") == [batch.rewards.mean() for batch in batches]
    assert any(batch.masked.any() for batch in batches)


class Shortened(MicroCoderGRPOTrainer):
    """Responses end with their first c, and begin with another letter than they were sampled."""

    end = make_tokenizer().convert_tokens_to_ids("c")

    def _generate(self, prompts):
        found = list(super()._generate(prompts))
        cut = [ids[: ids.index(self.end) + 1] if self.end in ids else ids for ids in found[1]]
        found[1] = [[ids[0] % 8 + 3, *ids[1:]] for ids in cut]
        found[3] = self.texts(found[1])
        return tuple(found)


@pytest.mark.parametrize("options", [{}, {"sample_unfinished": True, "dynamic_sampling": 1}])
def test_a_subclass_s_responses_are_masked_and_recorded(make_trainer, options):
    batches = []
    trainer = make_trainer(
        Shortened, {"on_generation": batches.append}, truncation_mask="conditional",
        mask_ratio=1.0, repeat_rule="none", steps_per_generation=2, max_steps=1, **options,
    )  # fmt: skip
    trainer.train()
    (batch,) = batches
    assert batch.completions == trainer.texts([ids.tolist() for ids in batch.completion_ids])
    shorter = [EOS not in ids and len(ids) < 12 for ids in batch.completion_ids]
    assert any(shorter)
    assert not batch.truncated[shorter].any()
    trained = torch.cat([one["completion_mask"] for one in trainer._buffered_inputs]).sum(dim=1)
    assert sorted(trained.tolist()) == sorted(batch.lengths.tolist())
    old = sum(one["old_per_token_logps"].sum() for one in trainer._buffered_inputs)
    told = sum(float(one.sum()) for one in batch.log_probs)
    assert old.item() == pytest.approx(told, rel=1e-5)
    assert trainer.trace is None  # the sampler's log-probabilities are of other tokens


def test_stale_weights_and_a_subclass_s_responses_are_refused(make_trainer):
    options = {"sample_unfinished": True, "steps_per_generation": 2, "staleness": 1}
    with pytest.raises(UserError, match="or of what a subclass changed"):
        make_trainer(Shortened, **options).train()


@pytest.mark.parametrize("reward", [math.inf, -math.inf])
def test_an_infinite_reward_is_refused(make_trainer, reward):
    def given(completions, **_):
        return [reward, 0.0, 1.0, 0.0]

    with pytest.raises(UserError, match="the reward function given gave an infinite reward"):
        make_trainer(trainer={"reward_funcs": [letter_reward, given]}).train()


def test_a_function_put_on_the_trainer_stays_there(make_trainer):
    batches = []
    trainer = make_trainer(trainer={"on_generation": batches.append}, max_steps=1)
    trainer._calculate_rewards = halves = lambda *batch: torch.full((4, 1), 0.5)
    trainer.train()
    assert batches[0].rewards.tolist() == [0.5] * 4
    assert trainer._calculate_rewards is halves


def test_dynamic_sampling_asks_a_subclass(make_trainer):
    class Differing(MicroCoderGRPOTrainer):
        def _calculate_rewards(self, *batch):
            return super()._calculate_rewards(*batch) + torch.tensor([[0.0], [1], [0], [1]])

    same = {"reward_funcs": lambda completions, **_: [1.0] * 4}
    trainer = make_trainer(Differing, same, dynamic_sampling=3, max_steps=1)
    trainer.train()
    assert logged(trainer, "dynamic/groups_sampled") == [1]


# Limits and ends ----------------------------------------------------------------------------------


def test_without_a_limit_what_has_no_end_was_cut(make_trainer):
    batches = []
    trainer = make_trainer(
        trainer={"on_generation": batches.append}, max_completion_length=None, max_steps=1
    )
    answering(trainer, [[3, EOS], [3, 4, 5], [3], [EOS]]).train()
    assert batches[0].truncated.tolist() == [False, True, True, False]
    assert batches[0].max_completion_length is None


def test_stop_tokens_end_a_response_and_padding_does_not(make_trainer):
    batches = []
    trainer = make_trainer(
        trainer={"on_generation": batches.append},
        generation_kwargs={"eos_token_id": [EOS, STOP]},
        max_completion_length=4,
        max_steps=1,
    )
    answering(trainer, [[3, STOP], [3, 4, 5, 6], [3, 4, 5, STOP], [3, 4, 5, PAD]]).train()
    assert batches[0].lengths.tolist() == [2, 4, 4, 4]
    assert batches[0].truncated.tolist() == [False, True, False, True]
    assert STOP not in trainer.model.generation_config.eos_token_id


def test_a_tokenizer_without_an_end_token_takes_the_model_s(make_trainer):
    model, tokenizer = make_model(), make_tokenizer()
    tokenizer.eos_token = None
    trainer = make_trainer(trainer={"model": model, "processing_class": tokenizer}, max_steps=1)
    trainer.train()
    assert trainer.eos_token_ids == trainer.generation_kwargs["eos_token_id"] == [EOS]
    model.generation_config.eos_token_id = model.config.eos_token_id = None
    with pytest.raises(UserError, match="neither the tokenizer nor the model"):
        make_trainer(trainer={"model": model, "processing_class": tokenizer})


@pytest.mark.parametrize("sampler", ["rollout", "generate"])
def test_a_response_without_a_token_has_no_part_in_the_training(make_trainer, caplog, sampler):
    """The rewards that are left in its group are 1, 0 and 1: their mean is 2/3."""
    given = [[3, EOS], [], [4, EOS], [5, EOS]]

    def failing(prompts, trainer):
        ids = trainer.processing_class(text=prompts)["input_ids"]
        return {"prompt_ids": ids, "completion_ids": given, "logprobs": None}

    batches = []
    trainer = make_trainer(
        trainer={
            "rollout_func": failing if sampler == "rollout" else None,
            "reward_funcs": lambda completions, **_: [float(text != "c") for text in completions],
            "on_generation": batches.append,
        },
        scale_rewards="none", max_steps=2,
    )  # fmt: skip
    if sampler == "generate":  # as an engine that failed would
        trainer.use_vllm, trainer.state.global_step = True, 0
        trainer._last_loaded_step, trainer.args.vllm_importance_sampling_correction = 0, False
        trainer.vllm_importance_sampling_correction = False
        log_probs = [[[-1.0]] * len(row) for row in given]
        trainer.vllm_generation = SimpleNamespace(
            generate=lambda **_: (None, given, log_probs, None), sync_weights=lambda: None
        )
    trainer.train()
    batch = batches[0]
    assert batch.lengths.tolist() == [2, 0, 2, 2]
    assert batch.truncated.tolist() == [False] * 4
    assert batch.rewards[[0, 2, 3]].tolist() == [1, 0, 1]
    assert batch.rewards.tolist()[1] != batch.rewards.tolist()[1]  # NaN
    assert batch.advantages.tolist() == pytest.approx([1 / 3, 0, -2 / 3, 1 / 3])
    assert caplog.text.count("1 of 4 responses have no token (the first is number 1") == 1


def test_a_response_without_a_token_leaves_the_loss_of_the_others(make_trainer):
    """The update is that of the other three responses alone, whatever the reward says of it."""

    def weights(ids, rewards):
        def answer(prompts, trainer):
            asked = trainer.processing_class(text=prompts)["input_ids"]
            return {"prompt_ids": asked, "completion_ids": ids, "logprobs": None}

        parts = {"rollout_func": answer, "reward_funcs": lambda completions, **_: rewards}
        trainer = make_trainer(trainer=parts, max_steps=1, loss_type="dapo")
        trainer.train()
        return torch.cat([one.detach().flatten() for one in trainer.model.parameters()])

    ids = [[3, EOS], [], [4, EOS], [5, 6, EOS]]
    one, other = weights(ids, [1.0, 0.0, 0.0, 1.0]), weights(ids, [1.0, 5.0, 0.0, 1.0])
    assert torch.equal(one, other)
    filled = weights([row or [EOS] for row in ids], [1.0, None, 0.0, 1.0])
    assert not torch.equal(one, filled)  # a token that is in the loss's normaliser


def test_a_prompt_without_a_token_is_refused(make_trainer):
    rows = Dataset.from_dict({"prompt": ["a", "", "b", "c"]})
    trainer = make_trainer(trainer={"train_dataset": rows}, per_device_train_batch_size=16)
    with pytest.raises(UserError, match="4 of 16 prompts have no token"):
        trainer.train()


def test_a_rollout_function_may_return_tensors(make_trainer):
    """A tensor is in no set of end tokens, whatever its value."""
    batches, ids = [], [[3, EOS], [3, 4, 5], [EOS], [3, 4, EOS]]

    def answer(prompts, trainer):
        asked = trainer.processing_class(text=prompts)["input_ids"]
        return {
            "prompt_ids": asked,
            "completion_ids": list(map(torch.tensor, ids)),
            "logprobs": None,
        }

    parts = {"rollout_func": answer, "on_generation": batches.append}
    make_trainer(trainer=parts, max_completion_length=3, max_steps=1).train()
    assert batches[0].truncated.tolist() == [False, True, False, False]


def test_whatever_an_engine_leaves_without_an_end_was_cut(make_trainer):
    """By the model's context, say, which is no setting of the trainer."""
    trainer = make_trainer(max_completion_length=9)
    trainer.sampled_ids, trainer.asked_ids = [[3, 4], [3, EOS]], [[5], [5]]
    assert trainer.truncated().tolist() == [False, False]
    trainer.use_vllm = True
    assert trainer.truncated().tolist() == [True, False]
    trainer.ends_otherwise = ["stop"]
    assert trainer.truncated().tolist() == [False, False]


def test_of_several_turns_the_policy_s_own_tokens_repeat(make_trainer):
    rows = [[3, 9, 9, 9, 9, 4, 9, 9, 9, 9, 5], [3, 4, 9, 9, 3, 4, 9, 9, 3, 4]]
    masks = [[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1], [1, 1, 0, 0, 1, 1, 0, 0, 1, 1]]
    batches = []

    def turns(prompts, trainer):
        asked = trainer.processing_class(text=prompts)["input_ids"]
        return {
            "prompt_ids": asked, "completion_ids": rows * 2, "env_mask": masks * 2, "logprobs": None
        }  # fmt: skip

    parts = {"rollout_func": turns, "on_generation": batches.append}
    make_trainer(trainer=parts, repeat_window=2, max_steps=1).train()
    assert batches[0].repeating.tolist() == [False, True] * 2


# Nothing, or something else, is trained -----------------------------------------------------------


def test_a_set_smaller_than_a_generation_is_refused(make_trainer):
    trainer = make_trainer(
        trainer={"train_dataset": make_dataset(2)}, per_device_train_batch_size=12
    )
    with pytest.raises(UserError, match="has 2 prompts and one generation takes 3"):
        trainer.train()


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"top_p": 0.0}, {"generation_kwargs": {"min_p": 1.0}}]
)
def test_the_likeliest_token_alone_trains_nothing(make_trainer, options):
    with pytest.raises(UserError, match="keeps the likeliest token alone"):
        make_trainer(**options).train()


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_a_frozen_adapter_is_refused(make_trainer, tmp_path, beta):
    get_peft_model(make_model(), LoraConfig(task_type="CAUSAL_LM", r=2)).save_pretrained(tmp_path)
    for trained in (True, False):
        model = PeftModel.from_pretrained(make_model(), tmp_path, is_trainable=trained)
        trainer = make_trainer(trainer={"model": model}, beta=beta, max_steps=1)
        if trained:
            trainer.train()
            continue
        with pytest.raises(UserError, match="no parameter of the model is trained"):
            trainer.train()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generation_kwargs": {"temperature": 0.3}}, "at temperature 0.3 and log-probabilities"),
        ({"generation_kwargs": {"repetition_penalty": 1.2}}, "with repetition_penalty=1.2 and"),
        ({"repetition_penalty": 1.05}, "with repetition_penalty=1.05 and"),
        ({"generation_kwargs": {"do_sample": False}}, "sampled with do_sample=False and"),
        ({"generation_kwargs": {"max_time": 9.0}}, "max_time of generation_kwargs ends responses"),
        ({"generation_kwargs": {"stop_strings": ["b"]}}, "stop_strings of generation_kwargs ends"),
        ({"generation_kwargs": {"topp": 0.9}}, "does not know; did you mean top_p"),
        ({"generation_kwargs": {"temperature": 1.0, "top_k": -1}, "top_p": 1.0}, None),
        ({}, None),
    ],
)
def test_another_distribution_than_the_log_probabilities_is_said(
    make_trainer, caplog, options, message
):
    make_trainer(**options)
    assert (message or "") in caplog.text
    assert bool(caplog.text) == (message is not None)


def test_the_same_random_numbers_for_every_response_are_said(config):
    args = config(generation_kwargs={"seed": 1})
    assert [*other_distributions(args, {})] == []
    args.use_vllm, args.vllm_mode = True, "colocate"
    assert ["'seed'] gives all responses" in told for told in other_distributions(args, {})] == [
        True
    ]


@pytest.mark.parametrize(
    "own",
    [{"num_return_sequences": 2}, {"return_dict_in_generate": True}, {"token_healing": True}],
)
def test_what_generate_would_return_otherwise_is_refused(make_trainer, own):
    model, (name,) = make_model(), own
    vars(model.generation_config).update(own)
    with pytest.raises(UserError, match=f"the model's generation_config sets {name}"):
        make_trainer(trainer={"model": model})
    with pytest.raises(UserError, match=name):
        make_trainer(generation_kwargs=own)


@pytest.mark.parametrize("by_model", [True, False])
def test_texts_that_end_responses_are_looked_for(make_trainer, caplog, by_model):
    """TRL gives ``generate`` no tokenizer, without which it refuses to."""
    model, seen = make_model(), []
    model.generation_config.stop_strings = ["b"] if by_model else None
    given = None if by_model else {"stop_strings": ["b"]}
    trainer = make_trainer(trainer={"model": model}, generation_kwargs=given, max_steps=1)

    def generate(input_ids, tokenizer, **_):
        seen.append(tokenizer)
        return torch.cat([input_ids, torch.tensor([[3, PAD], [3, 4], [3, EOS], [3, 5]])], dim=1)

    model.generate = generate
    trainer.train()
    assert seen == [trainer.processing_class]
    assert trainer.truncated().tolist() == [False] * 4  # of 12 tokens
    where = "the model's generation_config" if by_model else "generation_kwargs"
    assert f"stop_strings of {where} ends responses" in caplog.text


@pytest.mark.parametrize(
    "own", [{"use_cache": False}, {"cache_implementation": "static"}, {"num_beams": 2}]
)
def test_the_loop_of_unfinished_responses_has_what_it_needs(make_trainer, own):
    model = make_model()
    vars(model.generation_config).update(own)
    trainer = make_trainer(trainer={"model": model}, sample_unfinished=True, max_steps=1)
    trainer.train()
    assert trainer.trace.is_of(trainer.sampled_ids)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generation_kwargs": {"num_return_sequences": 2}}, "to a prompt are num_generations"),
        ({"generation_kwargs": {"n": 4}}, "sets 'n'"),
        ({"generation_kwargs": {"num_beams": 2}, "sample_unfinished": True}, "has no beams"),
        ({"generation_kwargs": {"max_new_tokens": 0}}, "max_new_tokens of generation_kwargs must"),
        ({"generation_kwargs": {"max_new_tokens": "6"}}, "must be a whole number of at least 1"),
        ({"generation_kwargs": {"eos_token_id": torch.tensor([0, 5])}}, "the number of a token"),
        ({"generation_kwargs": {"eos_token_id": ["</s>"]}}, "the number of a token"),
    ],
)
def test_what_generate_cannot_use_is_refused(config, options, message):
    with pytest.raises(UserError, match=message):
        config(**options)


@pytest.mark.parametrize("how", [{"temperature": 2}, {"generation_kwargs": {"temperature": 2}}])
def test_a_temperature_may_be_a_whole_number(make_trainer, how):
    trainer = make_trainer(max_steps=1, **how)
    trainer.train()
    assert trainer.state.global_step == 1


def test_the_sampler_s_log_probabilities_are_not_taken_for_those_of_another_temperature(config):
    with pytest.raises(UserError, match="sets 'temperature', which sample_unfinished must control"):
        config(sample_unfinished=True, generation_kwargs={"temperature": 0.3})


@pytest.mark.parametrize("use_vllm", [False, True])
def test_other_responses_leave_the_sampling_as_it_was(make_trainer, use_vllm):
    """They are sampled at what is asked, whatever ``generation_kwargs`` says."""
    given = {"temperature": 0.3, "max_tokens" if use_vllm else "max_new_tokens": 5, "min_p": 0.1}
    trainer = make_trainer(generation_kwargs=given)
    seen = []
    if use_vllm:
        trainer.use_vllm, trainer._last_loaded_step = True, 0
        engine = SimpleNamespace(temperature=1.0, top_p=1.0, max_completion_length=12)
        engine.generation_kwargs = given

        def answer(**_):
            seen.append((engine.temperature, engine.top_p, engine.max_completion_length))
            assert engine.generation_kwargs == {"min_p": 0.1}
            return None, [[3]], [[[0.0]]], None

        engine.generate, trainer.vllm_generation = answer, engine
    else:
        engine, generate = trainer.generation_config, trainer.model.generate

        def watched(*args, generation_config, **kwargs):
            one = generation_config
            seen.append((one.temperature, one.top_p, one.max_new_tokens))
            assert trainer.generation_kwargs["temperature"] == one.temperature
            return generate(*args, generation_config=one, **kwargs)

        trainer.model.generate = watched
    before = dict(vars(engine)), dict(trainer.generation_kwargs)
    trainer.respond([[2, 3]], 7, 1.5, 0.9)
    trainer.respond([[2, 3]], 4, 0.5)
    assert seen == [(1.5, 0.9, 7), (0.5, 1.0, 4)]
    assert (vars(engine), trainer.generation_kwargs) == before


def test_data_that_are_not_read_as_they_seem_meant_are_said(make_trainer, caplog):
    template = "{% for m in messages %}{{ m.content }} {% endfor %}"
    tokenizer = make_tokenizer()
    tokenizer.chat_template = template
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows = Dataset.from_dict({"prompt": [said] * 4})
    make_trainer(trainer={"train_dataset": rows, "processing_class": tokenizer})
    assert "ends with a message of the assistant: TRL has the template end it" in caplog.text
    make_trainer(record_columns=["problem"])
    assert (
        "record_columns names problem, and the training set has the columns prompt," in caplog.text
    )


def test_the_reward_that_decides_has_a_name_of_its_own(make_trainer):
    two = {"reward_funcs": [lambda **_: [0.0] * 4, lambda **_: [1.0] * 4]}
    make_trainer(trainer=two)
    with pytest.raises(UserError, match="several reward functions are called '<lambda>'"):
        make_trainer(trainer=two, correctness_reward="<lambda>")


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "cispo", "sapo", "vespo"])
def test_unlikely_tokens_that_leave_the_loss_leave_it_finite(make_trainer, loss_type):
    """TRL scores them as padding, with 0: a ratio of exp(0 - old), which no mask makes finite."""
    trainer = make_trainer(
        trainer={"reward_funcs": lambda completions, **_: [0.0, 0, 1, 0, 0, 0, 0, 1]},
        loss_type=loss_type, epsilon_high=5.0, beta=0.01, temperature=0.02, max_steps=2,
        steps_per_generation=2, max_completion_length=4, truncation_mask="conditional",
        mask_ratio=1.0, repeat_rule="none", masked_lose="loss",
    )  # fmt: skip
    answering(trainer, [[3, 4, 5, 6], [9, 8, 7, 6], [3, EOS], [5, EOS]] * 2).train()
    old = torch.cat([one["old_per_token_logps"] for one in trainer._buffered_inputs])
    assert old.min() < -100
    for name in ("loss", "grad_norm"):
        assert all(map(math.isfinite, logged(trainer, name)))


# A trainer without its constructor, as TRL's own tests make one -----------------------------------


@pytest.mark.parametrize("use_vllm", [False, True])
def test_responses_of_a_bare_trainer(use_vllm):
    trainer = object.__new__(MicroCoderGRPOTrainer)
    trainer.accelerator = SimpleNamespace(
        device=torch.device("cpu"), is_main_process=True, gather=lambda rows: rows
    )
    trainer.args = SimpleNamespace(report_to=[])
    trainer.model = SimpleNamespace(training=True)
    trainer.state = SimpleNamespace(global_step=2, num_input_tokens_seen=0)
    trainer.vllm_generation = SimpleNamespace(sync_weights=MagicMock())
    trainer.processing_class = SimpleNamespace(batch_decode=MagicMock(return_value=["decoded"]))
    trainer._tokenizer = SimpleNamespace(eos_token_id=2, pad_token_id=0)
    trainer.tools, trainer.eos_token_ids, trainer._last_loaded_step = None, [2], 1
    trainer.use_vllm, trainer.use_transformers_continuous_batching = use_vllm, False
    names = ["mean_length", "min_length", "max_length", "clipped_ratio"]
    names += [f"{end}_terminated_length" for end in ("mean", "min", "max")]
    trainer._metrics = {"train": {f"completions/{name}": [] for name in names}}
    answer = {"prompt_ids": [[1]], "completion_ids": [[2]], "logprobs": [[-0.1]]}
    trainer.rollout_func = MagicMock(return_value=answer)
    assert trainer._generate(["prompt"])[:2] == ([[1]], [[2]])
    trainer.rollout_func.assert_called_once_with(["prompt"], trainer)
