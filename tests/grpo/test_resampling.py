"""What whole recipes do, against numbers worked out by hand, and in training."""

import pytest
import torch

from mcbench.errors import UserError
from mcbench.grpo.batches import other_row, share_right, substitutes, too_easy
from mcbench.grpo.stages import distinct_4_words

from .conftest import logged, make_dataset

NAN = float("nan")


def test_share_right_is_of_scored_responses():
    rewards = torch.tensor([1.0, 1, 1, 0, NAN, 1, NAN, NAN])
    assert share_right(rewards, 1.0, 2) == [1.0, 0.5, 1.0, None]


def test_other_rows_are_drawn_from_what_is_kept():
    found = [other_row([True, False, True, False], draw) for draw in (0, 0.49, 0.5, 0.99)]
    assert found == [1, 1, 3, 3]
    assert [other_row([True, True], draw) for draw in (0.49, 0.5)] == [0, 1]


# Groups with a signal (1) and without (0), and how many Polaris's ``replace_bad_samples`` replaces;
# None where it skips the step. Run outside of this repository.
REPLACED = [
    ("1", 0), ("0", None), ("10", 1), ("01", 1), ("11", 0), ("100", None), ("110", 1), ("1100", 2),
    ("1010", 2), ("1000", None), ("11110000", 4), ("11100000", 5), ("1100000000", None),
    ("1110000000", None), ("111100000000", None), ("111110000000", 7), ("1111111100", 2),
    ("1010101010", 5), ("0000000000", None), ("1111111111", 0), ("11111000000000", 9),
    ("1111100000000000", None), ("1111110000000000", 10), ("0111111111111110", 2),
]  # fmt: skip


@pytest.mark.parametrize(("good", "replaced"), REPLACED)
def test_flat_groups_are_replaced_as_polaris_does(good, replaced):
    draws = torch.tensor([0.37 * place % 1 for place in range(len(good))])
    found = substitutes([one == "0" for one in good], 0.333334, draws)
    if replaced is None:
        assert found is None
        return
    new = [at for at, (one, old) in enumerate(zip(found, good, strict=True)) if old == "0"]
    chosen = [found[at] for at in new]
    assert len(new) == replaced
    assert all(good[at] == "1" for at in chosen)
    assert [found[at] for at in range(len(good)) if good[at] == "1"] == [
        at for at in range(len(good)) if good[at] == "1"
    ]
    if good.count("1") >= replaced:  # no group twice
        assert len(set(chosen)) == replaced


# Shares of a prompt's right responses over a stage, and whether its mean is above 0.9 (Polaris's
# ``drop_easy_data.py``).
STAGES = [
    ([1.0], True), ([0.9], False), ([0.875], False), ([1.0, 0.875], True), ([1.0, 0.75], False),
    ([0.0], False), ([1.0] * 9 + [0.0], False), ([1.0] * 11 + [0.0], True), ([0.875, 0.875], False),
    ([1.0, 0.875, 0.875], True), ([1.0, 0.75, 1.0], True), ([0.5, 1.0, 1.0], False),
    ([0.75, 1.0, 1.0, 1.0], True), ([0.625, 1.0, 1.0, 1.0], True), ([0.5, 1, 1, 1], False),
    ([0.875] * 5, False), ([1.0, 0.5], False), ([0.0, 1.0], False), ([1.0, 1.0], True),
    ([0.95], True),
]  # fmt: skip


@pytest.mark.parametrize(("shares", "dropped"), STAGES)
def test_polaris_drops_by_the_mean_over_a_stage(shares, dropped):
    assert too_easy({"p": shares}, 0.9) == (["p"] if dropped else [])


def test_what_was_too_easy_in_a_stage_is_dropped_in_the_next(make_trainer):
    batches, calls = [], []

    def some(prompts, **_):
        calls.append(1)
        return [float(prompt < "g") for prompt in prompts]

    parts = {"reward_funcs": some, "on_generation": batches.append}
    trainer = make_trainer(
        drop_above=0.9, temperature_restore=[2], temperature_grid=[1.0],
        temperature_probe_prompts=4, trainer=parts, per_device_train_batch_size=16, max_steps=3,
    )  # fmt: skip
    trainer.train()
    seen = {one for batch in batches[:2] for one in batch.columns["problem_id"]}
    easy = {one for one in seen if dict(zip(*_rows(), strict=True))[one] < "g"}
    assert set(trainer.checkpoint_state["solved"]) == easy
    assert not easy & set(batches[2].columns["problem_id"])


