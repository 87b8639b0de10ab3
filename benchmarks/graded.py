"""How the committed training sets of `data_quality` and `recipes` were made.

    python benchmarks/graded.py graded FOLDER     mcbench/worlds/graded.json, some ten minutes
    python benchmarks/graded.py saturated         mcbench/worlds/saturated.json
    python benchmarks/graded.py solvable          mcbench/worlds/solvable.json

The first measures the noisy pool with nano-s and selects a harder and an easier set; the second
selects what nano-s2 has nearly solved; the third says how often nano-s2 solves what `nano-steady`
trains on. The pipeline that selects is ``graded_sets.py``.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.calibration import ATTEMPTS as CALIBRATION_ATTEMPTS
from benchmarks.calibration import calibrate
from benchmarks.graded_sets import ATTEMPTS, SET_SIZE, build_sets
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.runs.config import preset
from mcbench.runs.evaluate import evaluate
from mcbench.runs.problems import load_problems, model_digest
from mcbench.runs.sampling import load_model, transformers_policy
from mcbench.runs.scores import pass_at_k
from mcbench.worlds.graded import easy_problems, file_of, pool_problems

REGIME = "nano-steady"  # where claims are decided: its base model measures the saturated set
GROUP = 8  # responses to a prompt in training
FRESH_SEED = 1  # of the responses that say what the base model does on the finished sets
SOLVED_OF = 8


def measure_pass_rates(
    problems: Sequence[Problem], seed: int = 0, profile_name: str = "nano", count: int = ATTEMPTS
) -> tuple[str, dict[str, int]]:
    """Passes of ``count`` responses of a profile's base model, by id; and its hash."""
    profile = preset(profile_name)
    (result,) = evaluate(
        transformers_policy(*load_model(profile.model)),
        problems,
        workers=1,
        lengths=(profile.max_completion_length,),
        attempts=count,
        temperature=profile.temperature,
        seed=seed,
    )
    if any(row["attempts"] != count for row in result.per_problem):
        raise UserError("some responses could not be judged; measure the pass rates again")
    passes = {row["id"]: row["passes"] for row in result.per_problem}
    return model_digest(profile.model), passes


def measure_base(
    folder: Path, sets: Mapping[str, Sequence[Problem]]
) -> dict[str, dict[str, float]]:
    """What the base model does on each set, with responses that did not select it."""
    found = {}
    for level, problems in sets.items():
        path = folder / f"{level}.jsonl"
        path.write_text("".join(json.dumps(asdict(problem)) + "\n" for problem in problems))
        profile = preset("nano").with_settings({"test_set": str(path), "test_limit": None})
        report = calibrate(profile, (profile.temperature,), seed=FRESH_SEED)
        last = f"pass@{CALIBRATION_ATTEMPTS}"
        counts = report.samples.groupby("problem")["passed"].sum()
        each = [pass_at_k(CALIBRATION_ATTEMPTS, int(n), CALIBRATION_ATTEMPTS) for n in counts]
        values = {**report.grid.iloc[0].to_dict(), last: np.mean(each)}
        wanted = ("pass@1", last, "entropy", "distinct_4", "mean length", "truncated")
        found[level] = {name: round(float(values[name]), 4) for name in wanted}
    return found


def graded(folder: Path) -> None:
    """Measure the pool, select the sets and write them."""
    problems = pool_problems()
    print(f"{ATTEMPTS} responses to each of {len(problems)} problems", flush=True)
    digest, passes = measure_pass_rates(problems)
    rates = {name: count / ATTEMPTS for name, count in passes.items()}
    sets = build_sets(folder, rates, problems, print)[2]
    chosen = {name: [p for p in problems if p.id in set(ids)] for name, ids in sets.items()}
    found = {
        "model": digest,
        "attempts": ATTEMPTS,
        "passes": passes,
        "sets": sets,
        "base": measure_base(folder, chosen),
    }
    file_of("graded").write_text(json.dumps(found, indent=0) + "\n")


def saturated() -> None:
    """Select the set that ``nano-steady``'s base model has nearly solved, and write it.

    Kept are the ``SET_SIZE`` problems with most passes in two measurements of the pool's better
    half; what the model does on the set (pass@1, and the share of groups of ``GROUP`` without a
    failure) is measured a third time, which selects nothing.
    """
    pool = easy_problems()
    digest, first = measure_pass_rates(pool, 0, REGIME)
    better = sorted(pool, key=lambda p: (-first[p.id], p.id))[: len(pool) // 2]
    print(f"{len(pool)} easy problems, base {_mean(first):.2f}", flush=True)
    second = measure_pass_rates(better, 1, REGIME)[1]
    kept = sorted(better, key=lambda p: (-first[p.id] - second[p.id], p.id))[:SET_SIZE]
    fresh = measure_pass_rates(kept, 2, REGIME)[1]
    right = [1 - pass_at_k(ATTEMPTS, ATTEMPTS - n, GROUP) for n in fresh.values()]
    found = {
        "model": digest,
        "pass@1": round(_mean(fresh), 4),
        "all right": round(float(np.mean(right)), 4),
        "ids": sorted(problem.id for problem in kept),
    }
    file_of("saturated").write_text(json.dumps(found, indent=0) + "\n")
    print(f"{len(kept)} problems, base {found['pass@1']:.2f}")


def _mean(passes: Mapping[str, int]) -> float:
    return float(np.mean(list(passes.values()))) / ATTEMPTS


def solvable() -> None:
    """Passes of what `nano-steady` trains on."""
    problems = load_problems("nano-balanced:train")
    digest, passes = measure_pass_rates(problems, 0, REGIME, SOLVED_OF)
    counts = "".join(str(passes[problem.id]) for problem in problems)
    found = {"model": digest, "attempts": SOLVED_OF, "passes": counts}
    file_of("solvable").write_text(json.dumps(found, indent=0) + "\n")
    never, always = (counts.count(str(n)) for n in (0, SOLVED_OF))
    print(f"{len(counts)} problems, {never} never and {always} always solved")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("made", choices=["graded", "saturated", "solvable"])
    parser.add_argument("folder", type=Path, nargs="?", help="of what graded keeps")
    asked = parser.parse_args()
    if (asked.made == "graded") != (asked.folder is not None):
        parser.error("graded takes a FOLDER, the others none")
    if asked.made == "graded":
        graded(asked.folder)
    else:
        {"saturated": saturated, "solvable": solvable}[asked.made]()
