"""Problems that the empty program solves, and what makes the tiny profile shorter."""

import json

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Settings of the tiny profile: six problems, short responses."""
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
    return {
        "train_set": str(path),
        "test_set": str(path),
        "max_completion_length": 12,
        "eval_lengths": [6, 12],
        "eval_attempts": 1,
    }
