"""The tables of docs/protocol.md, from the code that decides: margins, claims and their rules.

python benchmarks/protocol.py            says whether the page agrees with the code
python benchmarks/protocol.py --write    and puts the tables into it
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from mcbench.claims import CLAIMS, protocol
from mcbench.claims.claim import Claim
from mcbench.claims.margins import MARGINS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / protocol.FILE
RATES = ROOT / "benchmarks" / "claim_rates.json"


def margins() -> str:
    """Every measure's margin and the reason for it."""
    rows = [f"| {unit} | {one.value:g} | {one.reason} |" for unit, one in MARGINS.items()]
    return "\n".join(["| unit | margin | measure and reason |", "|---|---|---|", *rows])


def claims(whose: str) -> str:
    """Every claim with its arms and what is measured; the docstring is the rule's text."""
    rows = [_row(one) for one in CLAIMS.values() if one.whose == whose]
    heads = "| id | experiment | claim | arms | measured |\n|---|---|---|---|---|"
    return "\n".join([heads, *rows])


def _row(one: Claim) -> str:
    rule = " ".join((one.statistic.__doc__ or "").replace("``", "").split())
    arms = ", ".join(one.arms) or "measurements"
    return f"| {one.id} | {one.experiment} | {one.told} | {arms} | {rule} |"


def rates() -> str:
    """How often the rules err, as simulated (benchmarks/claim_rates.py), in percent."""
    found = json.loads(RATES.read_text())
    names = ["covers", "supported", "contradicted", "no effect"]
    rows = [
        f"| {what} | " + " | ".join(f"{row[name]:.1f}" for name in names) + " |"
        for what, row in found["parts"].items()
    ]
    heads = f"| measure | {' | '.join(names)} |\n|---|{'---|' * len(names)}"
    several = [
        f"| {what} | " + " | ".join(f"{row[name]:.1f}" for name in row) + " |"
        for what, row in found["claims"].items()
    ]
    kinds = list(found["claims"]["1 parts"])
    second = f"| claim of | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}"
    return "\n".join([heads, *rows, "", second, *several])


TABLES = {
    "margins": margins,
    "claims": lambda: claims("paper"),
    "rivals": lambda: claims("rival"),
    "questions": lambda: claims("ours"),
    "rates": rates,
}


def filled(text: str) -> str:
    """The page with its tables as the code has them."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        made = f"{begin}\n{table()}\n{end}"
        text = re.sub(f"{begin}.*?{end}", lambda _, made=made: made, text, flags=re.DOTALL)
    return text


def main() -> None:
    """Compare, or write."""
    text = PAGE.read_text()
    wanted = filled(text)
    if "--write" in sys.argv:
        PAGE.write_text(wanted)
    elif text != wanted:
        sys.exit(f"{PAGE} does not agree with the code; python benchmarks/protocol.py --write")


if __name__ == "__main__":
    main()
