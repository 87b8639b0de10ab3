"""Responses that end with their program."""

import math

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mcbench.evaluator import extract_code
from mcbench.grpo.decode import sample_unfinished
from mcbench.grpo.fence import EndAtFence, Fence
from mcbench.worlds.tokenizer import load_tokenizer

from .conftest import EOS, make_model

TOKENIZER = load_tokenizer()
FENCE = Fence(TOKENIZER)
END = TOKENIZER.eos_token


def ids(text):
    return TOKENIZER(text)["input_ids"]


@pytest.mark.parametrize(
    ("said", "cut"),
    [
        ("try\n```python\nx\n```\nwhat it does: `x`\n```python\ny\n```", "try\n```python\nx\n```"),
        ("```python\nx\n```" + END, "```python\nx\n```"),
        ("```\nx = '```'\n```\n", "```\nx = '```'\n```"),  # only a line of its own closes
        ("```python\nx\n", None),  # open
        ("```python\nx\n```", None),  # at the limit: nothing follows
        ("no program" + END, None),
    ],
)
def test_a_response_is_cut_after_its_first_block(said, cut):
    found = FENCE.cut(ids(said))
    assert found == (ids(said) if cut is None else [*ids(cut), FENCE.end])
    assert cut is None or extract_code(cut) is not None
    assert FENCE.cut(found) == found


def test_log_probabilities_and_loss_go_with_it():
    long, short = [*ids("```\nx\n```"), 7, 7], [5, 6]
    cut, log_probs = FENCE.cut_all([long, short], [[-1.0] * len(long), [-2.0, -3.0]])
    assert log_probs[0] == pytest.approx([-1.0] * (len(long) - 2) + [math.nan], nan_ok=True)
    assert log_probs[1] == [-2.0, -3.0]
    mask = torch.ones(2, len(long))
    FENCE.leave_out(cut, mask)
    assert mask.sum(dim=1).tolist() == [len(long) - 1, len(long)]
    assert mask[0, len(cut[0]) - 1] == 0


def opening():
    """A tokenizer of the tiny model's sixteen tokens, two of which open and close a block."""
    texts = ["<eos>", "<pad>", "a", "```\n", "\n```", *"defghijklmn", "b"][:16]
    vocabulary = {text: number for number, text in enumerate(texts)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )


@pytest.mark.parametrize("loop", [{}, {"custom_generate": sample_unfinished}])
def test_sampled_token_by_token_nothing_but_the_end_follows(loop):
    fence = Fence(opening())
    torch.manual_seed(0)
    output = make_model().generate(
        torch.tensor([[3, 4], [5, 6]] * 64), max_new_tokens=24, do_sample=True, eos_token_id=0,
        pad_token_id=1, logits_processor=[EndAtFence(fence)], **loop,
    )[:, 2:].tolist()  # fmt: skip
    rows = [row[: row.index(0) + 1] if 0 in row else row for row in output]
    assert all(fence.cut(row) == row for row in rows)
    closed = [row for row in rows if row[-1] == 0 and fence.closed(row[:-1])]
    assert 5 < len(closed) < len(rows)


def test_a_trainer_ends_responses_there_and_trains_on_the_policys_own_tokens(make_trainer):
    def batch_of(**options):
        seen, trained = [], []
        trainer = make_trainer(
            trainer={"processing_class": opening(), "on_generation": seen.append},
            max_steps=1, num_iterations=2, per_device_train_batch_size=32, **options,
        )  # fmt: skip
        score = trainer._compute_loss
        trainer._compute_loss = lambda model, inputs: trained.append(inputs) or score(model, inputs)
        trainer.train()
        return trainer, seen[0], trained[0]

    for unfinished in (False, True):
        trainer, batch, inputs = batch_of(stop_at_fence=True, sample_unfinished=unfinished)
        forced = [
            ids[-1] == EOS and trainer.fence.closed(ids[:-1].tolist())
            for ids in batch.completion_ids
        ]
        assert 0 < sum(forced) < len(forced)
        assert not batch.truncated[forced].any()
        counted = inputs["completion_mask"].sum(dim=1)
        lengths = [len(batch.completion_ids[place]) for place in inputs["place"]]
        ends = [forced[place] for place in inputs["place"]]
        assert counted.tolist() == [n - end for n, end in zip(lengths, ends, strict=True)]
        assert inputs["num_items_in_batch"] == counted.sum()
