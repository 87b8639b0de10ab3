"""The base models of all tasks, by name; :mod:`mcbench.nano.build` trains them."""

from __future__ import annotations

from typing import Any

from mcbench.nano import build
from mcbench.nano.build import Build
from mcbench.nano.tab import Suggesting
from mcbench.nano.turns import Turns
from mcbench.tasks import repair, traces

_SMALL: dict[str, Any] = {"hidden": 128, "layers": 3, "intermediate": 352, "style": None}
BUILDS = {
    **build.BUILDS,
    "nano-repair": Build(
        **_SMALL,
        steps=500,
        lr=4e-3,
        corpus=repair.demonstrations,
        phrases=repair.PHRASES,
        start="nano-s2",
    ),
    "nano-traced": Build(
        **_SMALL,
        steps=400,
        lr=4e-3,
        corpus=traces.demonstrations,
        phrases=traces.PHRASES,
        start="nano-s2",
    ),
    "nano-untraced": Build(
        **_SMALL,
        steps=400,
        lr=4e-3,
        corpus=traces.untraced,
        phrases=traces.PHRASES,
        start="nano-s2",
    ),
    "nano-turns": Build(
        **_SMALL, steps=150, lr=3e-3, corpus=Turns().demonstrations, start="nano-s2"
    ),
    "nano-tab": Build(
        **{**_SMALL, "hidden": 64, "layers": 2, "intermediate": 176},
        steps=500,
        corpus=Suggesting().demonstrations,
    ),
}
