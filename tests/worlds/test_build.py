"""Building a base model."""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from mcbench.worlds import build
from mcbench.worlds.build import BUILDS
from mcbench.worlds.nano import MODEL_NAMES


def test_build_is_deterministic_and_loads_like_any_model(tmp_path):
    torch.set_num_threads(1)
    lines: list[str] = []
    paths = [
        build.build("nano-s", tmp_path / str(i), seed=3, steps=2, progress=lines.append)
        for i in range(2)
    ]
    first, second = (AutoModelForCausalLM.from_pretrained(p, dtype=torch.float32) for p in paths)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)
    tokenizer = AutoTokenizer.from_pretrained(paths[0])
    assert (
        tokenizer.decode(tokenizer("x = int(input())\nprint( 12)").input_ids)
        == "x = int(input())\nprint( 12)"
    )
    assert tokenizer.padding_side == "left"
    assert first.generation_config.eos_token_id == tokenizer.eos_token_id
    assert "step 2/2" in lines[-1]


def test_labels_cover_the_response_only():
    ids, labels = next(build.batches(build.BUILDS["nano-s"], 0))
    answer = build.load_tokenizer()("\nAnswer:\n").input_ids[0]
    for row, target in zip(ids[:20], labels[:20], strict=True):
        start = int((row == answer).nonzero()[0]) + 1
        assert (target[:start] == build.IGNORE).all()
        kept = target != build.IGNORE
        assert torch.equal(target[kept], row[kept])


def test_every_model_has_a_build():
    assert set(BUILDS) == set(MODEL_NAMES)
