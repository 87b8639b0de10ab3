"""Temperature and length in force at a step, where they are measured and not given."""

import pytest

from mcbench.errors import UserError
from mcbench.grpo import stages

from .conftest import logged


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
    trainer = make_trainer(temperature_restore=[2, 4], max_steps=5, **options)
    measured = iter([{1.0: 0.5}, {1.0: 0.3, 1.5: 0.5, 2.0: 0.9}, {1.5: 0.2, 2.0: 0.4}])
    asked = []
    trainer.stages.measure_words = lambda grid: asked.append(list(grid)) or next(measured)
    trainer.train()
    assert asked == [[1.0], [1.0, 1.5, 2.0], [1.5, 2.0]]
    assert logged(trainer, "temperature") == [1, 1, 1.5, 1.5, 2]  # the last does not reach it
    assert len(logged(trainer, "task/distinct_4_words")) == 5


def test_stages_start_where_a_batch_begins(make_trainer):
    with pytest.raises(UserError, match="step 3 is inside a generated batch"):
        make_trainer(
            temperature_restore=[3], temperature_probe_prompts=4,
            steps_per_generation=2, gradient_accumulation_steps=1,
        )  # fmt: skip
