"""Which of many parameters the quick set has."""

from collections.abc import Sequence
from typing import Any

import pytest


def every(nth: int, values: Sequence[Any]) -> list[Any]:
    """Each so many of them in the quick set, from the first on; all of them in the whole one."""
    rows = [one if isinstance(one, tuple) else (one,) for one in values]
    slow = pytest.mark.slow
    return [pytest.param(*row, marks=[slow] if i % nth else []) for i, row in enumerate(rows)]
