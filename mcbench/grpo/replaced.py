"""Attributes of an object for a while: how TRL is called with something of ours in a place of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, **attributes: Any) -> Iterator[None]:
    """For the block ``owner`` has these; behind it what it had itself, or again its class's.

    A method put on an object is asked in the place of the whole of its class: it sees what a
    subclass makes of it, where an override would see only what the classes below return.
    """
    own = vars(owner)
    before = {name: own[name] for name in attributes if name in own}
    own.update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            del own[name]
        own.update(before)
