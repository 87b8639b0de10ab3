"""Responses that end with their program."""

import pytest
import torch

from mcbench.evaluator import extract_code
from mcbench.grpo.decode import sample_unfinished
from mcbench.grpo.fence import EndAtFence, Fence
from mcbench.nano import load_tokenizer

from .conftest import make_model

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
    assert log_probs == [[-1.0] * (len(long) - 2) + [0.0], [-2.0, -3.0]]
    mask = torch.ones(2, len(long))
    FENCE.leave_out(cut, mask)
    assert mask.sum(dim=1).tolist() == [len(long) - 1, len(long)]
    assert mask[0, len(cut[0]) - 1] == 0


class Opening:
    """A tokenizer of the tiny model's sixteen tokens, in which b opens a block and c closes it."""

    eos_token_id = 0
    texts = ("", "", "a", "```\n", "\n```", *"defghijklmn")

    def convert_ids_to_tokens(self, numbers):
        return [self.texts[n] for n in numbers]

    def decode(self, numbers, **_):
        return "".join(self.texts[n] for n in numbers)

    def __len__(self):
        return len(self.texts)


@pytest.mark.parametrize("loop", [{}, {"custom_generate": sample_unfinished}])
def test_sampled_token_by_token_nothing_but_the_end_follows(loop):
    fence = Fence(Opening())
    torch.manual_seed(0)
    output = make_model().generate(
        torch.tensor([[3, 4], [5, 6]] * 64), max_new_tokens=24, do_sample=True, eos_token_id=0,
        pad_token_id=1, logits_processor=[EndAtFence(fence)], **loop,
    )[:, 2:].tolist()  # fmt: skip
    rows = [row[: row.index(0) + 1] if 0 in row else row for row in output]
    assert all(fence.cut(row) == row for row in rows)
    closed = [row for row in rows if row[-1] == 0 and fence.closed(row[:-1])]
    assert 5 < len(closed) < len(rows)