def test_distinct_4_of_words_counts_short_answers_as_polaris_does():
    texts = ["a b c d", "a b c d e", "a", "b c"]
    assert distinct_4_words(texts, 2) == pytest.approx((2 / 3 + 0) / 2)


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def test_a_step_with_too_few_good_groups_changes_nothing(make_trainer):
    def flat_at_first(prompts, **_):
        calls.append(len(prompts))
        return [float(place == 0) if len(calls) > 1 else 1.0 for place in range(len(prompts))]

    calls = []
    options = {"per_device_train_batch_size": 16, "max_steps": 2, "beta": 0.0}
    trainer = make_trainer(
        substitute_flat=0.3, trainer={"reward_funcs": flat_at_first}, **{**options, "max_steps": 1}
    )
    before = weights(trainer)
    trainer.train()
    assert torch.equal(before, weights(trainer))
    assert not trainer.optimizer.state  # no moments either
    assert logged(trainer, "task/skipped") == [1]
    calls.clear()
    trainer = make_trainer(substitute_flat=0.2, trainer={"reward_funcs": flat_at_first}, **options)
    trainer.train()
    assert logged(trainer, "task/flat") == [1, 0.75]
    assert logged(trainer, "task/skipped") == [1, 0]
    assert not torch.equal(before, weights(trainer))


def test_a_good_group_stands_in_for_the_flat_ones_and_the_record_shows_what_was_sampled(
    make_trainer,
):
    batches, trained = [], []
    reward = lambda prompts, **_: [float(place == 0) for place in range(len(prompts))]  # noqa: E731
    parts = {"reward_funcs": reward, "on_generation": batches.append}
    trainer = make_trainer(
        substitute_flat=0.2, trainer=parts, per_device_train_batch_size=16, max_steps=1
    )
    as_trained = trainer.as_trained
    trainer.as_trained = lambda output: trained.append(as_trained(output)) or trained[-1]
    trainer.train()
    (batch,), (output,) = batches, trained
    assert batch.advantages[4:].tolist() == [0] * 12
    groups = output["completion_ids"].view(4, 4, -1)
    assert all(torch.equal(groups[0], other) for other in groups[1:])
    assert output["advantages"].view(4, 4)[:, 0].tolist() == pytest.approx([1.5] * 4, abs=1e-3)
    assert output["num_items_in_batch"] == 4 * batch.lengths[:4].sum()


def test_solved_prompts_do_not_come_again(make_trainer):
    batches = []

    def some(prompts, **_):
        return [float(prompt < "g") for prompt in prompts]

    parts = {"reward_funcs": some, "on_generation": batches.append}
    options = {"per_device_train_batch_size": 16, "max_steps": 12}
    trainer = make_trainer(drop_above=0.9, trainer=parts, **options)
    trainer.train()
    solved: set[str] = set()
    for batch in batches:
        names = batch.columns["problem_id"]
        assert not solved & set(names)
        assert batch.prompts == [dict(zip(*_rows(), strict=True))[name] for name in names]
        solved |= {names[i] for i in range(0, 16, 4) if batch.rewards[i : i + 4].all()}
    assert solved == set(trainer.checkpoint_state["solved"])
    assert logged(trainer, "task/prompts_dropped")[-1] == len(solved)
    assert max(logged(trainer, "task/prompts_replaced")) > 0


def _rows():
    rows = make_dataset()
    return rows["problem_id"], rows["prompt"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drop_above": 1.5}, r"drop_above must be in \[0, 1\]"),
        ({"substitute_flat": 0.3, "beta": 0.1}, "without KL term"),
        ({"substitute_flat": 0.3, "truncation_mask": "conditional"}, "and truncation_mask"),
        ({"temperature_restore": [2], "temperature_stages": "0:1"}, "give one"),
    ],
)
def test_wrong_options_are_refused(config, changes, message):
    with pytest.raises(UserError, match=message):
        config(**changes)
