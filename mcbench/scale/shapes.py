"""Shapes of language models: parameters, arithmetic and bytes, without loading them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.runs.problems import model_location
from mcbench.smol.models import PACKAGED, converted_folder


@dataclass(frozen=True)
class ModelShape:
    """A decoder of the Qwen or Llama family; sizes as in its ``config.json``."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    qkv_bias: bool = False
    qk_norm: bool = True

    @property
    def query(self) -> int:
        """Width of all query heads."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Width of all key heads, and of all value heads."""
        return self.kv_heads * self.head_dim

    @property
    def layer_matmul_parameters(self) -> int:
        """Of one layer: the matrices that every token is multiplied with."""
        attention = self.hidden * (2 * self.query + 2 * self.key)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def matmul_parameters(self) -> int:
        """Of all layers and the head."""
        return self.layers * self.layer_matmul_parameters + self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All of them, norms and biases included."""
        # Qwen3 normalises queries and keys; the older generation has biases instead, Llama neither.
        extra = (self.query + 2 * self.key) * self.qkv_bias + 2 * self.head_dim * self.qk_norm
        per_layer = self.layer_matmul_parameters + 2 * self.hidden + extra
        embeddings = (1 if self.tied else 2) * self.vocab * self.hidden
        return self.layers * per_layer + embeddings + self.hidden

    def lora_parameters(self, rank: int) -> int:
        """Of adapters on all linear layers: rank x (inputs + outputs) each."""
        h, q, k, i = self.hidden, self.query, self.key, self.intermediate
        sides = (h + q) + 2 * (h + k) + (q + h) + 2 * (h + i) + (i + h)
        return self.layers * rank * sides

    def cache_values(self) -> int:
        """Numbers in the key-value cache for one token."""
        return 2 * self.layers * self.key

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ModelShape:
        """From the contents of ``config.json``.

        Raises:
            UserError: another architecture.
        """
        if config.get("model_type") not in ("qwen2", "qwen3", "llama"):
            raise UserError(
                f"the estimate knows models of type qwen2, qwen3 and llama, not "
                f"{config.get('model_type')!r}"
            )
        heads = config["num_attention_heads"]
        return cls(
            hidden=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=heads,
            kv_heads=config["num_key_value_heads"],
            head_dim=config.get("head_dim") or config["hidden_size"] // heads,
            intermediate=config["intermediate_size"],
            vocab=config["vocab_size"],
            tied=config["tie_word_embeddings"],
            qkv_bias=config["model_type"] == "qwen2",
            qk_norm=config["model_type"] == "qwen3",
        )


# As published with the models; a dry run must not need the network.
HUB_SHAPES: dict[str, ModelShape] = {
    "Qwen/Qwen3-1.7B": ModelShape(2048, 28, 16, 8, 128, 6144, 151936, tied=True),
    "Qwen/Qwen3-4B-Instruct-2507": ModelShape(2560, 36, 32, 8, 128, 9728, 151936, tied=True),
    "Qwen/Qwen2.5-7B-Instruct": ModelShape(
        3584, 28, 28, 4, 128, 18944, 152064, tied=False, qkv_bias=True, qk_norm=False
    ),
    **dict.fromkeys(
        ("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"),
        ModelShape(576, 30, 9, 3, 64, 1536, 49152, tied=True, qk_norm=False),
    ),
}


def shape_of(model: str) -> ModelShape:
    """The shape of a nano model, a directory, or one of the profiles' hub models.

    Raises:
        UserError: a hub model whose shape is not known here, or another architecture.
    """
    if model in HUB_SHAPES:
        return HUB_SHAPES[model]
    path = Path(model_location(model), "config.json")
    if not path.is_file():
        raise UserError(
            f"the shape of model {model!r} is not known without its files; download it and name "
            f"its directory, or use one of {', '.join(HUB_SHAPES)}"
        )
    return ModelShape.from_config(json.loads(path.read_text()))


def on_this_machine(model: str) -> bool:
    """Whether the files of a profile's hub model have been fetched, or a packaged one is converted;
    True of any other model.
    """
    if model in PACKAGED:
        return converted_folder(model).is_dir()
    from huggingface_hub import try_to_load_from_cache

    return model not in HUB_SHAPES or isinstance(try_to_load_from_cache(model, "config.json"), str)


def random_model(shape: ModelShape) -> Any:
    """A Qwen3 of this shape with random weights in bf16, of which no response ends by itself."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    config = Qwen3Config(
        vocab_size=shape.vocab, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, head_dim=shape.head_dim,
        num_key_value_heads=shape.kv_heads, tie_word_embeddings=shape.tied, bos_token_id=None,
        eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
