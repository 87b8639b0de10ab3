"""A run that is resumed on a generation boundary repeats the uninterrupted one."""

import pytest
import torch

from mcbench.errors import UserError

from .conftest import make_dataset

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


@pytest.mark.parametrize("step", [4, 8, 10])  # an epoch has 8 steps
def test_resume_repeats_the_uninterrupted_run(make_trainer, tmp_path, step):
    whole, rest = [], []
    trainer = make_trainer(
        trainer={"on_generation": whole.append}, save_strategy="steps", save_steps=step, **OPTIONS
    )
    trainer.train()
    resumed = make_trainer(trainer={"on_generation": rest.append}, **OPTIONS)
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))

    assert [batch.step for batch in whole] == list(range(0, 12, 2))
    assert [batch.step for batch in rest] == list(range(step, 12, 2))
    assert any(batch.masked.any() for batch in rest)
    for one, other in zip(whole[step // 2 :], rest, strict=True):
        assert one.masked.tolist() == other.masked.tolist()
        assert one.completions == other.completions
        assert one.temperature == other.temperature
    assert history(resumed, step + 1) == history(trainer, step + 1)
    final = trainer.model.state_dict()
    assert all(torch.equal(value, final[k]) for k, value in resumed.model.state_dict().items())


def test_a_checkpoint_inside_a_generated_batch_goes_on_as_with_trl(make_trainer, tmp_path, caplog):
    make_trainer(save_strategy="steps", save_steps=3, **{**OPTIONS, "max_steps": 3}).train()
    assert (
        "step 3 lies inside a generated batch (the nearest boundaries are 2 and 4)" in caplog.text
    )
    rest = []
    resumed = make_trainer(trainer={"on_generation": rest.append}, **OPTIONS)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert "is not exact: step 3 lies inside a generated batch" in caplog.text
    assert resumed.state.global_step == 12
    assert rest[0].step == 3


@pytest.mark.parametrize(
    ("options", "streamed", "text"),
    [
        ({"sync_ref_model": True}, False, "the synchronised reference model is not stored"),
        ({}, True, "the place in a streamed data set is not stored"),
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
