"""Errors addressed to people."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UserError(ValueError):
    """Wrong input. The message says what was wrong, what is allowed and what to do.

    The command line prints it without a traceback and exits with status 2. It is a ValueError, as
    TRL and transformers raise for a wrong setting, so that code written for them catches it.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook: the message alone, there too."""
        return [f"UserError: {self}"]


class FailedError(Exception):
    """What was asked for ran and did not succeed; the message says how.

    The command line prints it without a traceback and exits with status 1.
    """


def unknown(what: str, given: object, allowed: Iterable[object]) -> UserError:
    """The error for a name that is not among the ``allowed`` ones, with the ones it resembles."""
    names = sorted(map(str, allowed))
    hint = meant(near(str(given), names))
    return UserError(f"unknown {what} {given!r}{hint}; allowed: {', '.join(names)}")


def near(given: str, names: Iterable[str]) -> list[str]:
    """The name that a given one resembles most, and another that it resembles nearly as much."""
    found = difflib.get_close_matches(given, list(names), n=2)
    likeness = [difflib.SequenceMatcher(None, given, name).ratio() for name in found]
    return [name for name, one in zip(found, likeness, strict=True) if one > likeness[0] - 0.1]


def meant(alike: Sequence[str]) -> str:
    """``; did you mean mask_ratio?``, or nothing where no name is near."""
    return f"; did you mean {' or '.join(alike)}?" if alike else ""
