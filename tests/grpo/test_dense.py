"""Credit for tokens against numbers worked out by hand, and in training."""

import json
import math

import pytest
import torch
from trl.experimental.sdpo.loss_utils import compute_sampled_token_self_distillation_loss

from mcbench.errors import UserError
from mcbench.grpo import imitation, tokens
from mcbench.grpo.critic import Critic, auroc

from .conftest import logged, make_dataset, make_model
from .test_dynamic_sampling import look, spoken, tool_tokenizer


def test_lines_of_tokens():
    assert tokens.lines_of(["a", " = 1\n", "b", "\n\n", "c", "\n"]) == [1, 1, 2, 2, 4, 4]


def test_tokens_of_lines():
    lines = torch.tensor([[1, 1, 2, 3], [1, 2, 0, 0], [1, 2, 2, 0]])
    mask = tokens.line_mask(lines, [[2, 3], [0], []])
    assert mask.tolist() == [
        [False, False, True, True], [True, True, False, False], [False] * 4,
    ]  # fmt: skip


def test_tokens_of_spans():
    pieces = [["a", " = b", "\n", "c", ""], ["ab", "cd", "e"], ["x"]]
    mask = tokens.span_mask(pieces, [(2, 5), (0, 10**9), None], 6)
    assert mask.tolist() == [
        [False, True, False, False, False, False], [True] * 3 + [False] * 3, [False] * 6,
    ]  # fmt: skip


# Reward, that of the greedy answer, the probability of the outcome at a token and whether that is
# blamed; and what ``sample_rl_task`` of RLTF makes of them (fine_grained_type 1, weight 0.3).
CREDITED = [
    (1.0, -0.3, 0.5, 0, 0.65), (1.0, 1.0, 0.9, 0, 0.0), (-0.6, 1.0, 0.25, 0, -0.4),
    (-0.6, 1.0, 0.25, 1, -0.475), (-1.0, -1.0, 0.8, 1, -0.24), (-1.0, -0.6, 0.5, 0, -0.2),
    (-1.0, -0.6, 0.5, 1, -0.35), (0.35, -0.3, 1.0, 0, 0.65), (0.35, 1.0, 0.1, 0, -0.065),
    (-0.3, 0.35, 0.6, 0, -0.39), (-0.6, -0.6, 0.7, 1, -0.21), (-0.6, -0.6, 0.7, 0, 0.0),
    (-0.6, -1.0, 0.5, 1, 0.05), (-0.6, -1.0, 0.5, 0, 0.2), (-1.0, 1.0, 0.05, 1, -0.115),
    (-1.0, 1.0, 0.05, 0, -0.1), (0.675, -0.6, 0.4, 0, 0.51), (-0.3, -0.3, 0.3, 0, 0.0),
    (1.0, -1.0, 0.75, 0, 1.5), (-0.6, 0.025, 0.4, 1, -0.37), (-0.6, 0.025, 0.4, 0, -0.25),
]  # fmt: skip


@pytest.mark.parametrize(("reward", "greedy", "p", "blamed", "wanted"), CREDITED)
def test_credit_is_rltf_s_and_codeRL_s(reward, greedy, p, blamed, wanted):
    gained, mask = torch.tensor([reward - greedy]), torch.tensor([[bool(blamed)]])
    found = tokens.credited(gained, mask, torch.tensor([[p]]))
    assert found.item() == pytest.approx(wanted, abs=1e-6)


def test_auroc():
    assert auroc([0.1, 0.9, 0.5, 0.5], [False, True, True, False]) == 3.5 / 4
    assert math.isnan(auroc([0.1], [True]))


# β after AdaptiveKLController's update of PPOCoder's ``ppo.py`` (horizon 10,000).
BETAS = [
    (0.05, 1.0, 1.0, 48, 0.05), (0.05, 9.0, 1.0, 48, 0.050048), (0.05, 0.0, 1.0, 48, 0.049952),
    (0.05, -9.0, 1.0, 48, 0.050048), (0.05, 1.1, 1.0, 48, 0.050024), (0.1, 0.5, 1.0, 128, 0.099744),
    (100.0, 6.6, 6.0, 48, 100.048), (0.2, 2.0, 4.0, 10_000, 0.16), (0.2, 8.0, 4.0, 10_000, 0.24),
]  # fmt: skip


