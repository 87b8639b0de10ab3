"""Settings whose mistakes are told to people: pydantic models that raise `UserError`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mcbench.errors import UserError, unknown
from mcbench.files import json_or_text, plain

Share = Annotated[float, Field(ge=0, le=1)]
"""A number between 0 and 1."""


class Settings(BaseModel):
    """A frozen model with strict types; unknown fields, infinities and NaN are refused.

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
        """Settings from nested YAML or JSON data; lists may stand for tuples.

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

    @model_validator(mode="after")
    def _finite(self) -> Self:
        for name, value in self:
            if not _is_finite(value):
                raise UserError(f"{name} must be finite, got {value!r:.60}")
        return self

    def to_text(self) -> str:
        """Strict JSON for another process: :func:`mcbench.files.read_data` gives each value back,
        None too, which need not be a field's default.
        """
        return json.dumps(plain(self.model_dump()), allow_nan=False)

    @classmethod
    def typed(cls, name: str, text: str) -> Any:
        """What a person means who types a text for a field: JSON, or else that text; a number, true
        or null is text, too, for a field that takes texts and no such value.
        """
        found, kinds = json_or_text(text), _kinds(cls._forms(name))
        kind = "null" if found is None else "number" if isinstance(found, (int, float)) else ""
        return text if kind and kind not in kinds and "string" in kinds else found

    @classmethod
    def with_numbers(cls, name: str, value: Any) -> Any:
        """A value in which texts that are numbers in JSON are these, where the field takes numbers
        and no texts: 5e-5 is a text in YAML 1.1, which papermill reads. Tuples become lists.
        """
        return _with_numbers(value, cls._forms(name))

    def changed(self, **values: Any) -> Self:
        """A copy with some values replaced, checked like new ones."""
        return type(self)(**{**dict(self), **values})

    @classmethod
    def _unknown(cls, name: str) -> UserError:
        """The error for a field that does not exist."""
        return unknown("field", name, cls.model_fields)

    @classmethod
    def _forms(cls, name: str) -> list[dict[str, Any]]:
        """What a field may be, as JSON schemas; none for an unknown field."""
        return _alternatives(schemas(cls).get(name, {}))

    @classmethod
    def _bounds(cls, name: str) -> tuple[float, float] | None:
        """The least and the largest value of a field that has both."""
        for one in cls._forms(name):
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
    return value


def _is_finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@cache
def schemas(model: type[Settings]) -> dict[str, Any]:
    """The JSON schema of each field."""
    return dict(model.model_json_schema()["properties"])


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return list(schema.get("anyOf", [schema]))


def _kinds(forms: Sequence[dict[str, Any]]) -> set[str]:
    return {form["type"] for form in forms if "type" in form}


def _with_numbers(value: Any, forms: Sequence[dict[str, Any]]) -> Any:
    if isinstance(value, (list, tuple)):
        items = [one for form in forms for one in (form.get("items"), *form.get("prefixItems", ()))]
        inner = [form for item in items if item for form in _alternatives(item)]
        return [_with_numbers(item, inner) for item in value]
    kinds = _kinds(forms)
    if isinstance(value, str) and kinds & {"number", "integer"} and "string" not in kinds:
        found = json_or_text(value)
        return found if type(found) in (int, float) else value
    return value
