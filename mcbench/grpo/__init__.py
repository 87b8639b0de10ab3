"""MicroCoder-GRPO: TRL's GRPO with a conditional truncation mask and diversity-chosen
temperature.

Names are loaded on first use: reports and dashboards ask for recipes only, and the trainer's
libraries take seconds and hundreds of megabytes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcbench.grpo.config import MicroCoderGRPOConfig as MicroCoderGRPOConfig
    from mcbench.grpo.generation import GenerationBatch as GenerationBatch
    from mcbench.grpo.recipes import RECIPES as RECIPES
    from mcbench.grpo.recipes import recipe as recipe
    from mcbench.grpo.trainer import MicroCoderGRPOTrainer as MicroCoderGRPOTrainer

_MODULES = {
    "RECIPES": "recipes",
    "GenerationBatch": "generation",
    "MicroCoderGRPOConfig": "config",
    "MicroCoderGRPOTrainer": "trainer",
    "recipe": "recipes",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """One of ``__all__``."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