@pytest.mark.parametrize(("beta", "kl", "target", "responses", "wanted"), BETAS)
def test_the_coefficient_adapts_as_ppocoder_s(beta, kl, target, responses, wanted):
    assert tokens.adapted(beta, kl, target, responses) == pytest.approx(wanted)


def test_the_critic_learns_outcomes_and_weighs_tokens_by_the_one_that_came():
    critic = Critic(make_model().get_decoder())
    ids = torch.tensor([[3, 4, 5, 6], [3, 4, 5, 7], [3, 8, 9, 6], [3, 8, 9, 7]])
    seen, mask = torch.ones_like(ids), torch.ones(4, 3, dtype=torch.bool)
    outcomes = torch.tensor([3, 3, 1, 1])
    for step in range(20):
        critic.learn(ids, seen, mask, outcomes, (0, step))
    with torch.no_grad():
        found = critic.logits(ids, seen, 3)
    assert found.shape == (4, 3, 4)
    assert found.amax(dim=1).argmax(dim=1).tolist() == [3, 3, 1, 1]


# In training -------------------------------------------------------------------------------------


def noted(notes):
    def reward(completions, log_extra, **_):  # of the greedy answers, too
        log_extra("notes", [json.dumps(notes(text)) for text in completions])
        return [float(text.split().count("a") % 2) for text in completions]

    return reward


def trained(make_trainer, notes, **options):
    """The trainer, and every batch with what it was trained as."""
    batches, outputs = [], []
    parts = {"reward_funcs": noted(notes), "on_generation": batches.append}
    trainer = make_trainer(trainer=parts, per_device_train_batch_size=8, **options)
    as_trained = trainer.as_trained
    trainer.as_trained = lambda output: outputs.append(as_trained(output)) or outputs[-1]
    trainer.train()
    return trainer, batches, outputs


def test_unexecuted_tokens_have_no_advantage(make_trainer):
    notes = lambda text: {"outcome": 1, "blamed": None,  # noqa: E731
                          "unexecuted": [1] if "b" in text else []}  # fmt: skip
    trainer, batches, outputs = trained(make_trainer, notes, token_credit="executed", max_steps=3)
    for batch, output in zip(batches, outputs, strict=True):
        for row, text in enumerate(batch.completions):
            length, own = batch.lengths[row], batch.advantages[row]
            found = output["advantages"][row, :length]
            assert found.tolist() == pytest.approx([0.0 if "b" in text else own] * length, abs=1e-6)
    assert 0 < max(logged(trainer, "task/unexecuted")) <= 1


@pytest.mark.parametrize("credit", ["critic", "blame"])
def test_advantages_are_against_the_greedy_answer_and_weighed_by_the_critic(make_trainer, credit):
    notes = lambda text: {"outcome": 3 * (text.split().count("a") % 2),  # noqa: E731
                          "blamed": [0, 1] if "b" in text else None, "unexecuted": []}  # fmt: skip
    trainer, batches, outputs = trained(make_trainer, notes, token_credit=credit, max_steps=4)
    for batch, output in zip(batches, outputs, strict=True):
        found = output["advantages"]
        assert found.shape == output["completion_ids"].shape
        assert found.abs().max() <= 1.3
        for start in (0, 4):  # one greedy answer a prompt: right answers gain 0 or more
            right = batch.rewards[start : start + 4] > 0
            rest = found[start : start + 4, 1:]  # the first token may be blamed
            assert (rest[right] >= 0).all()
            assert (rest[~right] <= 0).all()
    assert all(0 <= value <= 1 for value in logged(trainer, "task/critic_auroc"))
    assert (max(logged(trainer, "task/blamed")) > 0) == (credit == "blame")


def test_the_kl_is_a_part_of_the_reward_and_its_coefficient_is_kept(make_trainer):
    options = {"beta": 0.1, "kl_target": 0.001, "steps_per_generation": 2, "max_steps": 6}
    trainer = make_trainer(gradient_accumulation_steps=1, **options)
    trainer.train()
    found = logged(trainer, "task/beta")
    assert found[0] == 0.1
    assert found[1] == pytest.approx(0.1 * (1 - 0.2 * 8 / 10_000))  # no distance yet
    assert trainer.checkpoint_state["beta"] > found[-1]
    assert not any("kl" in line for line in trainer.state.log_history)  # no such term in the loss


