"""Sampling from a policy of before: which weights sample, and that nothing else changes."""

from typing import Any

import pytest
import torch

from mcbench.errors import UserError
from mcbench.grpo import early

from .conftest import make_model


@pytest.mark.parametrize(
    ("staleness", "used"), [(1, [0, 0, 1, 2]), (2, [0, 0, 0, 1]), (-1, [0] * 4)]
)
def test_the_weights_that_sample(make_trainer: Any, staleness: int, used: list[int]) -> None:
    trainer = make_trainer(staleness=staleness, sample_unfinished=True, steps_per_generation=2)
    trainer.model.train()
    weight = next(trainer.model.parameters())
    seen: list[float] = []
    respond = type(trainer)._generate_single_turn

    def spy(*args: Any, **kwargs: Any) -> Any:
        seen.append(weight.flatten()[0].item())
        return respond(trainer, *args, **kwargs)

    trainer._generate_single_turn = spy
    for number in range(4):
        with torch.no_grad():
            weight.fill_(float(number))
        trainer._generate(["a b"] * 2)
        assert weight.flatten()[0] == number  # the policy's own again
        # What is measured on the policy is not of the past.
        early.responses(trainer, [{"prompt": "a b"}])
    assert seen == [one for number, old in enumerate(used) for one in (old, number)]


def test_one_update_a_generation_has_no_ratio_to_what_sampled(make_trainer: Any) -> None:
    with pytest.raises(UserError, match="needs several updates a generation"):
        make_trainer(staleness=1, sample_unfinished=True)


def test_a_rollout_function_does_not_tell_what_sampled(make_trainer: Any) -> None:
    def answer(prompts: Any, trainer: Any) -> dict[str, Any]:
        asked = trainer.processing_class(text=prompts)["input_ids"]
        return {"prompt_ids": asked, "completion_ids": [[3, 0]] * len(asked), "logprobs": None}

    trainer = make_trainer(
        trainer={"rollout_func": answer},
        staleness=1,
        sample_unfinished=True,
        steps_per_generation=2,
    )
    with pytest.raises(UserError, match="by what sampled them are not known"):
        trainer.train()


def test_half_precision_cannot_know_what_sampled(make_trainer: Any) -> None:
    with pytest.raises(UserError, match="sample_unfinished=True, float32"):
        make_trainer(staleness=1, sample_unfinished=False)
    parts = {"model": make_model().to(torch.bfloat16)}  # whatever the trainer's settings say
    with pytest.raises(UserError, match="sample_unfinished=True, float32"):
        make_trainer(trainer=parts, staleness=1, sample_unfinished=True, steps_per_generation=2)
