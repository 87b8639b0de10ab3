import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from trl import GRPOConfig, GRPOTrainer

from mcbench.grpo import masking
from mcbench.grpo.options import MASK_WHEN

from . import table
from .conftest import common_args, letter_reward, make_dataset, make_model, make_tokenizer

# Rewards [r, 1, 0, 0] of a group: A = (r - mean) / (std + 1e-4), std with Bessel's correction.
ADVANTAGE = {True: (0 - 0.25) / (0.5 + 1e-4), False: (1 - 0.5) / (3**-0.5 + 1e-4)}  # incorrect?


def generate(make_trainer, **changes):
    """The trainer, the batch it generated from the table and the record of it."""
    records = []
    parts = {**table.trainer_parts(), "on_generation": records.append}
    changes = {"per_device_train_batch_size": 32, **changes}
    trainer = make_trainer(trainer=parts, **table.settings(**changes))
    trainer.model.train()
    inputs = [row for row in table.rows() for _ in range(table.GROUP)]
    return trainer, trainer._generate_and_score_completions(inputs), records[0]


@pytest.mark.parametrize("drawn", [True, False])
def test_advantages_of_all_sixteen_combinations(make_trainer, drawn):
    trainer, output, record = generate(make_trainer, mask_ratio=float(drawn))
    subjects = output["advantages"][:: table.GROUP].tolist()
    for value, (reached, incorrect, repeating) in zip(subjects, table.CASES, strict=True):
        masked = reached and incorrect and not repeating and drawn
        assert value == pytest.approx(0.0 if masked else ADVANTAGE[incorrect], abs=1e-6)
    others = output["advantages"].view(-1, table.GROUP)[:, 1:]
    incorrect_group = torch.tensor([0.75, -0.25, -0.25]) / (0.5 + 1e-4)
    correct_group = torch.tensor([0.5, -0.5, -0.5]) / (3**-0.5 + 1e-4)
    for row, (_, incorrect, _) in zip(others, table.CASES, strict=True):
        torch.testing.assert_close(row, incorrect_group if incorrect else correct_group)
    assert list(trainer._logs["advantages"]) == output["advantages"].tolist()
    np.testing.assert_array_equal(record.advantages, output["advantages"].double().numpy())
    assert record.masked.sum() == drawn


def test_a_masked_response_has_exactly_no_gradient(make_trainer):
    trainer, output, record = generate(make_trainer, mask_ratio=1.0)
    trainer.current_gradient_accumulation_steps = 1
    row = int(record.masked.nonzero()[0][0])
    assert row == table.CASES.index((True, True, False)) * table.GROUP

    def gradient(advantage):
        one = {k: v[row : row + 1] if v.dim() else v for k, v in output.items()}
        trainer.model.zero_grad()
        trainer._compute_loss(trainer.model, {**one, "advantages": advantage}).backward()
        return sum(float(p.grad.abs().sum()) for p in trainer.model.parameters())

    assert gradient(torch.tensor([ADVANTAGE[True]])) > 0
    assert gradient(output["advantages"][row : row + 1]) == 0.0
    assert (
        output["completion_mask"][row].sum() == table.LIMIT
    )  # its tokens stay in the denominators


@pytest.mark.parametrize(
    ("reading", "masked"), [("incorrect", "n"), ("correct", "m"), ("non_incorrect", "m")]
)
def test_readings(make_trainer, reading, masked):
    trainer, _, record = generate(make_trainer, mask_ratio=1.0, mask_when=reading)
    chosen = [text[0] for text, hit in zip(record.completions, record.masked, strict=True) if hit]
    assert chosen == [masked]
    metrics = {k: v[-1] for k, v in trainer._metrics["train"].items()}
    expected = {"truncated": 4, "truncated_incorrect": 2, "repeating": 2, "share": 1}
    for name in MASK_WHEN:
        expected[f"eligible_{name}"] = 2 if name == "any" else 1
    assert {k: metrics[f"mask/{k}"] * 32 for k in expected} == expected
    assert metrics["group/mixed"] == 1.0
    assert metrics["length/max_allowed"] == table.LIMIT


def test_every_cut_response_can_be_masked_with_its_tokens_kept(make_trainer):
    """The same responses as under "all", but they stay in the denominators of the loss."""
    _, output, record = generate(make_trainer, mask_ratio=1.0, mask_when="any", repeat_rule="none")
    assert record.masked.tolist() == record.truncated.tolist()
    assert record.truncated.sum() == 4
    rows = torch.from_numpy(record.masked)
    assert (output["advantages"][rows] == 0).all()
    assert (output["completion_mask"][rows].sum(dim=1) == table.LIMIT).all()
    _, dropped, other = generate(make_trainer, truncation_mask="all")
    assert other.masked[record.masked].all()  # and what something else cut before the limit
    assert dropped["completion_mask"][rows].sum() == 0


def long_enough(completions, **_):
    return [float(len(text.split()) > 2) for text in completions]


def test_one_of_several_rewards_can_decide_correctness(make_trainer):
    parts = {**table.trainer_parts(), "reward_funcs": [long_enough, table.right]}
    trainer = make_trainer(
        trainer=parts,
        **table.settings(per_device_train_batch_size=32, mask_ratio=1.0, max_steps=1),
        correctness_reward="right",
    )
    trainer.train()
    line = trainer.state.log_history[0]
    assert line["mask/truncated_incorrect"] * 32 == 2
    assert line["mask/eligible_incorrect"] == line["mask/share"] == 1 / 32


