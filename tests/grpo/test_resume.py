"""A resumed run repeats the uninterrupted one, from whichever step it goes on."""

import re
import shutil

import pandas as pd
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import TrainerCallback

from mcbench.errors import UserError
from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer
from tests.quick import every

from .conftest import common_args, letter_reward, logged, make_dataset, make_model, make_tokenizer

OPTIONS = {
    "max_steps": 12,
    "steps_per_generation": 4,
    "gradient_accumulation_steps": 2,
    "truncation_mask": "conditional",
    "mask_ratio": 0.5,
    "mask_when": "correct",
    "repeat_window": 2,
    "temperature_stages": [(0, 0.8), (6, 1.2)],
    "beta": 0.01,
    "max_completion_length": 6,
}
UNTIMED = ("step_time", "time/", "train_runtime", "train_samples_per", "train_steps_per")


def history(trainer, first):
    lines = [line for line in trainer.state.log_history if line["step"] >= first and "loss" in line]
    return [{k: v for k, v in line.items() if not k.startswith(UNTIMED)} for line in lines]


def weights(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def assert_same_run(resumed, whole, first=1):
    """Weights and every line of the log from a step on, bit for bit."""
    assert history(resumed, first) == history(whole, first)
    final = weights(whole)
    assert all(torch.equal(value, final[name]) for name, value in weights(resumed).items())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run of OPTIONS, its batches, and its folder with a checkpoint a step."""
    folder, batches = tmp_path_factory.mktemp("whole"), []
    parts = {"reward_funcs": letter_reward, "processing_class": make_tokenizer()}
    changes = {**common_args(folder), **OPTIONS, "save_strategy": "steps", "save_steps": 1}
    trainer = MicroCoderGRPOTrainer(
        make_model(), args=MicroCoderGRPOConfig(**changes), train_dataset=make_dataset(),
        on_generation=batches.append, **parts,
    )  # fmt: skip
    trainer.train()
    return trainer, batches, folder


@pytest.mark.parametrize("step", every(2, range(1, 12)))  # an epoch has 8 steps, a generation 2
def test_resume_repeats_the_uninterrupted_run(make_trainer, whole, tmp_path, step):
    trainer, batches, folder = whole
    rest = []
    shutil.copytree(folder / f"checkpoint-{step}", tmp_path / f"checkpoint-{step}")  # is moved
    resumed = make_trainer(trainer={"on_generation": rest.append}, **OPTIONS)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))

    later = [batch for batch in batches if batch.step >= step]
    assert [batch.step for batch in batches] == list(range(0, 12, 2))
    assert [batch.step for batch in rest] == [batch.step for batch in later]
    for one, other in zip(later, rest, strict=True):
        assert one.masked.tolist() == other.masked.tolist()
        assert one.completions == other.completions
        assert one.temperature == other.temperature
    assert any(batch.masked.any() for batch in batches)
    assert_same_run(resumed, trainer, step + 1)
    moved = trainer.log_ratios(), resumed.log_ratios()
    assert all((one == other).all() for one, other in zip(*moved, strict=True))


def test_only_a_checkpoint_inside_a_batch_holds_what_is_left_of_it(whole):
    folder = whole[2]
    found = {path.parent.name for path in folder.glob("*/microcoder_batch_0.pt")}
    assert found == {f"checkpoint-{step}" for step in range(1, 12, 2)}
    stored = torch.load(folder / "checkpoint-3" / "microcoder_batch_0.pt", weights_only=True)
    assert (stored["done"], [one is None for one in stored["batch"]]) == (
        2,
        [True] * 2 + [False] * 2,
    )
    assert all(len(one["completion_ids"]) == 4 for one in stored["batch"][2:])
    size = (folder / "checkpoint-3" / "microcoder_batch_0.pt").stat().st_size
    tensors = [t for one in stored["batch"][2:] for t in one.values()]
    held = sum(t.untyped_storage().nbytes() for t in tensors)
    assert held == sum(t.nbytes for t in tensors) < size  # each without the rest of the batch


class Stop(TrainerCallback):
    """Ends a run after each of its updates."""

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = True


LAYOUTS = {
    "iterations, T(D), length, KL that adapts": {
        "num_iterations": 2, "steps_per_generation": 2, "beta": 0.05, "kl_target": 0.01,
        "temperature_target_diversity": 0.8, "temperature_grid": [0.5, 1.5],
        "temperature_probe_prompts": 4, "length_stages": [[0, 6], [4, 8]], "loss_type": "dr_grpo",
    },
    "a short epoch, LoRA": {  # the table of the last test here
        "steps_per_generation": 4, "gradient_accumulation_steps": 3,
        "per_device_train_batch_size": 1,
    },
    "weights of before, Clip-Cov": {
        "steps_per_generation": 3, "staleness": 1, "sample_unfinished": True,
        "token_rule": "clip_cov", "token_share": 0.1,
    },
    "dynamic sampling, skipped steps": {
        "steps_per_generation": 3, "dynamic_sampling": 30, "substitute_flat": 0.9,
        "drop_above": 0.8,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_killed_after_every_step_is_the_uninterrupted_one(make_trainer, tmp_path, layout):
    parts = {"train_dataset": make_dataset(2 if "short epoch" in layout else 16)}
    if "LoRA" in layout:
        parts["peft_config"] = LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM")
    changes = {"max_steps": 5, "max_completion_length": 8, **LAYOUTS[layout]}
    straight = make_trainer(trainer=parts, output_dir=str(tmp_path / "straight"), **changes)
    straight.train()
    checkpoint = None
    for step in range(1, 6):
        trainer = make_trainer(
            trainer={**parts, "callbacks": [Stop()]}, save_strategy="steps", save_steps=1, **changes
        )
        trainer.train(resume_from_checkpoint=checkpoint)
        checkpoint = str(tmp_path / f"checkpoint-{step}")
    assert trainer.state.global_step == 5
    assert_same_run(trainer, straight)


def test_a_continued_adapter_is_resumed_and_not_its_copy(make_trainer, tmp_path):
    """A KL term has a frozen copy of it beside it, in a folder of the checkpoint."""
    peft = LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    get_peft_model(make_model(), peft).save_pretrained(tmp_path / "before")

    def continued(**changes):
        adapted = PeftModel.from_pretrained(make_model(), tmp_path / "before", is_trainable=True)
        return make_trainer(trainer={"model": adapted}, beta=0.1, max_steps=3, **changes)

    whole = continued(save_strategy="steps", save_steps=1)
    whole.train()
    resumed = continued()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert_same_run(resumed, whole)


def test_what_a_batch_logged_is_not_lost_before_its_line(make_trainer, tmp_path):
    changes = {"steps_per_generation": 4, "logging_steps": 2, "max_steps": 2, "save_steps": 1}
    lines = []
    for checkpoint in (None, str(tmp_path / "checkpoint-1")):
        trainer = make_trainer(save_strategy="steps", log_completions=True, **changes)
        trainer.train(resume_from_checkpoint=checkpoint)
        shown = pd.read_parquet(tmp_path / "completions" / "completions_00002.parquet")
        lines.append((history(trainer, 2)[0]["reward"], list(shown["completion"])))
    assert lines[0] == lines[1]
    assert len(lines[1][1]) == 16


@pytest.mark.parametrize(
    ("lost", "changes", "why"),
    [
        (None, {}, "is not stored"),
        (b"x", {}, r"cannot be read \(microcoder_batch_0.pt: "),
        (False, {"top_p": 0.9}, r"made with other settings \(top_p 1.0, now 0.9"),
        (False, {"generation_kwargs": {"top_k": 5}}, r"made with other settings \(top_k 0, now 5"),
        (False, {"temperature_stages": None}, r"made with other settings \(temperature 0.8, now 1"),
    ],
)
def test_without_the_batch_the_next_ones_begin_where_they_would_have(
    make_trainer, whole, tmp_path, caplog, lost, changes, why
):
    checkpoint, rest = tmp_path / "checkpoint-3", []
    shutil.copytree(whole[2] / checkpoint.name, checkpoint)
    if lost is None:  # as a version that did not store it left it
        (checkpoint / "microcoder_batch_0.pt").unlink()
    elif lost:
        (checkpoint / "microcoder_batch_0.pt").write_bytes(lost)
    resumed = make_trainer(trainer={"on_generation": rest.append}, **{**OPTIONS, **changes})
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert re.search(
        f"is not exact: step 3 lies inside a generated batch, which (was )?{why}", caplog.text
    )
    assert "(the nearest boundaries are 2 and 4)" in caplog.text
    assert [batch.step for batch in rest] == [3, 4, 6, 8, 10]
    # The same prompts as the uninterrupted run's, in each of them.
    prompts = [[batch.prompts for batch in batches] for batches in (whole[1][1:], rest)]
    assert prompts[0] == prompts[1]


def test_a_damaged_state_is_no_state(make_trainer, whole, tmp_path):
    checkpoint = tmp_path / "checkpoint-3"
    shutil.copytree(whole[2] / checkpoint.name, checkpoint)
    (checkpoint / "microcoder_state.json").write_text('{"temperature_choice": ')
    with pytest.raises(UserError, match=r"microcoder_state\.json is damaged"):
        make_trainer(**OPTIONS).train(resume_from_checkpoint=str(checkpoint))


def test_a_second_training_of_a_trainer_begins_with_a_batch_of_its_own(make_trainer):
    batches = []
    trainer = make_trainer(
        trainer={"on_generation": batches.append}, steps_per_generation=2, max_steps=3
    )
    trainer.train()
    trainer.train()
    assert [batch.step for batch in batches] == [0, 2, 0, 2]


@pytest.mark.parametrize("resumed", [False, True])
def test_the_evaluation_at_the_start_is_at_the_chosen_temperature(make_trainer, tmp_path, resumed):
    options = {
        "temperature_target_diversity": 0.5, "temperature_grid": [0.3, 0.4, 1.5],
        "temperature_probe_prompts": 4, "steps_per_generation": 2,
        "eval_strategy": "no", "eval_on_start": True, "per_device_eval_batch_size": 4,
    }  # fmt: skip
    parts = {"eval_dataset": make_dataset(1)}
    first = make_trainer(trainer=parts, max_steps=1, save_strategy="steps", save_steps=1, **options)
    first.train()
    trainer = first
    if resumed:
        trainer = make_trainer(trainer=parts, max_steps=2, **options)
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    chosen = first.stages.choice.temperature
    assert chosen != first.args.temperature
    assert logged(trainer, "eval_temperature") == [chosen] * (1 + resumed)


@pytest.mark.parametrize(
    ("options", "streamed", "text"),
    [
        ({"sync_ref_model": True}, False, "the synchronised reference model is not stored"),
        ({}, True, "the place in a streamed data set is not stored"),
        ({"ignore_data_skip": True}, False, "ignore_data_skip begins the epoch's data anew"),
        ({"save_only_model": True}, False, "it has weights alone (save_only_model)"),
    ],
)
def test_what_a_checkpoint_does_not_hold_is_said(
    make_trainer, tmp_path, caplog, options, streamed, text
):
    rows = make_dataset().to_iterable_dataset() if streamed else make_dataset()
    for resumed in (None, str(tmp_path / "checkpoint-2")):
        steps = {"save_strategy": "steps", "save_steps": 2, "max_steps": 4 if resumed else 2}
        trainer = make_trainer(
            trainer={"train_dataset": rows}, **{**OPTIONS, **steps, "temperature_stages": None},
            **options,
        )  # fmt: skip
        assert text not in caplog.text
        trainer.train(resume_from_checkpoint=resumed)
    assert f"is not exact: {text}" in caplog.text
    assert trainer.state.global_step == 4


def test_a_short_epoch_moves_the_boundaries(make_trainer, caplog):
    """Two prompts, a generation of one: the epoch of 8 passes is updates of 3, 3 and 2 passes."""
    layout = {
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 3,
        "per_device_train_batch_size": 1,
        "save_strategy": "steps",
        "save_steps": 3,
        "max_steps": 6,
    }
    steps = []
    trainer = make_trainer(
        trainer={
            "train_dataset": make_dataset(2),
            "on_generation": lambda batch: steps.append(batch.step),
        },
        temperature_stages=[(0, 0.7), (3, 1.2)],
        **layout,
    )
    assert [step for step in range(7) if trainer.is_boundary(step)] == [0, 3, 6]
    assert not caplog.text
    trainer.train()
    assert {0, 3} <= set(steps)
    with pytest.raises(UserError, match="the nearest allowed start steps are 3 and 6"):
        make_trainer(
            trainer={"train_dataset": make_dataset(2)},
            temperature_stages=[(0, 0.7), (4, 1.2)],
            **layout,
        )
