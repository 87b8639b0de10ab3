"""Order-insensitive comparison: can every expected item be paired with its own matching one?"""

from __future__ import annotations

from collections import defaultdict, deque
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
    return _perfect_matching(wanted, got, match)


def _perfect_matching(wanted: list[Any], got: list[Any], match: Match) -> bool:
    """Augmenting paths, breadth first, over the graph of matching pairs."""
    accepts = [[j for j, item in enumerate(got) if match(want, item)] for want in wanted]
    owner: dict[int, int] = {}  # of a got item: the wanted one it is paired with
    partner: dict[int, int] = {}  # and back
    for start in range(len(wanted)):
        came_from: dict[int, int] = {}
        end = _free_item(start, accepts, owner, came_from)
        if end is None:
            return False
        while end is not None:  # shift the pairs along the path
            new = came_from[end]
            previous = partner.get(new)
            owner[end], partner[new] = new, end
            end = previous
    return True


def _free_item(
    start: int, accepts: list[list[int]], owner: dict[int, int], came_from: dict[int, int]
) -> int | None:
    """A got item without a partner, reached from ``start``; the path is left in ``came_from``."""
    queue = deque([start])
    while queue:
        current = queue.popleft()
        for j in accepts[current]:
            if j in came_from:
                continue
            came_from[j] = current
            if j not in owner:
                return j
            queue.append(owner[j])
    return None
