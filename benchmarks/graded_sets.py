"""A harder and an easier training set of equal size, from the noisy pool to the committed lists.

Difficulty is the pass rate of the base model: 16 responses to every problem at T = 1 and the length
of training. Both sets hold induced and described problems in the shares that nano has, and each
kind is split at bounds of its own: described problems are easier throughout, so with common bounds
the sets would differ in kind and not in difficulty. Problems that the model never solved are in
neither: nothing is learned from them at first, so the harder set would also be a smaller one.

    python benchmarks/graded_sets.py build/data_quality reports/records/data_quality.json

writes the record that notebook 05 shows: what the pipeline did to the pool, and with which
precision and recall by the defects that were planted in it. Pass rates are the committed ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.noisy_pool import noisy_pool, pool_config
from benchmarks.planted import TRUTH, Pool, Score, score
from mcbench.data.build import Built, build
from mcbench.data.config import STAGES
from mcbench.data.difficulty import Calibration, DifficultyConfig
from mcbench.data.features import dimensions, weighted
from mcbench.data.report import examples
from mcbench.data.schema import Difficulty, Problem
from mcbench.data.storage import iter_dataset
from mcbench.errors import UserError
from mcbench.runs.evaluate import select_problems
from mcbench.runs.say import Say, say
from mcbench.worlds.graded import LEVELS, measured, pool_problems
from mcbench.worlds.problems import INDUCED_SHARE

SET_SIZE = 176
"""Problems of a set: 11 generations of 16."""
ATTEMPTS = 16
LABELS: dict[str, Difficulty] = {"harder": "hard", "easier": "easy"}


BOUNDS = {"induced": (0.25, 0.4375), "described": (0.5, 0.75)}
"""By kind: the pass rate below which a problem is hard, and that from which it is easy."""


@dataclass(frozen=True)
class DataRecord:
    """What the pipeline made of the noisy pool; kept as JSON beside the runs' records.

    ``planted``: defect -> how many, and the stage that has to act. ``funnel``: the stages' rows of
    the manifest. ``scores``: seed of the planting -> precision and recall per stage; the sets come
    from seed 0. ``dropped``: examples, each with the defect that was planted in it. ``passes``:
    "pool" (what was verified) and levels -> passes of ``attempts`` -> problems. ``kinds``: level ->
    kind of problem -> problems. ``trained``: level -> how many of the problems just selected are in
    the committed set that runs train on. ``base``: as in :mod:`mcbench.worlds.graded`.
    ``prediction``: kind of problem -> how well the pass rates of every second problem, which
    calibrated nothing, are predicted (``check_prediction`` there).
    """

    pool: int
    planted: dict[str, list[Any]]
    funnel: list[dict[str, Any]]
    scores: dict[str, tuple[Score, ...]]
    dropped: list[dict[str, str]]
    attempts: int
    passes: dict[str, list[int]]
    kinds: dict[str, dict[str, int]]
    trained: dict[str, int]
    base: dict[str, dict[str, float]]
    prediction: dict[str, dict[str, Any]]

    def write(self, path: Path) -> None:
        """As JSON; the same record, the same bytes."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")


def build_sets(
    folder: Path,
    rates: Mapping[str, float],
    problems: Sequence[Problem],
    progress: Say,
    workers: int = 1,
) -> tuple[Pool, Built, dict[str, tuple[str, ...]]]:
    """The pool through the pipeline, and the ids of a set of each level, in the problems' order.

    Sets are as large as the kind and level with fewest problems allows, and at most ``SET_SIZE``.

    Raises:
        UserError: no verified problem of some kind and level.
    """
    pool = noisy_pool(problems)
    progress(f"data: {len(pool.records)} problems, {len(pool.defects)} of them with a defect")
    config = pool_config(_verified_name(0), folder, workers)
    built = build(config, pool.records, pool.evaluation)
    kind = {problem.id: problem.kind for problem in problems}
    left: dict[str, list[Problem]] = {name: [] for name in BOUNDS}
    for record in verified(built.out, problems):
        left[kind[record.id]].append(record)
    progress(f"data: {sum(map(len, left.values()))} problems verified")
    rates_file = folder / "pass_rates.jsonl"
    rows = ({"id": name, "pass_rate": rates[name]} for name in sorted(rates))
    rates_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = _sizes(left, rates)
    sets = {}
    for level in LEVELS:
        chosen = set()
        for name, records in left.items():
            found = _select(folder, level, name, records, sizes[name], rates_file)
            chosen |= {record.id for record in iter_dataset(found.out)}
        sets[level] = tuple(problem.id for problem in problems if problem.id in chosen)
    progress(f"data: {sum(sizes.values())} problems in each set")
    return pool, built, sets


def _verified_name(seed: int) -> str:
    return f"verified-{seed}"


def _sizes(left: Mapping[str, Sequence[Problem]], rates: Mapping[str, float]) -> dict[str, int]:
    """Problems of each kind in a set."""
    fewest = {}
    for kind, (hard_below, easy_from) in BOUNDS.items():
        known = [rates[record.id] for record in left[kind]]
        hard = sum(1 / ATTEMPTS <= rate < hard_below for rate in known)
        fewest[kind] = min(hard, sum(rate >= easy_from for rate in known))
    if not all(fewest.values()):
        raise UserError(
            "the pool holds no verified problem of some kind and level; take a larger pool_size"
        )
    share = INDUCED_SHARE
    room = min(fewest["induced"] / share, fewest["described"] / (1 - share))
    total = max(2, min(SET_SIZE, int(room)))
    induced = min(max(1, round(share * total)), fewest["induced"], total - 1)
    return {"induced": induced, "described": min(total - induced, fewest["described"])}


