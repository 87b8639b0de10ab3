"""The tables of docs/protocol.md, from the code that decides: margins, claims and their rules.

python benchmarks/protocol.py            says whether the page agrees with the code
python benchmarks/protocol.py --write    and puts the tables into it
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from mcbench.claims import CLAIMS, protocol, round_2
from mcbench.claims.claim import Claim
from mcbench.claims.margins import MARGINS
from mcbench.experiments.experiments import EXPERIMENTS, REGISTERED, ROUND_2, planned_runs
from mcbench.grpo.recipes import RECIPES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / protocol.FILE
RATES = ROOT / "benchmarks" / "claim_rates.json"
POWER = ROOT / "benchmarks" / "round_2.json"


def margins() -> str:
    """Every measure's margin and the reason for it."""
    rows = [f"| {unit} | {one.value:g} | {one.reason} |" for unit, one in MARGINS.items()]
    return "\n".join(["| unit | margin | measure and reason |", "|---|---|---|", *rows])


def claims(whose: str) -> str:
    """Every claim with its arms and what is measured."""
    rows = [_row(one) for one in CLAIMS.values() if one.whose == whose]
    heads = "| id | experiment | claim | arms | measured |\n|---|---|---|---|---|"
    return "\n".join([heads, *rows])


def _row(one: Claim) -> str:
    rule = one.measured.replace("``", "")
    arms = ", ".join(one.arms) or "measurements"
    told = f"{one.claim} ({one.source})" if one.whose in ("rival", "landscape") else one.claim
    return f"| {one.id} | {one.experiment} | {told} | {arms} | {rule} |"


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


def recipes() -> str:
    """What the paper leaves open in its three recipes, and what is chosen."""
    rows: dict[str, tuple[str, str]] = {}
    for name in ("grpo", "grpo_plus", "microcoder"):
        recipe = RECIPES[name]
        for setting, why in recipe.open_choices.items():
            rows.setdefault(setting, (str(recipe.args()[setting]), why))
    lines = [f"| `{name}` | {value} | {why} |" for name, (value, why) in rows.items()]
    return "\n".join(["| setting | here | why |", "|---|---|---|", *lines])


def hypotheses() -> str:
    """The family of round 2."""
    heads = "| id | says | primary (points) | seeds | predicted by | asks again |"
    return "\n".join([heads, "|---|---|---|---|---|---|", *map(_hypothesis, round_2.HYPOTHESES)])


def _hypothesis(one: round_2.Hypothesis) -> str:
    what = "fall" if one.statistic is round_2.fall else "end"
    terms = " ".join(f"{weight:+g} {arm}" for arm, weight in one.weights.items())
    asks = ", ".join(one.asks) or "–"
    primary = f"{what}: {terms}; {one.predicts}"
    seeds = f"{one.seeds[0]} to {one.seeds[-1]}"
    return f"| {one.id} | {one.says} | {primary} | {seeds} | {one.why} | {asks} |"


def beside() -> str:
    """What round 2 tells beside its family."""
    rows = [f"| {one.id} | {one.says} | {one.why} |" for one in round_2.BESIDE]
    return "\n".join(["| contrast | what | why |", "|---|---|---|", *rows])


def blocks() -> str:
    """What round 2 trains, in this order."""
    seen: set[str] = set()
    rows = []
    for name, block in ROUND_2.items():
        runs = {one.config.run_id for one in planned_runs(name)}
        rows.append(
            f"| `{name}` | {block.profiles[0]} | {', '.join(block.arms)} | {len(runs - seen)} |"
        )
        seen |= runs
    heads = "| `mcbench sweep` | profile | arms | new runs |\n|---|---|---|---|"
    return "\n".join([heads, *rows, f"| all | | | {len(seen)} |"])


def registered() -> str:
    """What is registered since, and how many runs that is."""
    rows = []
    for name in REGISTERED:
        one, runs = EXPERIMENTS[name], [run.config for run in planned_runs(name)]
        steps = ", ".join(map(str, sorted({config.steps for config in runs})))
        count = len({config.run_id for config in runs})
        told = f"{', '.join(one.profiles)} | {', '.join(one.arms)}"
        rows.append(f"| `{name}` | {told} | {count} | {steps} |")
    heads = "| `mcbench sweep` | profile | arms | runs | updates |\n|---|---|---|---|---|"
    return "\n".join([heads, *rows])


def not_testable() -> str:
    """What the nano world cannot decide."""
    rows = [f"| {name} | {why} |" for name, why in round_2.NOT_TESTABLE.items()]
    return "\n".join(["| claim | why |", "|---|---|", *rows])


def power() -> str:
    """What round 2 can decide, as simulated (benchmarks/round_2.py)."""
    found = json.loads(POWER.read_text())
    names = ["seeds", "sd over seeds", "sd over features", "round 1", "false", "power", "80 %"]
    rows = [
        f"| {one} | " + " | ".join("–" if row[n] is None else str(row[n]) for n in names) + " |"
        for one, row in found["hypotheses"].items()
    ]
    errors = found["family"]
    told = (
        f"Of {found['draws']} families in which nothing is true {errors['a difference']} % say "
        f"that something is; of as many in which every difference is as large as the margin "
        f"{errors['no difference']} % say that some is none."
    )
    heads = f"| id | {' | '.join(names)} |\n|---|{'---|' * len(names)}"
    return "\n".join([heads, *rows, "", told])


def second_rates() -> str:
    """How often the rule of round 2 for claims of several parts errs."""
    found = json.loads(RATES.read_text())["second"]
    kinds = list(found["1 parts"])
    rows = [
        f"| {n} | " + " | ".join(f"{row[k]:.1f}" for k in kinds) + " |" for n, row in found.items()
    ]
    return "\n".join([f"| claim of | {' | '.join(kinds)} |", f"|---|{'---|' * len(kinds)}", *rows])


TABLES = {
    "second rates": second_rates,
    "recipes": recipes,
    "hypotheses": hypotheses,
    "beside": beside,
    "blocks": blocks,
    "registered": registered,
    "not testable": not_testable,
    "power": power,
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
