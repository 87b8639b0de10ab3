"""The nano world: problems, tokenizer and base models that run on two CPU cores, no download.

A mechanism test bed for the algorithms; it is no evidence about Qwen3 or any other large model.
"""

from __future__ import annotations

from pathlib import Path

from mcbench.errors import UserError, unknown
from mcbench.files import rows_beside

BUILDS = rows_beside(__file__, "builds.toml")
"""How each base model is made, as :class:`mcbench.worlds.build.Build` has it."""
MODEL_NAMES = tuple(BUILDS)


def check_name(name: str) -> None:
    """Refuse the name of no base model."""
    if name not in BUILDS:
        raise unknown("nano model", name, BUILDS)


def model_path(name: str) -> Path:
    """The directory of a committed base model, for ``from_pretrained``.

    Raises:
        UserError: an unknown name, or the model is not there (with the command that builds it).
    """
    check_name(name)
    path = Path(__file__).parent / "models" / name
    if not (path / "model.safetensors").is_file():
        raise UserError(f"{path} holds no model; build it with: mcbench nano build {name}")
    return path