def test_feedback_is_distilled_as_trl_s_trainer_does(make_trainer):
    """The gradient of the advantages at a ratio of 1 is that of TRL's loss, which has no reward."""
    notes = lambda text: {"feedback": "n m" if "b" in text else ""}  # noqa: E731
    trainer, batches, outputs = trained(make_trainer, notes, token_credit="feedback", max_steps=2)
    told = [["b" in text for text in batch.completions] for batch in batches]
    for output, has in zip(outputs, told, strict=True):
        found = output["advantages"]
        assert found[torch.tensor(has)].abs().sum() > 0
        assert not found[~torch.tensor(has)].any()
    assert logged(trainer, "task/told") == [sum(has) / len(has) for has in told]
    student = torch.randn(2, 3, 7, requires_grad=True)
    teacher, ids = torch.randn(2, 3, 7), torch.randint(7, (2, 3))
    theirs = compute_sampled_token_self_distillation_loss(
        student, teacher, ids, distillation_alpha=1.0
    )
    (wanted,) = torch.autograd.grad(theirs.sum(), student)
    ours, other = (
        one.log_softmax(-1).gather(2, ids.unsqueeze(2)).squeeze(2) for one in (student, teacher)
    )
    ratio = (ours - ours.detach()).exp()
    (found,) = torch.autograd.grad(-(ratio * (other - ours).detach()).sum(), student)
    torch.testing.assert_close(found, wanted)


def test_the_teacher_s_context_has_no_gap_beside_a_longer_response(make_trainer):
    """Positions are counted over padding: a gap would move what a token is likely to be."""
    trainer = make_trainer()
    rows = {"short": ([3, 4], [5, 6]), "long": ([3, 4, 7], [5, 6, 7, 8, 9, 10])}

    def advantages(*names):
        trainer.asked_ids, trainer.sampled_ids = (
            list(one) for one in zip(*map(rows.get, names), strict=True)
        )
        prompts = imitation.padded(trainer.asked_ids, "left")
        answers = imitation.padded(trainer.sampled_ids)
        output = dict(zip(("prompt_ids", "prompt_mask"), prompts, strict=True))
        output |= dict(zip(("completion_ids", "completion_mask"), answers, strict=True))
        return tokens.distilled(trainer, output, ["n m", "n"][: len(names)])

    alone, beside = advantages("short")[0], advantages("short", "long")[0]
    assert alone.abs().sum() > 0.01
    torch.testing.assert_close(beside[:2], alone)
    assert not beside[2:].any()


class Answers:
    """A reward whose task has answers."""

    __name__ = "answers"

    def __call__(self, completions, **_):
        return [float("a" in text) for text in completions]

    def answer(self, problem_id):
        return "a b"


@pytest.mark.parametrize("imitate", ["reference", "own"])
def test_right_answers_become_likelier(make_trainer, imitate):
    options = {"learning_rate": 1e-2, "max_steps": 6, "per_device_train_batch_size": 8}
    parts = {"reward_funcs": Answers()}
    parts["eval_dataset"] = make_dataset(4)
    trainer = make_trainer(imitate=imitate, imitate_from=2, trainer=parts, **options)
    ids = trainer._tokenizer("d a b <eos>", return_tensors="pt")["input_ids"]

    def likelihood():
        with torch.no_grad():
            return -trainer.model(input_ids=ids, labels=ids).loss.item()

    before = likelihood()
    trainer.train()
    told = logged(trainer, "task/imitated")
    if imitate == "reference":
        assert told == [2] * 6
        assert likelihood() > before
    else:
        assert told[:2] == [0, 0]
        assert 0 < max(told) <= 2
        assert len(trainer.checkpoint_state["own"]) <= 2
    assert math.isfinite(trainer.evaluate()["eval_loss"])  # of which imitation is no part


def test_a_batch_without_notes_has_none_of_the_batch_before(make_trainer):
    """Nothing was judged in the second batch; in the third the reward tells nothing."""
    notes = lambda text: {"outcome": 1, "blamed": None, "unexecuted": [0]}  # noqa: E731
    own, calls = noted(notes), []

    def reward(completions, log_extra=None, **columns):
        calls.append(completions)
        if len(calls) == 2:
            return [None] * len(completions)
        say = log_extra if len(calls) == 1 else lambda *_: None
        return own(completions, say, **columns)

    parts, batches = {"reward_funcs": reward}, []
    parts["on_generation"] = batches.append
    trainer = make_trainer(
        trainer=parts, per_device_train_batch_size=8, token_credit="executed", max_steps=3
    )
    with pytest.raises(UserError, match="needs a reward that tells unexecuted"):
        trainer.train()
    assert logged(trainer, "task/unexecuted") == [1, 0]


