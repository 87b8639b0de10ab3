"""The nano tokenizer: phrases of the nano world, every integer 0..199 one token, any character.

Integers as single tokens turn the arithmetic of a hypothesis into a table look-up, which a model
of a million parameters can learn. Encoding is longest match first, decoding is concatenation, so
decode(encode(text)) == text for printable ASCII and newlines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mcbench.worlds import described, induced
from mcbench.worlds.words import EOS, FAILS, FENCE_CLOSE, FENCE_OPEN, GIVE_UPS, NONES, OKS, OPENERS

PAD, UNK = "<pad>", "<unk>"
N_INTEGERS = 200


def _phrases() -> list[str]:
    phrases = [*OPENERS, *FAILS, *NONES, *OKS, *GIVE_UPS, FENCE_OPEN, FENCE_CLOSE]
    phrases += [":", ";", " k", "plan", "\nin", " out", "\nAnswer:\n", "\nSteps: ", "; ", ".", ","]
    phrases += [*induced.HEADS.values(), *described.HEADS.values()]
    phrases += [f" {feature.expr}" for feature in induced.FEATURES]
    phrases += [feature.expr for feature in induced.FEATURES]
    phrases += ["x = int(input())\n", "class Solution:\n    def solve(self, "]
    phrases += ["x):\n", "a):\n", "print(", ")\n", "y = ", "y", "\n", " +"]
    phrases += ["        return ", "        y = ", "        a = ", "a = ", described.READ]
    for op in (*described.OPS, *described.FINALS):
        phrases.append(f" {op.name}")
        for text in (*op.wordings, op.code):
            phrases += [
                part.rstrip() if text in op.wordings else part.replace(" {k", "")
                for part in re.split(r" ?\{k\}", text)
                if part
            ]
    phrases += ["*a"]
    return sorted(set(phrases) - {""})


def vocabulary(more: Sequence[str] = ()) -> list[str]:
    """All tokens in the order of their ids; those of ``more`` phrases come last."""
    characters = [chr(c) for c in range(32, 127)]
    integers = [f" {n}" for n in range(N_INTEGERS)]
    rest = [t for t in [*characters, *_phrases()] if t not in integers]
    return list(dict.fromkeys([PAD, EOS, UNK, *integers, *rest, *more]))


@cache
def load_tokenizer(more: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """The tokenizer shared by the nano models that write programs; with ``more`` phrases one for
    another task, whose other ids are the same.
    """
    tokens = vocabulary(more)
    phrases = sorted(tokens[3 + N_INTEGERS :], key=len, reverse=True)
    # before a digit the space of "; " belongs to the integer
    known = "|".join(re.escape(p) + (r"(?!\d)" if p == "; " else "") for p in phrases if len(p) > 1)
    pattern = rf"{known}| (?:1\d\d|\d\d|\d)(?!\d)|."
    tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern + "|\n"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
