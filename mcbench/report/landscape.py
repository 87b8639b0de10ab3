"""The index's section on other systems: what each adds, and what it showed on its nano task."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mcbench.claims import CLAIMS
from mcbench.files import rows_beside
from mcbench.report.claims import Results, numbers, place_of
from mcbench.report.page import Link, Section, Table
from mcbench.report.paper import OTHERS


@dataclass(frozen=True)
class System:
    """A published system: what it adds, the claims that say so here, and its source where
    :data:`mcbench.report.paper.OTHERS` has none.
    """

    name: str
    adds: str
    claims: tuple[str, ...]
    source: str = ""

    @property
    def where(self) -> Link | str:
        """Its source, as a link where it has an address."""
        url = OTHERS.get(self.name)
        return Link(url.removeprefix("https://"), url) if url else self.source


SYSTEMS = tuple(
    System(**{**row, "claims": tuple(row["claims"])})
    for row in rows_beside(__file__, "systems.toml")["system"]
)


def landscape_section(results: Results) -> Section:
    """A row for every system and claim, with the state that the committed runs give it."""
    rows = []
    for system in SYSTEMS:
        for name in system.claims:
            claim = CLAIMS[name]
            found = results.get(name)
            told = {"State": found.state if found else "not run"}
            if found and found.parts:
                told |= numbers(found.effect, *found.interval, found.unit)
            rows.append(
                {
                    "System": system.name,
                    "Source": system.where,
                    "Adds": system.adds,
                    "Claim": Link(f"{name}: {claim.claim}", place_of(claim)),
                    **told,
                    "Seeds": str(found.n_seeds) if found else "–",
                    "Differs from the original": claim.differs,
                    "How the original is known": claim.original,
                }
            )
    return Section(
        "landscape",
        "The landscape",
        "Other systems' tasks and rewards, each on a small task of the same generator, beside a "
        "control that could beat it.",
        [Table(pd.DataFrame(rows), fold="Every system, its claims and what became of them")],
    )
