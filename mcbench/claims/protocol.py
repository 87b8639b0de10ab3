"""Which seeds verdicts rest on, as ``docs/protocol.md`` says.

Seeds of the protocol count alone where there are any of them. Runs of other seeds stay readable:
those that somebody had looked at before the protocol are its first round, anyone's own are their
own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from mcbench.claims.measurements import Measurements
from mcbench.files import rows_beside
from mcbench.runs.store import RunRecord

FILE = "docs/protocol.md"
_FIRST = rows_beside(__file__, "protocol.toml")["first_round"]
SEEDS = tuple(range(10, 22))
"""Of every arm; no verdict of the protocol with fewer."""
MAP_SEEDS = (30, 31, 32)
"""Of every cell of a map (``where_it_holds``) and of ``recipes``. No claim of the paper's, its
rivals' or ours rests on them."""
ROUND_2_SEEDS, ROUND_2_EVALUATOR = tuple(range(40, 64)), tuple(range(40, 76))
"""Of round 2, fixed before its runs: of every arm, and of the two evaluators."""
RETRAINED = tuple(range(50, 55))
"""Of the arms that are trained again with their originals' functions, and of self-play; round 2's
have other settings, so that no run is in both."""
FIRST_ROUND = tuple(_FIRST["seeds"])
BEGAN: float = _FIRST["until"].timestamp()
"""After the first round's runs, before the protocol's; seconds since 1970."""
PROTOCOL, ELSEWHERE = "protocol", "seeds of the protocol"
"""What a basis begins with, and what it is at another profile or length than the protocol names."""

Of = TypeVar("Of")


def counted(by_seed: Mapping[int, Of]) -> dict[int, Of]:
    """What counts of an arm's runs: those of the protocol's seeds, where there are any."""
    fresh = {seed: one for seed, one in by_seed.items() if seed in SEEDS}
    return fresh or dict(by_seed)


def counted_rows(rows: Measurements) -> list[Mapping[str, Any]]:
    """The same for measurements, by kind and experiment; those without a seed all count."""

    def of(row: Mapping[str, Any]) -> tuple[Any, Any]:
        return row["kind"], row.get("experiment")

    fresh = {of(row) for row in rows if row.get("seed") in SEEDS}
    return [
        row for row in rows if "seed" not in row or row["seed"] in SEEDS or of(row) not in fresh
    ]


def needed(seeds: Collection[int], usual: int) -> int:
    """How many seeds a decision needs: all of the protocol's, once its seeds are used."""
    return len(SEEDS) if usual and seeds and set(seeds) <= set(SEEDS) else usual


def of_first_round(records: Iterable[RunRecord]) -> bool:
    """Whether runs are all of the first round: of its seeds, and begun before the protocol's."""
    found = {(one.seed in FIRST_ROUND, one.meta.get("started", BEGAN) < BEGAN) for one in records}
    return found == {(True, True)}


def basis(seeds: Collection[int], deciding: bool = True) -> str:
    """What a set of seeds is to the protocol, for people; empty where they are anyone's own.

    Args:
        deciding: whether the runs are at the profile, and as long, as the protocol says.
    """
    used = set(seeds)
    if not used:
        return ""
    if used <= set(SEEDS):
        if not deciding:
            return ELSEWHERE
        done = used == set(SEEDS)
        return PROTOCOL if done else f"{PROTOCOL}, {len(used)} of {len(SEEDS)} seeds"
    return "first round" if used <= set(FIRST_ROUND) else ""
