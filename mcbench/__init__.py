"""mcbench: a notebook-first workbench for reinforcement learning of code models.

``compare`` trains arms and compares them; everything else is imported from its sub-package
(``mcbench.grpo``, ``mcbench.evaluator``, ...).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcbench.version import __version__

if TYPE_CHECKING:
    from mcbench.comparison import compare

__all__ = ["__version__", "compare"]


def __getattr__(name: str) -> Any:
    """``compare`` on first use: it loads plotting and the trainer's configuration."""
    if name == "compare":
        from mcbench.comparison import compare

        return compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
