"""Progress in lines of text."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def say(line: str) -> None:
    """Print a progress line at once: plain text, so that it is visible in batch logs too."""
    print(line, flush=True)


def clock(seconds: float) -> str:
    """``3:07`` or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
