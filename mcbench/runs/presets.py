"""Profiles: the scale at which a recipe is trained, as settings of :class:`mcbench.runs.Config`.

A profile says which model, data, lengths, batch, learning rate and backend; a recipe
(:data:`mcbench.grpo.RECIPES`) which algorithm. The same code runs all of them: only these numbers
differ. They stand in ``profiles.toml``.
"""

from __future__ import annotations

from typing import Any

from mcbench.files import rows_beside


def _profiles(rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each with what it has of the one that it is like; lists as tuples."""
    found: dict[str, dict[str, Any]] = {}
    for name, row in rows.items():
        like = row.pop("like", None)
        own = {key: tuple(one) if isinstance(one, list) else one for key, one in row.items()}
        found[name] = own if like is None else found[like] | own
    return {name: row for name, row in found.items() if not name.startswith("_")}


PROFILES = _profiles(rows_beside(__file__, "profiles.toml"))

EARLIER_MODELS = {"nano-traced": "ec7940fb6994afc0", "nano-untraced": "5f44f8935226f169"}
"""Digests of base models that other ones have replaced, which earlier runs are known by."""

# What T(D) aims at where an arm says "auto": the diversity that training converges to. Paper:
# 0.65-0.70 for the 4B model; on the nano models Distinct-4 ends near 0.4 (results experiment).
# and, over 480 unmasked updates, near 0.37 (pilots).
TARGET_DIVERSITY = {
    **dict.fromkeys(("nano", "nano-m", "nano-old", "tiny"), 0.4),
    **dict.fromkeys(
        ("nano-steady", "nano-stress", "nano-clip", "nano-steady-m", "nano-steady-old"), 0.37
    ),
}
PAPER_TARGET_DIVERSITY = 0.65

# What T(D) tries where an arm leaves both to the profile: none of the constant arms' temperatures.
TEMPERATURE_GRID = dict.fromkeys(
    ("nano-steady", "nano-stress"), (0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1.1)
)
