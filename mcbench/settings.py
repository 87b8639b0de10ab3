"""Settings whose mistakes are told to people: pydantic models that raise `UserError`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mcbench.errors import UserError, unknown

Share = Annotated[float, Field(ge=0, le=1)]
"""A number between 0 and 1."""


class Settings(BaseModel):
    """A frozen model with strict types; unknown fields are refused.

    Raises:
        UserError: an unknown or missing field, or a value that does not fit; one line that names
            the field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._told(error) from None

    @classmethod
    def read(cls, data: Any, where: str) -> Self:
        """Settings from nested YAML or JSON data; lists may stand for tuples, dates for texts.

        Raises:
            UserError: as the class; the message starts with ``where``.
        """
        if not isinstance(data, Mapping):
            found = "nothing" if data is None else f"{type(data).__name__} {data!r:.40}"
            raise UserError(f"{where} must be a mapping of names to values, got {found}")
        try:
            return cls(**{str(name): _plain(value) for name, value in data.items()})
        except UserError as error:
            raise UserError(f"{where}: {error}") from None

    def changed(self, **values: Any) -> Self:
        """A copy with some values replaced, checked like new ones."""
        return type(self)(**{**dict(self), **values})

    @classmethod
    def _unknown(cls, name: str) -> UserError:
        """The error for a field that does not exist."""
        return unknown("field", name, cls.model_fields)

    @classmethod
    def _bounds(cls, name: str) -> tuple[float, float] | None:
        """The least and the largest value of a field that has both."""
        field = cls.model_json_schema()["properties"].get(name, {})
        for one in (field, *field.get("anyOf", ())):
            if "minimum" in one and "maximum" in one:
                return one["minimum"], one["maximum"]
        return None

    @classmethod
    def _told(cls, error: ValidationError) -> UserError:
        """pydantic's first complaint as a sentence for people."""
        first = error.errors(include_url=False)[0]
        kind, place = first["type"], first["loc"]
        if place[-1:] == ("[key]",):  # what is wrong is a name in a mapping
            place = place[:-2]
        name = ": ".join(part for part in place if isinstance(part, str))
        if kind == "missing":
            return UserError(f"{name!r} is missing")
        if kind == "extra_forbidden":
            return cls._unknown(name)
        if kind == "literal_error":
            return unknown(name, first["input"], re.findall(r"'([^']*)'", first["ctx"]["expected"]))
        if kind == "value_error":
            told = str(first["ctx"]["error"])
            return UserError(f"{name}: {told}" if name else told)
        if kind in ("greater_than_equal", "less_than_equal") and (both := cls._bounds(name)):
            return UserError(
                f"{name} must be from {both[0]:g} to {both[1]:g}, got {first['input']!r}"
            )
        wanted = "text" if kind == "string_type" else _KINDS.get(kind.partition("_")[0])
        told = f"must be {wanted}" if wanted else first["msg"].replace("Input should", "must")
        for theirs, ours in _COMPARED.items():
            told = told.replace(theirs, ours)
        return UserError(f"{name} {told}, got {first['input']!r:.60}")


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "tuple": "a list (in Python a tuple)",
    "list": "a list",
    "dict": "a mapping of names to values",
    "model": "a mapping of names to values",
}
_COMPARED = {"greater than or equal to": "at least", "less than or equal to": "at most"}


def ordered(*pairs: tuple[str, str]) -> Any:
    """A validator: of each pair of fields the second is at least the first, where both are set."""

    def check(settings: Settings) -> Settings:
        for low, high in pairs:
            least, most = getattr(settings, low), getattr(settings, high)
            if most is not None and least is not None and most < least:
                raise UserError(f"{high} must be at least {low}")
        return settings

    return model_validator(mode="after")(check)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return value.isoformat() if hasattr(value, "isoformat") else value
