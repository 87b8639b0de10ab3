"""What round 2 can decide, predicted from round 1's records before any of its own runs.

For every hypothesis: the scatter of its contrast over seeds, over problems and over features, as
round 1's runs of the same or the nearest arms have it, and from that by simulation

- ``false``: how often it is supported where nothing is true, before Holm's correction (percent);
- ``power``: how often it would be supported at the size that round 1 showed, at Holm's strictest
  level, one twelfth of 5 %, where round 1 had the contrast; ``80 %`` is the size, in points, that
  would be supported in 80 % of the cases.

Then the whole family with nothing true in any of the twelve, after Holm's correction: how often
anything at all is decided wrongly. Features are drawn anew in every simulated round, since the
intervals are meant for others than these.

    python benchmarks/round_2.py            prints both tables
    python benchmarks/round_2.py --write    and keeps them in benchmarks/round_2.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from mcbench.claims.curves import RunCurves, run_curves
from mcbench.claims.margins import MARGINS, POINTS
from mcbench.claims.protocol import SEEDS
from mcbench.claims.round_2 import (
    HYPOTHESES,
    Hypothesis,
    Outcome,
    corrected,
    decided,
    fall,
    widened,
)
from mcbench.claims.rules import ALPHA, INCONCLUSIVE, SUPPORTED
from mcbench.claims.statistics import Estimate, estimate, resample_clusters
from mcbench.experiments.experiments import planned_runs
from mcbench.files import write_json
from mcbench.runs.records import finished_records

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).with_suffix(".json")
MARGIN = MARGINS[POINTS].value
DRAWS = 2000

# The contrast of round 1 that stands for each: experiment, profile and weights of its arms. Where
# round 1 had no such arms the nearest are taken for the scatter, and no size is predicted.
_MASK = "truncation_mask", "nano-steady"
NEAREST: dict[str, tuple[str, str, dict[str, float], bool]] = {
    "H1": ("results", "nano-steady", {"grpo_per_response": 1, "grpo": -1}, False),
    "H2": (*_MASK, {"all": 1, "none": -1, "rho_03": -1, "rho_01": 1}, False),
    "H3": ("doses", "nano-steady", {"rho_10": 1, "none": -1}, True),
    "H4": (*_MASK, {"rho_02": 1, "none": -1}, True),
    "H5": ("results", "nano-steady", {"microcoder": 1, "grpo": -1}, True),
    "H6": ("kl_and_clip", "nano-clip", {"kl_low_clip": 1, "no_kl_high_clip": -1}, False),
    "H7": ("kl_and_clip", "nano-clip", {"kl_low_clip": 1, "no_kl_high_clip": -1}, False),
    "H8": ("context_length", "nano-steady", {"long": 1, "short": -1}, True),
    "H9": ("temperature", "nano-steady", {"t_06": 1, "t_10": -1}, False),
    "H10": (*_MASK, {"rho_02": 0.5, "all": 0.5}, False),
    "H11": (*_MASK, {"none": 1, "rho_02": -1}, False),
    "H12": ("code_evaluator", "nano-steady", {"microcoder": 1, "livecodebench": -1}, True),
}


@dataclass(frozen=True)
class Scatter:
    """Of a contrast, in points: SD of its mean over seeds, of a single problem of one seed beside
    that, and of what features, and problems that are alone, differ by.
    """

    seeds: float
    single: float
    features: float
    clusters: tuple[str, ...]
    size: float


def table(one: Hypothesis, arms: Mapping[str, Mapping[int, RunCurves]], weights: Any) -> Any:
    """(S, P) the contrast by seed and problem, and the problems' clusters. Round 1 has two
    evaluations on all problems in the last window and one in the middle.
    """
    seeds = [s for s in SEEDS if all(s in arms[arm] for arm in weights)]
    rows = []
    for seed in seeds:
        total: Any = 0.0
        for arm, weight in weights.items():
            for rates in (r for (_, t), r in arms[arm][seed].rates.items() if t == 1.0):
                late = rates.values[rates.steps >= 384].mean(axis=0)
                middle = rates.values[rates.steps == 192].mean(axis=0)
                value = middle - late if one.statistic is fall else late
                total = total + weight / 2 * value
        rows.append(total)
        clusters = rates.clusters
    return np.array(rows), tuple(clusters)


def scatter(gaps: np.ndarray, clusters: tuple[str, ...]) -> Scatter:
    """The components of (S, P) gaps: what is left after each is taken out of the next."""
    seeds = len(gaps)
    own = gaps.mean(axis=1)
    single = gaps - own[:, None] - gaps.mean(axis=0) + gaps.mean()
    noise = single.var() * seeds / (seeds - 1)
    names = np.array(clusters)
    mean = gaps.mean(axis=0) - gaps.mean()
    found = [
        (mean[names == name].mean(), (names == name).sum()) for name in dict.fromkeys(clusters)
    ]
    values, sizes = (np.array(one, dtype=float) for one in zip(*found, strict=True))
    many = sizes > 1
    between = values[many].var(ddof=1) - noise / seeds * (1 / sizes[many]).mean()
    return Scatter(
        float(own.std(ddof=1)), float(np.sqrt(noise)), float(np.sqrt(max(0.0, between))),
        clusters, float(gaps.mean()),
    )  # fmt: skip


def simulated(one: Hypothesis, known: Scatter, true: float, rng: np.random.Generator) -> Estimate:
    """The estimate of one simulated contrast whose mean over all features is ``true``."""
    seeds = len(one.seeds)
    names = dict.fromkeys(known.clusters)
    effects = dict(zip(names, rng.normal(0, known.features, len(names)), strict=True))
    base = true + np.array([effects[name] for name in known.clusters])
    own = rng.normal(0, known.seeds, seeds)
    gaps = base + own[:, None] + rng.normal(0, known.single, (seeds, len(base)))
    counts = resample_clusters(known.clusters)
    resampled = (counts @ gaps.T) / counts.sum(axis=1)[:, None]
    return widened(estimate(gaps.mean(axis=1), resampled))


def rates(one: Hypothesis, known: Scatter, told: bool, rng: np.random.Generator) -> dict[str, Any]:
    """What the hypothesis can decide."""
    strict = ALPHA / len(HYPOTHESES)

    def supported(true: float, level: float) -> tuple[float, float]:
        """In how many cases, and the mean variance of the estimates."""
        found = [simulated(one, known, true, rng) for _ in range(DRAWS)]
        hits = [decided(each, one.predicts, MARGIN) for each in found]
        variance = np.mean([each.seed_variance + each.problem_variance for each in found])
        return float(np.mean([s == SUPPORTED and p <= level for s, p in hits])), float(variance)

    false, variance = supported(0.0, ALPHA)
    freedom = len(one.seeds) - 1
    needed = special.stdtrit(freedom, 1 - strict / 2) + special.stdtrit(freedom, 0.8)
    return {
        "seeds": len(one.seeds),
        "sd over seeds": round(known.seeds, 1),
        "sd over features": round(known.features, 1),
        "round 1": round(known.size, 1) if told else None,
        "false": round(100 * false, 1),
        "power": round(supported(known.size, strict)[0], 2) if told else None,
        "80 %": round(float(needed * np.sqrt(variance)), 1),
    }


def family(known: Mapping[str, Scatter], rng: np.random.Generator) -> dict[str, float]:
    """How often any of the twelve is decided wrongly: with nothing there, a difference; with a
    difference as large as the margin in each, that there is none.
    """
    errors = {"a difference": 0, "no difference": 0}
    for _ in range(DRAWS):
        for name, true in (("a difference", 0.0), ("no difference", MARGIN)):
            outcomes = []
            for one in HYPOTHESES:
                found = simulated(one, known[one.id], true, rng)
                outcomes.append(Outcome(one, *_state(one, found)))
            errors[name] += any(_claims(name, one) for one in corrected(outcomes))
    return {name: round(100 * count / DRAWS, 1) for name, count in errors.items()}


def _state(one: Hypothesis, found: Estimate) -> Any:
    state, p = decided(found, one.predicts, MARGIN)
    return state, found, p


def _claims(name: str, one: Outcome) -> bool:
    """Whether an outcome says that there is a difference, or that there is none."""
    inside = one.estimate.p_inside(MARGIN) <= ALPHA
    return one.state != INCONCLUSIVE and inside == (name == "no difference")


def main() -> None:
    """Print the tables; keep them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"keep them in {RESULT.name}")
    chosen = parser.parse_args()
    records = {one.run_id: one for one in finished_records(ROOT / "reports" / "records")}
    known, rng = {}, np.random.default_rng(0)
    for one in HYPOTHESES:
        experiment, profile, weights, _ = NEAREST[one.id]
        curves: dict[str, dict[int, RunCurves]] = {}
        for run in planned_runs(experiment, profile, SEEDS, arms=list(weights)):
            if (record := records.get(run.config.run_id)) is not None:
                curves.setdefault(run.arm, {})[run.config.seed] = run_curves(record)
        known[one.id] = scatter(*table(one, curves, weights))
    found: dict[str, Any] = {
        one.id: rates(one, known[one.id], NEAREST[one.id][3], rng) for one in HYPOTHESES
    }
    for name, row in found.items():
        print(f"{name:4}", "  ".join(f"{key} {value}" for key, value in row.items()))
    errors = family(known, rng)
    print("any of the twelve wrong, %:", json.dumps(errors))
    if chosen.write:
        write_json(RESULT, {"draws": DRAWS, "hypotheses": found, "family": errors})


if __name__ == "__main__":
    main()
