"""All claims by id: the paper's in the order of its sections, its rivals', ours, the landscape's.

They are the rows of four files beside this one, ``paper.toml``, ``rivals.toml``, ``questions.toml``
and ``landscape.toml``; ``docs/claims.md`` says what a row holds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mcbench.claims import in_code
from mcbench.claims.claim import WHOSE, Claim
from mcbench.claims.contrast import Contrast
from mcbench.errors import UserError, unknown

TABLES = ("paper", "rivals", "questions", "landscape")
KEYS = ({one.name for one in fields(Claim)} - {"id", "contrasts"}) | {"parts"}


def read_claims(path: str | Path) -> dict[str, Claim]:
    """The claims of a table of one's own, by id; what a section says holds for all of its rows.

    Raises:
        UserError: a file that cannot be read, a row that is no claim, or one with an id of ours; it
            is named.
    """
    found = claims_in(Path(path))
    for name in found:
        if name in OURS:
            raise UserError(f"claim {name} of {path}: there is one of this id already")
    return found


def claims_in(path: Path) -> dict[str, Claim]:
    """The claims of any table, by id.

    Raises:
        UserError: as :func:`read_claims`, whatever their ids.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} is no table of claims: {error}") from error
    of_all = {name: one for name, one in table.items() if not isinstance(one, dict)}
    found = {}
    for section, body in table.items():
        if isinstance(body, dict):
            shared = {name: one for name, one in body.items() if not isinstance(one, dict)}
            for name, row in body.items():
                if isinstance(row, dict):
                    row = {"section": section, **of_all, **shared, **row}
                    found[name] = _claim(name, row)
    return found


def _claim(name: str, row: Mapping[str, Any]) -> Claim:
    for key in row:
        if key not in KEYS:
            raise unknown(f"key of claim {name}", key, KEYS)
    if row.get("whose", "paper") not in WHOSE:
        raise unknown(f"whose of claim {name}", row["whose"], WHOSE)
    if missing := {"claim", "arms", "experiment"} - row.keys():
        raise UserError(f"claim {name} has no {', '.join(sorted(missing))}")
    own = {key: one for key, one in row.items() if key not in ("parts", "arms", "code")}
    if "code" in row and row["code"] not in in_code.PARTS:
        raise unknown(f"code of claim {name}", row["code"], in_code.PARTS)
    if not isinstance(row.get("seeds", 0), int):
        raise UserError(f"claim {name}: seeds must be a whole number, got {row['seeds']!r}")
    code = in_code.PARTS.get(row.get("code", ""))
    try:
        contrasts = tuple(
            Contrast(measure, said, formula, tuple(flags))
            for measure, said, formula, *flags in row.get("parts", ())
        )
        return Claim(name, arms=tuple(row["arms"]), contrasts=contrasts, code=code, **own)
    except UserError as error:
        raise UserError(f"claim {name}: {error}") from None
    except (ValueError, TypeError):
        raise UserError(
            f"claim {name}: a part is a measure, what it says, a formula, and any flags"
        ) from None


CLAIMS: dict[str, Claim] = {
    name: one
    for table in TABLES
    for name, one in claims_in(Path(__file__).with_name(f"{table}.toml")).items()
}
OURS = frozenset(CLAIMS)
"""The ids of the tables that come with this package."""


def claims_of(experiment: str) -> list[Claim]:
    """The claims that the runs of an experiment decide."""
    return [one for one in CLAIMS.values() if one.experiment == experiment]


def arms_elsewhere(experiment: str) -> list[str]:
    """The arms of other experiments, as ``home/arm``, that claims on this one need."""
    arms = [arm for one in claims_of(experiment) for arm in one.arms if "/" in arm]
    return list(dict.fromkeys(arms))