def _select(
    folder: Path,
    level: str,
    kind: str,
    records: Sequence[Problem],
    size: int,
    rates_file: Path,
) -> Built:
    """A set of one level and kind: the pipeline's difficulty stage on what was verified."""
    hard_below, easy_from = BOUNDS[kind]
    difficulty = DifficultyConfig(
        pass_rates=str(rates_file),
        hard_below=hard_below,
        easy_from=easy_from,
        min_pass_rate=1 / ATTEMPTS,
        keep_source_labels=False,
        target={LABELS[level]: 1.0},
        size=size,
    )
    others = tuple(stage for stage in STAGES if stage != "difficulty")
    name = f"{level}-{kind}"
    return build(pool_config(name, folder, skip=others, difficulty=difficulty), records)


def verified(out: Path, problems: Sequence[Problem]) -> list[Problem]:
    """The pool's own problems among those that were verified: no copy or leak that was missed."""
    ids = {problem.id for problem in problems}
    return [record for record in iter_dataset(out) if record.id in ids]


def check_prediction(records: Sequence[Problem], rates: Mapping[str, float]) -> dict[str, Any]:
    """How well a prediction says the pass rates of problems that it was not calibrated on.

    The prediction is calibrated on every second problem and asked about the others: ``rank`` is
    Spearman's correlation of predicted and measured pass rate, ``error`` their mean absolute
    difference, ``error_of_mean`` that of the first half's mean rate, which knows no problem.
    ``bins``: tenths of the others by prediction -> mean predicted and mean measured rate.

    Raises:
        UserError: too few problems to calibrate on.
    """
    order = sorted(records, key=lambda record: record.id)
    scores = np.array([weighted(dimensions(r), DifficultyConfig().weights) for r in order])
    measured = np.array([rates[record.id] for record in order])
    calibration = Calibration.fit(scores[::2].tolist(), measured[::2].tolist())
    predicted, true = calibration(scores[1::2]), measured[1::2]
    parts = [p for p in np.array_split(np.argsort(predicted, kind="stable"), 10) if len(p)]
    return {
        "problems": len(true),
        "rank": round(float(spearmanr(predicted, true).statistic), 4),
        "error": round(float(np.abs(predicted - true).mean()), 4),
        "error_of_mean": round(float(np.abs(measured[::2].mean() - true).mean()), 4),
        "bins": [[round(float(v[p].mean()), 4) for v in (predicted, true)] for p in parts],
    }


def score_pools(
    folder: Path, problems: Sequence[Problem], seeds: Sequence[int], progress: Say, workers: int = 1
) -> dict[str, tuple[Score, ...]]:
    """Precision and recall of every stage for defects planted with each of the seeds.

    Raises:
        UserError: as :func:`benchmarks.noisy_pool.noisy_pool`.
    """
    scores = {}
    for seed in seeds:
        pool = noisy_pool(problems, seed=seed)
        config = pool_config(_verified_name(seed), folder, workers)
        scores[str(seed)] = tuple(score(pool, build(config, pool.records, pool.evaluation).out))
        progress(f"data: defects planted with seed {seed} scored")
    return scores


def make_record(
    folder: Path,
    pool_size: int | None,
    progress: Say,
    workers: int = 1,
    pool_seeds: Sequence[int] = (0,),
) -> DataRecord:
    """Run the pipeline on the pool (or ``pool_size`` problems spread over it) and say what it did.

    Pass rates are the committed ones. Sets are selected from the pool with seed 0; with others the
    stages' precision and recall are measured again.

    Raises:
        UserError: a pool too small for the defects, for a set or for calibration.
    """
    known = measured("graded")
    attempts, passes = known["attempts"], known["passes"]
    rates = {name: count / attempts for name, count in passes.items()}
    problems = select_problems(pool_problems(), pool_size)
    pool, built, sets = build_sets(folder, rates, problems, progress, workers)
    left = verified(built.out, problems)
    ids = {"pool": tuple(record.id for record in left), **sets}
    kind = {problem.id: problem.kind for problem in problems}
    counts = Counter(pool.defects.values())
    return DataRecord(
        pool=len(pool.records),
        planted={name: [counts[name], *TRUTH[name]] for name in TRUTH if counts[name]},
        funnel=built.manifest["funnel"],
        scores=score_pools(folder, problems, sorted({0, *pool_seeds}), progress, workers),
        dropped=[
            {**row, "planted": pool.defects.get(row["record"], "")} for row in examples(built.out)
        ],
        attempts=attempts,
        passes={
            name: [sum(passes[i] == n for i in s) for n in range(attempts + 1)]
            for name, s in ids.items()
        },
        kinds={
            level: dict(sorted(Counter(kind[i] for i in s).items())) for level, s in sets.items()
        },
        trained={level: len(set(s) & set(known["sets"][level])) for level, s in sets.items()},
        base=known["base"],
        prediction={
            name: check_prediction([record for record in left if kind[record.id] == name], rates)
            for name in BOUNDS
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the builds, which are resumed")
    parser.add_argument("output", type=Path, help="the record")
    parser.add_argument("--pool-size", type=int, help="problems of the pool; all where not given")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    seeds, workers = options.seeds, options.workers
    make_record(options.folder, options.pool_size, say, workers, seeds).write(options.output)


if __name__ == "__main__":
    main()
