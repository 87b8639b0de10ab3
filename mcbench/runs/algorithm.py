"""The settings of the algorithm, made from what its options declare (:mod:`mcbench.grpo.options`).

A new option of the trainer is declared there and used in the trainer; that a run can set it, its
checks, its place in documents, forms and run ids follow.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import Field, create_model

from mcbench.grpo.options import ABOUT, About, Options
from mcbench.settings import Settings


def algorithm_fields() -> dict[str, Any]:
    """pydantic's definition of a field for every option that belongs to a family of settings."""
    hints = get_type_hints(Options)
    return {
        name: (_kind(hints[name], about), _field(about))
        for name, about in ABOUT.items()
        if about.family
    }


def _field(about: About) -> Any:
    extra: dict[str, Any] = {"family": about.family, "part": "algorithm"}
    return Field(about.run, description=about.help, json_schema_extra=extra)


def _kind(hint: Any, about: About) -> Any:
    """The type of a setting; None, too, unless a run has a value of its own for what is not said.
    Stages as text are lists by then.
    """
    kinds = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
    kinds -= {NoneType}
    if len(kinds) > 1:
        kinds -= {str}
    (kind,) = kinds
    if about.among:
        kind = Literal[about.among]
    elif about.is_number:
        kind = Annotated[kind, Field(ge=about.low, gt=about.above, le=about.high)]
    return kind if about.run is not None else kind | None


if TYPE_CHECKING:

    class Algorithm(Settings):
        """The generated fields, of which a type checker knows the trainer's declaration."""

        def __getattr__(self, name: str) -> Any: ...

else:
    Algorithm = create_model(
        "Algorithm",
        __base__=Settings,
        __module__=__name__,
        **algorithm_fields(),
    )
