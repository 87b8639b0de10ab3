"""The base models of all tasks, by name; :mod:`mcbench.nano.build` trains them."""

from __future__ import annotations

from typing import Any

from mcbench.nano import build, search, tab, turns
from mcbench.nano.build import Build
from mcbench.tasks import branches, repair, traces

_FROM_S2: dict[str, Any] = {
    "hidden": 128,
    "layers": 3,
    "intermediate": 352,
    "style": None,
    "start": "nano-s2",
    "steps": 220,
    "batch_tokens": 2048,
    "lr": 4e-3,
}
_LONGER = {**_FROM_S2, "steps": 800}
BUILDS = {
    **build.BUILDS,
    "nano-branches": Build(
        **{**_FROM_S2, "steps": 150}, corpus=branches.demonstrations, phrases=branches.PHRASES
    ),
    "nano-repair": Build(**_FROM_S2, corpus=repair.demonstrations, phrases=repair.PHRASES),
    "nano-traced": Build(**_LONGER, corpus=traces.demonstrations, phrases=traces.PHRASES),
    "nano-untraced": Build(**_LONGER, corpus=traces.untraced, phrases=traces.PHRASES),
    "nano-turns": Build(**_FROM_S2, corpus=turns.demonstrations),
    "nano-search": Build(**_LONGER, corpus=search.demonstrations, phrases=search.PHRASES),
    "nano-tab": Build(
        hidden=64,
        layers=2,
        intermediate=176,
        style=None,
        steps=500,
        corpus=tab.demonstrations,
    ),
}
