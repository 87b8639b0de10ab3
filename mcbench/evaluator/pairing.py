"""Order-insensitive comparison: can every expected item be paired with its own matching one?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

MAX_PAIRED = 500  # alike items for which every pairing is considered

# A hashable shape, equal for items that match, and numbers, close to each other in items that do.
Features = tuple[Any, tuple[float, ...]]
Match = Callable[[Any, Any], bool]


def same_multiset(
    wanted: list[Any], got: list[Any], match: Match, features: Callable[[Any], Features]
) -> bool:
    """Whether every wanted item can be paired with its own matching one.

    Within a shape both sides are sorted by their numbers and paired in order, which finds the
    pairing of single numbers if there is one. Where items hold several numbers, up to MAX_PAIRED
    items of a shape every other pairing is considered too.
    """
    if len(wanted) != len(got):
        return False
    groups: dict[Any, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, items in enumerate((wanted, got)):
        for item in items:
            shape, numbers = features(item)
            groups[shape][side].append((numbers, item))
    if any(len(ours) != len(theirs) for ours, theirs in groups.values()):
        return False
    return all(_group_matches(ours, theirs, match) for ours, theirs in groups.values())


def _group_matches(
    ours: list[tuple[tuple[float, ...], Any]],
    theirs: list[tuple[tuple[float, ...], Any]],
    match: Match,
) -> bool:
    wanted, got = ([i for _, i in sorted(side, key=lambda s: s[0])] for side in (ours, theirs))
    unpaired = next((k for k, p in enumerate(zip(wanted, got, strict=True)) if not match(*p)), None)
    if unpaired is None:
        return True
    if len(wanted) > MAX_PAIRED or not any(match(wanted[unpaired], item) for item in got):
        return False
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching  # heavy, and rarely needed

    accepts = csr_array([[match(want, item) for item in got] for want in wanted])
    return bool((maximum_bipartite_matching(accepts) >= 0).all())
