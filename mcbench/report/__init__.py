"""Run records as figures, tables and self-contained HTML pages; the live dashboard.

Everything but the dashboard, and :mod:`.explain`, which trains a generation, is a pure function of
run records: the same records give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcbench.report.dashboard import Dashboard

__all__ = ["Dashboard"]


def __getattr__(name: str) -> Any:
    """``Dashboard`` on first use: pages are made without loading widgets."""
    if name == "Dashboard":
        from mcbench.report.dashboard import Dashboard

        return Dashboard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
