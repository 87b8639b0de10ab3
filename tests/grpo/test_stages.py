"""Temperature and length in force at a step, where they are measured and not given."""

import pytest

from mcbench.errors import UserError
from mcbench.grpo import stages

from .conftest import logged, make_dataset
from .test_dynamic_sampling import look, seldom, spoken, tool_tokenizer


def test_distinct_4_of_words_counts_words_and_not_tokens():
    # Five words: two 4-grams, both new; the second response has the same two.
    assert stages.distinct_4_words(["a b  c d e", "a b c\nd e"], 2) == pytest.approx(2 / 4)
    # Mean over prompts: 1/2 and 1.
    texts = ["a b c d", "a b c d", "a b c d", "e f g h"]
    assert stages.distinct_4_words(texts, 2) == pytest.approx(0.75)
    assert stages.distinct_4_words(["too short", ""], 2) == 0


def test_the_temperature_of_a_stage_restores_the_first_one_s_diversity(make_trainer):
    grid = [0.5, 1.0, 1.5, 2.0]
    options = {"temperature_grid": grid, "temperature_probe_prompts": 4}
    options |= {"num_generations_eval": 2, "per_device_eval_batch_size": 6}
    parts = {"eval_dataset": make_dataset(3)}
    trainer = make_trainer(trainer=parts, temperature_restore=[2, 4], max_steps=5, **options)
    measured = iter([{1.0: 0.5}, {1.0: 0.3, 1.5: 0.5, 2.0: 0.9}, {1.5: 0.2, 2.0: 0.4}])
    asked = []
    trainer.stages.measure_words = lambda grid: asked.append(list(grid)) or next(measured)
    trainer.train()
    assert asked == [[1.0], [1.0, 1.5, 2.0], [1.5, 2.0]]
    assert logged(trainer, "temperature") == [1, 1, 1.5, 1.5, 2]  # the last does not reach it
    assert len(logged(trainer, "task/distinct_4_words")) == 5
    texts = []
    trainer.texts = lambda ids: texts.append(type(trainer).texts(trainer, ids)) or texts[-1]
    measured = trainer.evaluate()["eval_task/distinct_4_words"]
    assert measured == pytest.approx(stages.distinct_4_words(texts[0], 2))


def test_words_are_the_policy_s_own(make_trainer):
    """And not a tool's, neither where a temperature is chosen by them nor in the log."""
    asked = []
    parts = {"tools": [look], "train_dataset": spoken(), "reward_funcs": seldom}
    trainer = make_trainer(
        trainer={**parts, "processing_class": tool_tokenizer()}, max_completion_length=24,
        temperature_restore=[1], temperature_grid=[1.0], temperature_probe_prompts=4, max_steps=1,
    )  # fmt: skip
    texts = trainer.texts
    trainer.texts = lambda ids: asked.append(ids) or texts(ids)
    trainer.train()
    assert asked[-1] == trainer.own_ids() != trainer.sampled_ids


def test_stages_start_where_a_batch_begins(make_trainer):
    with pytest.raises(UserError, match="step 3 is inside a generated batch"):
        make_trainer(
            temperature_restore=[3], temperature_probe_prompts=4,
            steps_per_generation=2, gradient_accumulation_steps=1,
        )  # fmt: skip
