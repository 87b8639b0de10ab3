"""Order-insensitive comparison: can every expected item be paired with its own matching one?

The items that were got may be chosen to make this slow, so the cost is near linear in the items:
theirs are only looked up among the shapes of ours, and pairs are tried within a budget.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

# Numbers compared in pairs that are tried beyond the first order: so many, and so many for each
# number there is.
_TRIED, _TRIED_EACH = 4096, 2

# A hashable shape, equal for items that match, and numbers, close to each other in items that do:
# as many in all items of a shape.
Features = tuple[Any, tuple[float, ...]]
Match = Callable[[Any, Any], bool]
Near = Callable[[float, float], bool]
_Group = list[tuple[tuple[float, ...], Any]]


def same_multiset(
    wanted: list[Any],
    got: list[Any],
    match: Match,
    features: Callable[[Any], Features],
    near: Near,
) -> bool:
    """Whether every wanted item can be paired with its own matching one.

    Within a shape both sides are sorted by their numbers and paired in order, which finds the
    pairing of single numbers if there is one. Where items hold several numbers, each is tried with
    those of which one number is ``near``, within a budget.
    """
    if len(wanted) != len(got):
        return False
    groups: dict[Any, tuple[_Group, _Group]] = {}
    for item in wanted:
        shape, numbers = features(item)
        groups.setdefault(shape, ([], []))[0].append((numbers, item))
    for item in got:
        shape, numbers = features(item)
        if shape not in groups:
            return False
        groups[shape][1].append((numbers, item))
    if any(len(ours) != len(theirs) for ours, theirs in groups.values()):
        return False
    return all(_group_matches(ours, theirs, match, near) for ours, theirs in groups.values())


def _group_matches(ours: _Group, theirs: _Group, match: Match, near: Near) -> bool:
    for side in (ours, theirs):
        side.sort(key=lambda pair: pair[0])
    if all(match(want[1], have[1]) for want, have in zip(ours, theirs, strict=True)):
        return True
    candidates = _candidates(ours, theirs, match, near)
    if candidates is None:
        return False
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching  # heavy, and rarely needed

    rows = [row for row, found in enumerate(candidates) for _ in found]
    columns = [column for found in candidates for column in found]
    shape = (len(ours), len(theirs))
    accepts = csr_array(([True] * len(rows), (rows, columns)), shape=shape)
    return bool((maximum_bipartite_matching(accepts) >= 0).all())


def _candidates(ours: _Group, theirs: _Group, match: Match, near: Near) -> list[list[int]] | None:
    """For each of ours the places of those that match it; None if one has none, or it takes long.

    By the number that tells ours apart best: what is near to it is one run of theirs.
    """
    count = len(ours[0][0])
    by = max(range(count), key=lambda place: len({n[place] for n, _ in ours}), default=None)
    if by is not None:
        theirs.sort(key=lambda pair: pair[0][by])
    numbers = [] if by is None else [numbers[by] for numbers, _ in theirs]
    budget = _TRIED + _TRIED_EACH * len(ours) * (count + 1)
    found = []
    for own, want in ours:
        run = range(len(theirs)) if by is None else _run(numbers, own[by], near)
        budget -= len(run) * (count + 1)
        if budget < 0:
            return None
        found.append([place for place in run if match(want, theirs[place][1])])
        if not found[-1]:
            return None
    return found


def _run(numbers: list[float], wanted: float, near: Near) -> range:
    """The places in sorted numbers of those near to the wanted one."""
    first = last = bisect_left(numbers, wanted)
    while first > 0 and near(wanted, numbers[first - 1]):
        first -= 1
    while last < len(numbers) and near(wanted, numbers[last]):
        last += 1
    return range(first, last)
