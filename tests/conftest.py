"""A tiny random model that sometimes solves its problems, and the settings that train it."""

import json
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Minutes each, and a file stays with one process: begun last, they would run alone at the end.
LONGEST = [
    "dashboard/test_jupyterlab.py",
    "notebooks/test_notebooks.py",
    "scale/test_launch.py",
    "evaluator/test_forged.py",
    "runs/test_trend.py",
    "evaluator/test_machines.py",
    "ray_cluster/test_evaluator.py",
    "ray_cluster/test_sweep.py",
    "scale/test_gpus.py",
    "worlds/test_episodes.py",
]


def pytest_collection_modifyitems(config, items):
    """The longest files first, where several processes share the files."""
    if hasattr(config, "workerinput"):
        place = {TESTS / name: number for number, name in enumerate(LONGEST)}
        assert all(path.is_file() for path in place), "a file of LONGEST is gone"
        items.sort(key=lambda item: place.get(item.path, len(place)))


# What the tiny model learns to say: an empty program, which solves the problems, and two failures.
RESPONSES = ("```python\n```<eos>", "```python\nx\n```<eos>", "x\n" * 8)


PROMPTS = tuple(f"in {n} out {n}\nAnswer:\n" for n in range(6))


def _taught(path, responses, steps=60, prompts=PROMPTS):
    """A model in ``path`` that says each of the responses to the prompts now and then."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from mcbench.worlds.tokenizer import load_tokenizer

    tokenizer = load_tokenizer()
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, intermediate_size=32,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=256,
        bos_token_id=None, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(steps):
        text = prompts[step % len(prompts)] + responses[step % len(responses)]
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def committed():
    """All committed records, read once and not to be changed."""
    from mcbench.runs.records import read_records

    return read_records(TESTS.parent / "reports" / "records")


@pytest.fixture(scope="session")
def teach():
    return _taught


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Half a second of training makes it say each of RESPONSES now and then."""
    return _taught(tmp_path_factory.mktemp("model"), RESPONSES)


@pytest.fixture(scope="session")
def problem_file(tmp_path_factory):
    """Six problems that the empty program solves."""
    path = tmp_path_factory.mktemp("problems") / "problems.jsonl"
    rows = [
        {
            "id": f"p{n}", "statement": f"in {n} out {n}\nAnswer:\n", "form": "stdin",
            "difficulty": ("easy", "medium", "hard")[n % 3], "kind": "induced",
            "tests": [{"stdin": "1\n", "expected": ""}],
        }
        for n in range(6)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def tiny_settings(tiny_model, problem_file):
    """Settings of the profile ``tiny``."""
    return {
        "model": str(tiny_model),
        "train_set": str(problem_file),
        "test_set": str(problem_file),
        "temperature": 1.0,
        "max_completion_length": 12,
        "eval_lengths": [6, 12],
        "learning_rate": 0.003,
    }
