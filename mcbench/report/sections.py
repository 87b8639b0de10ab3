"""What the pages of the experiments say: ``sections.toml``, one entry an experiment."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from mcbench.report.panels import PANELS


@dataclass(frozen=True)
class Part:
    """A section of a page: panels by name, each with what the paper claims about it, or nothing;
    ``every_size`` repeats it for every size of model.
    """

    id: str
    title: str
    prose: str
    panels: Mapping[str, str]
    every_size: bool = False


@dataclass(frozen=True)
class Prose:
    """What a page says.

    Attributes:
        figure: of the paper, such as ``Figure 2``; empty where it has none.
        measured: what is measured here, in a sentence or two.
        styles: how arms are drawn (:data:`mcbench.report.style.KNOWN`) where their own name says
            something else.
        summed: whether the headline is what the arms end at, not the states of claims.
        known: what is known of round 1 since, beside the states that it gave: what was compared
            and where it departs from the paper.
    """

    title: str
    parts: Sequence[Part] = ()
    figure: str = ""
    measured: str = ""
    styles: Mapping[str, str] = field(default_factory=dict)
    summed: bool = False
    known: str = ""


def _read() -> dict[str, Prose]:
    found = tomllib.loads((files("mcbench.report") / "sections.toml").read_text(encoding="utf-8"))
    shared = found.pop("shared")

    def part(prose: str, panels: dict[str, str], all_panels: bool = False, **given: Any) -> Part:
        prose = prose.format(**shared).format(**shared)  # one shared text names another
        every = dict.fromkeys(PANELS, "") if all_panels else {}
        return Part(prose=prose, panels={**every, **panels}, **given)

    for given in found.values():
        given["known"] = given.get("known", "").format(**shared)
    return {
        name: Prose(**{**given, "parts": [part(**{"panels": {}, **one}) for one in given["parts"]]})
        for name, given in ((name, {"parts": [], **one}) for name, one in found.items())
    }


SECTIONS = _read()
"""By experiment; the pages stand under the names of their notebooks. ``comparison`` is that of arms
of one's own and of any runs; what is shown on the pages of others has no text, and may name arms.
"""
