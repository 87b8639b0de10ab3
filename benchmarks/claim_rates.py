"""How often the rules of the claims err, simulated with the scatter of the committed records.

For every measure: the scatter of real runs (over seeds within their arm; of pass@1 also what single
problems add) is put around a known difference of two arms, with the protocol's seeds, problems and
attempts, and judged by :mod:`mcbench.claims.rules`. Counted are

- ``covers``: the 95 % interval holds the true difference;
- ``supported`` and ``contradicted`` where the difference is 0;
- ``no effect`` where the difference is as large as the margin, which is the hardest case.

Claims of several parts are judged as a whole, with parts that hang together as those of one run do.

    python benchmarks/claim_rates.py            prints the table
    python benchmarks/claim_rates.py --write    and keeps those of round 2's rule in
                                                benchmarks/claim_rates.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcbench.claims import rules
from mcbench.claims.curves import DIVERSITY, ENTROPY, LENGTH, REWARD, UNIQUE, run_curves
from mcbench.claims.evidence import Part
from mcbench.claims.margins import DISTINCT, MARGINS, NATS, POINTS, PROGRAMS, TOKENS
from mcbench.claims.protocol import SEEDS
from mcbench.claims.statistics import estimate, last_window, paired_difference
from mcbench.files import write_json
from mcbench.runs.compact import read_compact
from mcbench.runs.store import RunRecord

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).with_suffix(".json")
PROBLEMS, ATTEMPTS = 240, 2
LOGGED = {
    REWARD: (POINTS, 100.0),
    LENGTH: (TOKENS, 1.0),
    DIVERSITY: (DISTINCT, 1.0),
    UNIQUE: (PROGRAMS, 1.0),
    ENTROPY: (NATS, 1.0),
}
PARTS = (1, 2, 4)
APART = 8.0  # points by which single problems differ between arms, where they are made to
SHARED = 0.5  # correlation of the parts of one claim


def by_computation(records: list[RunRecord]) -> list[list[RunRecord]]:
    """Runs of one configuration, of which there are at least three seeds."""
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        found.setdefault(record.config.computation, []).append(record)
    return [runs for runs in found.values() if len(runs) >= 3]


def residuals(groups: list[np.ndarray]) -> np.ndarray:
    """Deviations from the mean of each group, in the scale of a single run."""
    return np.concatenate(
        [(one - one.mean()) * np.sqrt(len(one) / (len(one) - 1)) for one in groups]
    )


def problem_scatter(groups: list[list[np.ndarray]]) -> float:
    """SD over problems of what two computations differ by, in points, less what answers scatter.

    Each group holds the pass rates (P,) of one computation's runs in the last window.
    """
    found = []
    for ours, other in zip(groups[::2], groups[1::2], strict=False):
        if len(ours[0]) != len(other[0]):
            continue
        gap = np.mean(ours, axis=0) - np.mean(other, axis=0)
        error = sum(np.var(side, axis=0, ddof=1) / len(side) for side in (ours, other))
        found.append(gap.var(ddof=1) - float(np.mean(error)))
    return float(np.sqrt(max(0.0, np.mean(found))))


def measured(records: list[RunRecord]) -> dict[str, dict[str, Any]]:
    """By measure: unit, the residuals of single runs, and the scatter over problems."""
    groups = [[run_curves(one) for one in runs] for runs in by_computation(records)]
    found: dict[str, dict[str, Any]] = {}
    for column, (unit, scale) in LOGGED.items():
        ends = [
            np.array([scale * last_window(*run.logged[column]) for run in runs])
            for runs in groups
            if all(column in run.logged for run in runs)
        ]
        found[column] = {"unit": unit, "residuals": residuals(ends)}
    for name, pick in (("pass@1", min), ("pass@1, twice the length", max)):
        rates = [[run.rates[pick(run.rates)] for run in runs] for runs in groups]
        tables = [
            [last_window(one.steps, one.values.T) for one in runs]
            for runs in rates
            if len({one.problems for one in runs}) == 1
        ]
        found[name] = {
            "unit": POINTS,
            "residuals": residuals([np.array([t.mean() for t in runs]) for runs in tables]),
            "problems": problem_scatter(tables),
        }
    # More than was measured: arms that are good at different problems.
    found["pass@1, problems apart"] = {**found["pass@1"], "problems": APART}
    return found


def draw(rng: np.random.Generator, known: dict[str, Any], true: float, share: Any = None) -> Any:
    """The estimate of one simulated comparison of two arms; ``share`` draws what parts share."""
    seeds = len(SEEDS)
    pool = known["residuals"]
    ours, other = (rng.choice(pool, seeds) for _ in range(2))
    if share is not None:
        ours = np.sqrt(SHARED) * share + np.sqrt(1 - SHARED) * ours
    if "problems" not in known:
        return estimate(true + ours - other)
    # Each problem has its own ease, and moves by its own amount between the arms; answers are
    # drawn anew. The mean over all problems that could have been drawn is the true difference.
    ease = rng.beta(1.2, 1.0, PROBLEMS)
    moved = rng.choice([-1, 1], PROBLEMS) * known["problems"]
    tables = []
    for sign, level in ((1, ours + true), (-1, other)):
        chance = 20 + 60 * ease + sign * moved / 2 + level[:, None]
        tables.append(100 * rng.binomial(ATTEMPTS, chance.clip(0, 100) / 100) / ATTEMPTS)
    return paired_difference(*tables)


def percent(hits: list[bool]) -> float:
    """The share of hits."""
    return round(100 * float(np.mean(hits)), 2)


def rates(known: dict[str, Any], draws: int, seed: int) -> dict[str, float]:
    """The shares of a measure's simulated comparisons that err, in percent."""
    rng = np.random.default_rng(seed)
    margin = MARGINS[known["unit"]].value
    null = [draw(rng, known, 0.0) for _ in range(draws)]
    edge = [draw(rng, known, margin) for _ in range(draws)]
    states = [rules.part_state(one, margin) for one in null]
    return {
        "sd": round(float(np.std(known["residuals"])), 4),
        "sd_problems": round(known.get("problems", 0.0), 2),
        "covers": percent([one.low <= 0 <= one.high for one in null]),
        "supported": percent([state == rules.SUPPORTED for state in states]),
        "contradicted": percent([state == rules.CONTRADICTED for state in states]),
        "no effect": percent([rules.part_state(one, margin) == rules.NO_EFFECT for one in edge]),
        "no effect, found": percent([state == rules.NO_EFFECT for state in states]),
    }