def test_unscored_and_partial_responses_are_neither_correct_nor_incorrect():
    read = masking.correctness(torch.tensor([1.0, 0.0, 0.5, float("nan"), -1.0]))
    assert read.candidates("correct").tolist() == [True, False, False, False, False]
    assert read.candidates("incorrect").tolist() == [False, True, False, False, True]
    assert read.candidates("non_incorrect").tolist() == [True, False, True, True, False]
    with pytest.raises(
        ValueError, match="'never'; allowed: incorrect, correct, non_incorrect, any"
    ):
        read.candidates("never")


def test_eos_on_the_last_allowed_token_is_no_truncation():
    ids = [[5, 5, 0], [5, 5, 1], [5, 5, 5], [5, 5], []]  # 0 and 1 end a response
    cut = masking.is_truncated(ids, {0, 1}, limits=[3] * 5)
    assert cut.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.3, 1.0])
def test_masked_share_is_rho(rho):
    yes = torch.ones(10_000, dtype=torch.bool)
    draws = masking.uniform_draws((3, 40, 0), len(yes))
    eligible = masking.eligible(yes, yes, ~yes)
    share = masking.conditional_mask(eligible, draws, rho).double().mean().item()
    assert abs(share - rho) <= 4 * (rho * (1 - rho) / 10_000) ** 0.5


class NoFloat64(TorchDispatchMode):
    """Refuses float64 off the processor, as Apple's GPUs do."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        assert result.device.type == "cpu" or result.dtype != torch.float64
        return result


def test_the_draws_stay_where_float64_is():
    with NoFloat64():
        eligible = torch.ones(4, dtype=torch.bool, device="meta")
        masked = masking.conditional_mask(eligible, masking.uniform_draws((1, 2, 3), 4), 0.5)
    assert (masked.device.type, masked.dtype) == ("meta", torch.bool)


def test_draws_depend_on_their_key_alone():
    before = torch.get_rng_state()
    long, short = masking.uniform_draws((7, 2, 0), 64), masking.uniform_draws((7, 2, 0), 16)
    torch.testing.assert_close(long[:16], short, rtol=0, atol=0)
    for other in [(8, 2, 0), (7, 3, 0), (7, 2, 1)]:
        assert not torch.equal(short, masking.uniform_draws(other, 16))
    assert torch.equal(before, torch.get_rng_state())


def test_every_batch_of_a_run_has_its_own_key(make_trainer):
    records, keys = [], []
    options = table.settings(gradient_accumulation_steps=4, steps_per_generation=2, max_steps=2)
    trainer = make_trainer(trainer=table.trainer_parts(), **options)
    trainer.on_generation = lambda batch: (records.append(batch), keys.append(trainer.draw_key))
    trainer.train()
    assert keys == [(7, 0, 0), (7, 0, 1), (7, 1, 0), (7, 1, 1)]  # two batches in each update
    assert [batch.step for batch in records] == [0, 0, 1, 1]


def test_repetition_rules_against_brute_force():
    generator = torch.Generator().manual_seed(0)
    window = 6
    looping = [[1 + i % p for i in range(20)] for p in range(1, 9)]
    noise = torch.randint(0, 2, (400, 20), generator=generator).tolist()
    late = [[9, 8, 7] + [1, 2] * 8 + [1], [1, 2] * 9 + [1, 9]]
    ids = torch.tensor([row[:20] + [0] * (20 - len(row)) for row in looping + noise + late])
    lengths = torch.randint(8, 21, (len(ids),), generator=generator)
    lengths[: len(looping)] = 20

    def brute(row, length, periods):
        tail = row[:length][-2 * window :]
        if len(tail) < 2 * window:
            return False
        return any(all(tail[i] == tail[i - p] for i in range(p, len(tail))) for p in periods)

    for rule, periods in (("window", [window]), ("periodic", range(1, window + 1))):
        found = masking.repeats(ids, lengths, window, rule).tolist()
        pairs = zip(ids.tolist(), lengths.tolist(), strict=True)
        assert found == [brute(row, n, periods) for row, n in pairs]
    window_rule = masking.repeats(ids[:8], lengths[:8], window, "window").tolist()
    periodic_rule = masking.repeats(ids[:8], lengths[:8], window, "periodic").tolist()
    assert window_rule == [True, True, True, False, False, True, False, False]  # 4, 5 escape
    assert periodic_rule == [True] * 6 + [False] * 2


def test_mask_all_is_trl_s_own_option(make_trainer, tmp_path):
    plain = GRPOTrainer(
        model=make_model(),
        reward_funcs=letter_reward,
        args=GRPOConfig(**common_args(tmp_path / "trl"), mask_truncated_completions=True),
        train_dataset=make_dataset(),
        processing_class=make_tokenizer(),
    )
    plain.train()
    ours = make_trainer(truncation_mask="all")
    ours.train()
    theirs = plain.model.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.model.state_dict().items())
    shares = [line["mask/share"] for line in ours.state.log_history if "loss" in line]
    clipped = [
        line["completions/clipped_ratio"] for line in ours.state.log_history if "loss" in line
    ]
    assert shares == pytest.approx(clipped)
    assert max(shares) > 0