def test_one_coefficient_for_all_processes_from_the_mean_of_all(make_trainer, monkeypatch):
    """A second process, whose responses are three nats further from the reference each."""
    trainer = make_trainer(beta=0.1, kl_target=4.0, steps_per_generation=2)
    trainer.training = True
    trainer.gather = lambda rows: torch.cat([rows, rows + 3])
    ones = torch.ones(2, 4)
    output = {
        "old_per_token_logps": ones, "ref_per_token_logps": ones * 0, "completion_mask": ones,
        "advantages": torch.zeros(2),
    }  # fmt: skip
    trainer.rewards = torch.zeros(4, 1)
    trainer.num_generations = 2
    monkeypatch.setattr(tokens, "replace_advantages", lambda *_: None)
    trainer.as_trained(output)
    wanted = tokens.adapted(0.1, (4 + 7) / 2, 4.0, 4)
    assert trainer.checkpoint_state["beta"] == pytest.approx(wanted)


def test_the_kl_is_of_the_policy_s_own_tokens(make_trainer, monkeypatch):
    trainer = make_trainer(beta=0.1, kl_target=4.0, steps_per_generation=2, num_generations=2)
    trainer.training, trainer.rewards = True, torch.zeros(2, 1)
    monkeypatch.setattr(tokens, "replace_advantages", lambda *_: None)
    ones = torch.ones(2, 4)
    output = {
        "old_per_token_logps": ones, "ref_per_token_logps": ones * 0, "completion_mask": ones,
        "tool_mask": torch.tensor([[1, 0, 0, 1]] * 2), "advantages": torch.zeros(2),
    }  # fmt: skip
    trainer.as_trained(output)
    assert trainer._metrics["train"]["task/kl_a_response"] == [2]


@pytest.mark.parametrize("noted_by_it", [None, {"outcome": 1}])
def test_a_reward_that_does_not_tell_what_is_needed_is_refused(make_trainer, noted_by_it):
    parts = {} if noted_by_it is None else {"reward_funcs": noted(lambda text: noted_by_it)}
    with pytest.raises(UserError, match="needs a reward that tells outcome and blamed"):
        make_trainer(token_credit="blame", trainer=parts).train()


def test_the_greedy_answer_is_rewarded_as_the_others_are(make_trainer):
    """By all functions, with their weights, as a message where the prompts are messages."""
    seen = []

    def reward(completions, log_extra, **_):
        seen.append(len(completions))
        assert all(one["role"] == "assistant" for (one,) in completions)
        log_extra("notes", [json.dumps({"outcome": 3})] * len(completions))
        return [0.25] * len(completions)

    async def other(completions, **_):
        return [1.0] * len(completions)

    parts = {
        "reward_funcs": [reward, other], "train_dataset": spoken(),
        "processing_class": tool_tokenizer(),
    }  # fmt: skip
    trainer = make_trainer(trainer=parts, token_credit="critic", reward_weights=[2.0, 3.0])
    trainer.args.max_steps, outputs = 1, []
    as_trained = trainer.as_trained
    trainer.as_trained = lambda output: outputs.append(as_trained(output)) or outputs[-1]
    trainer.train()
    assert seen == [4, 1]
    assert not outputs[0]["advantages"].any()  # as right as the greedy one, all of them


def test_credit_by_a_greedy_answer_is_for_one_turn(make_trainer):
    parts = {"tools": [look], "train_dataset": spoken(), "processing_class": tool_tokenizer()}
    with pytest.raises(UserError, match="which has one turn: no tools"):
        make_trainer(trainer=parts, token_credit="critic")


