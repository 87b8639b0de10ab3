"""Errors addressed to people."""


class UserError(ValueError):
    """Wrong input. The message says what was wrong, what is allowed and what to do.

    The command line prints it without a traceback and exits with status 2. It is a ValueError, as
    TRL and transformers raise for a wrong setting, so that code written for them catches it.
    """


def unknown(what: str, given: object, allowed: object) -> UserError:
    """The error for a name that is not among the ``allowed`` ones."""
    names = ", ".join(sorted(map(str, allowed)))  # type: ignore[call-overload]
    return UserError(f"unknown {what} {given!r}; allowed: {names}")
