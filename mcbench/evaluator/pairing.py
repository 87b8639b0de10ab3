"""Order-insensitive comparison: can every expected item be paired with its own matching one?

Theirs are only looked up among the shapes of ours, so the cost is near linear in the items, but
where many are alike in shape and near in numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

# A hashable shape, equal for items that match; it appends their numbers, which are close to each
# other in items that do: as many in all items of a shape.
Shape = Callable[[Any, list[float]], Any]
Match = Callable[[Any, Any], bool]
Near = Callable[[float, float], bool]
_Group = list[tuple[list[float], Any]]


def same_multiset(
    wanted: list[Any], got: list[Any], match: Match, shape: Shape, near: Near
) -> bool:
    """Whether every wanted item can be paired with its own matching one.

    Within a shape both sides are sorted by their numbers and paired in order, which finds the
    pairing of single numbers if there is one. Where items hold several numbers, each is tried with
    those of which one number is ``near``.
    """
    if len(wanted) != len(got):
        return False
    groups: dict[Any, tuple[_Group, _Group]] = {}
    for side, items in enumerate((wanted, got)):
        for item in items:
            numbers: list[float] = []
            key = shape(item, numbers)
            if side and key not in groups:
                return False
            groups.setdefault(key, ([], []))[side].append((numbers, item))
    if any(len(ours) != len(theirs) for ours, theirs in groups.values()):
        return False
    return all(_group_matches(ours, theirs, match, near) for ours, theirs in groups.values())


def _group_matches(ours: _Group, theirs: _Group, match: Match, near: Near) -> bool:
    for side in (ours, theirs):
        side.sort(key=lambda pair: pair[0])
    if all(match(want[1], have[1]) for want, have in zip(ours, theirs, strict=True)):
        return True
    return _all_paired(_candidates(ours, theirs, match, near))


def _candidates(ours: _Group, theirs: _Group, match: Match, near: Near) -> list[list[int]]:
    """For each of ours the places of those that match it.

    By the number that tells ours apart best: what is near to it is one run of theirs.
    """
    count = len(ours[0][0])
    by = max(range(count), key=lambda place: len({n[place] for n, _ in ours}), default=None)
    if by is not None:
        theirs.sort(key=lambda pair: pair[0][by])
    numbers = [] if by is None else [numbers[by] for numbers, _ in theirs]
    found = []
    for own, want in ours:
        run = range(len(theirs)) if by is None else _run(numbers, own[by], near)
        found.append([place for place in run if match(want, theirs[place][1])])
    return found


def _all_paired(candidates: list[list[int]]) -> bool:
    """Whether each of ours gets a place of its own: bipartite matching by augmenting paths."""
    owner: dict[int, int] = {}

    def finds_place(own: int, tried: set[int]) -> bool:
        for place in candidates[own]:
            if place not in tried:
                tried.add(place)
                if place not in owner or finds_place(owner[place], tried):
                    owner[place] = own
                    return True
        return False

    return all(finds_place(own, set()) for own in range(len(candidates)))


def _run(numbers: list[float], wanted: float, near: Near) -> range:
    """The places in sorted numbers of those near to the wanted one."""
    first = bisect_left(numbers, True, key=lambda n: n >= wanted or near(wanted, n))
    last = bisect_left(numbers, True, key=lambda n: n > wanted and not near(wanted, n))
    return range(first, last)
