from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcbench.errors import UserError
from mcbench.report import explain
from mcbench.runs.one_generation import Generation, one_generation


def generation(**changes: Any) -> Generation:
    """Two prompts of four responses; the first has a right one and three that were cut."""
    truncated = np.array([0, 1, 1, 1, 0, 0, 0, 0], dtype=bool)
    repeating = np.array([0, 0, 0, 1, 0, 0, 0, 0], dtype=bool)
    draws = np.array([0.5, 0.1, 0.9, 0.1, 0.5, 0.5, 0.5, 0.5])
    rewards = np.array([1.0, 0, 0, 0, 0, 0, 0, 0])
    eligible = truncated & ~repeating
    arguments = {
        "truncation_mask": "conditional",
        "mask_when": "incorrect",
        "mask_ratio": 0.2,
        "scale_rewards": "group",
        "correct_threshold": 1.0,
    }
    batch = SimpleNamespace(
        group=np.repeat([0, 1], 4),
        rewards=rewards,
        advantages=np.array([1.5, 0, -0.5, -0.5, 0, 0, 0, 0]),
        lengths=np.full(8, 10),
        truncated=truncated,
        repeating=repeating,
        eligible={"incorrect": eligible},
        masked=eligible & (draws < 0.2),
        prompts=["<b>add</b>"] * 8,
        completions=["</pre><script>alert(1)</script>"] * 8,
        columns={"verdicts": ["AC"] + ["WA"] * 7},
    )
    arguments_now: Any = SimpleNamespace(**{**arguments, **changes})
    config: Any = None
    whole: Any = batch
    return Generation(config, arguments_now, whole, draws, pd.DataFrame())


def test_every_response_says_which_condition_decided() -> None:
    reasons = explain.responses(generation(), 0)["mask"].tolist()
    assert reasons[0] == "kept: it ended by itself"
    assert reasons[1].startswith("masked: cut, incorrect, not repeating, draw 0.10 < rho 0.2")
    assert reasons[2] == "kept: cut and incorrect, but draw 0.90 ≥ rho 0.2"
    assert reasons[3] == "kept: cut, but repeating itself"
    assert "no mask" in explain.reason(generation(truncation_mask="none"), 1)


def test_advantages_before_the_mask_are_the_groups() -> None:
    # rewards 1, 0, 0, 0: mean 1/4, standard deviation 1/2
    before = explain.raw_advantages(generation())
    assert before[:4] == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-3)
    assert before[4:].tolist() == [0, 0, 0, 0]
    plain = explain.raw_advantages(generation(scale_rewards="none"))
    assert plain[0] == 0.75


def test_the_telling_group_has_a_gradient_and_a_mask() -> None:
    batch = generation()
    assert explain.telling_group(batch) == 0
    assert explain.group_summary(batch)["gradient"].tolist() == ["yes: mixed", "none: all alike"]


def test_model_text_is_escaped() -> None:
    markup = explain.show_responses(generation(), 0)._repr_html_()
    markup += explain.show_prompt(generation(), 0)._repr_html_()
    assert "<script>" not in markup
    assert "<b>" not in markup


def test_an_unknown_group_names_the_known_ones() -> None:
    with pytest.raises(UserError, match="0 to 1"):
        explain.responses(generation(), 7)


def test_one_step_of_another_task_is_refused() -> None:
    with pytest.raises(UserError, match="turns:train with reward="):
        one_generation("nano-turns")


@pytest.mark.slow
def test_one_step_at_a_temperature_by_diversity(tiny_settings: dict[str, Any]) -> None:
    auto = {"temperature_target_diversity": "auto", "temperature_grid": [0.5, 1.0]}
    step = one_generation("tiny", settings={**tiny_settings, **auto})
    assert len(step.batch.rewards) == step.config.train_batch_size * step.config.num_generations
