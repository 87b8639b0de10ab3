"""Durations as people read them; loads nothing, unlike the recorder that says them."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """``3:07`` or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
