"""mcbench: a notebook-first workbench for reinforcement learning of code models."""

__version__ = "0.1.0"
