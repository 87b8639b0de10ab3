"""MicroCoder-GRPO: TRL's GRPO with a conditional truncation mask and diversity-chosen
temperature.
"""

from mcbench.grpo.batch_plan import BatchPlan
from mcbench.grpo.config import MicroCoderGRPOConfig
from mcbench.grpo.generation import GenerationBatch
from mcbench.grpo.recipes import RECIPES, Recipe, recipe
from mcbench.grpo.temperature import Choice, select_temperature
from mcbench.grpo.trainer import MicroCoderGRPOTrainer

__all__ = [
    "RECIPES",
    "BatchPlan",
    "Choice",
    "GenerationBatch",
    "MicroCoderGRPOConfig",
    "MicroCoderGRPOTrainer",
    "Recipe",
    "recipe",
    "select_temperature",
]