def test_imitation_weighs_alike_however_an_update_is_split(make_trainer):
    """Two answers at 2 of 16 places, of two tokens and of one: at any likelihood l of a token it
    is -l on average, whatever the passes.
    """
    kept = torch.zeros(16, 2, dtype=torch.long)
    kept[3, :], kept[12, 0] = 1, 1
    ids, ones = torch.full((16, 2), 3), torch.ones(16, 2, dtype=torch.long)
    batch = {"imitated_prompt_ids": ids, "imitated_prompt_mask": ones}
    batch |= {"imitated_ids": ids, "imitated_mask": kept}
    trainer, found = make_trainer(imitate="own"), []
    for passes in (1, 2, 4, 16):
        rows = [slice(n, n + 16 // passes) for n in range(0, 16, 16 // passes)]
        trainer._buffered_inputs = [{n: one[s] for n, one in batch.items()} for s in rows]
        trainer.current_gradient_accumulation_steps = passes
        with torch.no_grad():
            found.append(0.0)
            for trainer._step, one in enumerate(trainer._buffered_inputs):  # noqa: B020
                found[-1] += float(imitation.loss(trainer, trainer.model, one))
    assert found == pytest.approx([found[0]] * 4, rel=1e-5)


def test_imitation_is_of_the_whole_distribution(make_trainer):
    ids, ones = torch.tensor([[3, 4, 0]]), torch.ones(1, 3, dtype=torch.long)
    inputs = {"imitated_prompt_ids": ids, "imitated_prompt_mask": ones}
    inputs |= {"imitated_ids": ids, "imitated_mask": ones}
    found = []
    for options in ({}, {"top_p": 0.3}):
        trainer = make_trainer(imitate="own", **options)
        trainer.current_gradient_accumulation_steps = 1
        found.append(imitation.loss(trainer, trainer.model, inputs).item())
        assert bool(trainer._kept_by) == bool(options)
    assert found[0] == pytest.approx(found[1], abs=1e-6)


@pytest.mark.parametrize("imitate", ["reference", "own"])
def test_a_prompt_is_imitated_with_its_own_answer(make_trainer, imitate):
    """Also where its group gives way to another one's."""

    class Own(Answers):
        def __call__(self, prompts, completions, **_):  # each second prompt is always solved
            flat = [prompt == prompts[0] for prompt in prompts]
            return [1.0 if one else float(n % 2) for n, one in enumerate(flat)]

        def answer(self, problem_id):
            return rows[problem_id]

    rows = {row["problem_id"]: row["prompt"] for row in make_dataset()}
    outputs, options = [], {"substitute_flat": 0.3, "per_device_train_batch_size": 8}
    trainer = make_trainer(trainer={"reward_funcs": Own()}, imitate=imitate, max_steps=2, **options)
    as_trained = trainer.as_trained
    trainer.as_trained = lambda output: outputs.append(as_trained(output)) or outputs[-1]
    trainer.train()
    assert logged(trainer, "task/flat") == [0.5, 0.5]
    if imitate == "own":
        asked = [
            trainer._tokenizer.decode(ids) for ids, _ in trainer.checkpoint_state["own"].values()
        ]
        assert [rows[name] for name in trainer.checkpoint_state["own"]] == asked
        return
    for output in outputs:
        for prompt, answer in zip(
            output["imitated_prompt_ids"][::4], output["imitated_ids"][::4], strict=True
        ):
            assert answer.tolist() == [*prompt.tolist(), trainer._tokenizer.eos_token_id]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_credit": "best"}, "allowed: blame, critic, executed, feedback, none"),
        ({"kl_target": 1.0}, "must be above 0 at the start"),
        ({"token_credit": "blame", "loss_type": "cispo", "epsilon_high": 5.0}, "one of the losses"),
        ({"token_credit": "blame", "truncation_mask": "conditional"}, "undo the conditional mask"),
        ({"token_credit": "critic", "advantage_rule": "uncut"}, "advantages of its own"),
        ({"token_credit": "feedback", "advantage_rule": "uncut"}, "advantages of its own"),
        ({"token_credit": "feedback", "scale_rewards": "none"}, "advantages of its own"),
        ({"token_credit": "blame", "kl_target": 1.0, "beta": 0.1}, "no part of"),
        ({"token_credit": "executed", "sampler_noise": 0.1}, "sampler_noise"),
        ({"staleness": 1, "dynamic_sampling": 2}, "samples anew"),
    ],
)
def test_wrong_options_are_refused(config, changes, message):
    with pytest.raises(UserError, match=message):
        config(**changes)
