"""The base models of all tasks, by name; :mod:`mcbench.nano.build` trains them."""

from __future__ import annotations

from typing import Any

from mcbench.nano import build
from mcbench.nano.build import Build
from mcbench.tasks import branches, repair, traces

_SMALL: dict[str, Any] = {"hidden": 128, "layers": 3, "intermediate": 352, "style": None}
BUILDS = {
    **build.BUILDS,
    "nano-branches": Build(
        **_SMALL,
        steps=150,
        lr=4e-3,
        batch_tokens=2048,
        corpus=branches.demonstrations,
        phrases=branches.PHRASES,
        start="nano-s2",
    ),
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
}