def claim_rates(known: dict[str, Any], parts: int, draws: int, seed: int) -> dict[str, float]:
    """The same for claims of several parts, each of the same measure."""
    rng = np.random.default_rng([seed, parts])
    found = {}
    for name, true in (("supported", 0.0), ("contradicted", 0.0), ("mixed", 0.0),
                       ("no effect", MARGINS[known["unit"]].value)):  # fmt: skip
        hits = []
        for _ in range(draws):
            share = rng.choice(known["residuals"], len(SEEDS))
            made = [Part("", draw(rng, known, true, share), known["unit"]) for _ in range(parts)]
            states = [rules.part_state(one.estimate, one.margin) for one in made]
            state = rules.claim_state(states)
            hits.append(state == name and rules.claim_p(state, made) <= rules.ALPHA)
        found[name] = percent(hits)
    return found


def second_p(state: str, parts: Sequence[Part]) -> float:
    """The p-value of a state of round 2: of supported the largest of the parts' (two-sided), of
    refuted Simes' over the parts, each by the smaller of its two ways to be so.
    """
    by_part = [rules.p_values(part) for part in parts]
    if state == rules.SUPPORTED:
        return min(1.0, max(2 * one[rules.SUPPORTED] for one in by_part))
    if state == rules.REFUTED:
        against = [(2 * one[rules.CONTRADICTED], one[rules.NO_EFFECT]) for one in by_part]
        return rules.simes([min(1.0, *both) for both in against])
    return 1.0


def second_rates(known: dict[str, Any], parts: int, draws: int, seed: int) -> dict[str, float]:
    """The rule of round 2 for claims of several parts (:func:`mcbench.claims.rules.second_state`):
    supported where nothing is true, refuted where every part is as large as the margin.
    """
    rng = np.random.default_rng([seed, parts, 2])
    found = {}
    for name, true in ((rules.SUPPORTED, 0.0), (rules.REFUTED, MARGINS[known["unit"]].value)):
        hits = []
        for _ in range(draws):
            share = rng.choice(known["residuals"], len(SEEDS))
            made = [Part("", draw(rng, known, true, share), known["unit"]) for _ in range(parts)]
            state = rules.second_state([rules.part_state(p.estimate, p.margin) for p in made])
            hits.append(state == name and second_p(state, made) <= rules.ALPHA)
        found[name] = percent(hits)
    return found


def simulate(records: list[RunRecord], draws: int) -> dict[str, Any]:
    """All rates, in percent."""
    known = measured(records)
    return {
        "seeds": len(SEEDS),
        "problems": PROBLEMS,
        "attempts": ATTEMPTS,
        "draws": draws,
        "runs": len(records),
        "parts": {name: rates(one, draws, 0) for name, one in known.items()},
        "claims": {
            f"{count} parts": claim_rates(known[LENGTH], count, draws, 1) for count in PARTS
        },
        "second": {
            f"{count} parts": second_rates(known[LENGTH], count, draws, 1) for count in PARTS
        },
    }


def main() -> None:
    """Print the rates; keep them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"keep them in {RESULT.name}")
    parser.add_argument("--draws", type=int, default=4000)
    chosen = parser.parse_args()
    kept = sorted((ROOT / "reports" / "records").glob("*.parquet"))
    found = simulate([read_compact(path) for path in kept], chosen.draws)
    for kind in ("parts", "claims", "second"):
        for name, row in found[kind].items():
            print(f"{name:32}", "  ".join(f"{key} {value}" for key, value in row.items()))
    if chosen.write:
        before = json.loads(RESULT.read_text())  # round 1's stand as they were before its runs
        second = {"second": found["second"], "second_runs": found["runs"]}
        write_json(RESULT, {**before, **second})
    print(json.dumps({key: found[key] for key in ("seeds", "problems", "attempts", "draws")}))


if __name__ == "__main__":
    main()
