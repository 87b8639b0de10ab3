"""What the data pipeline made of a noisy pool: read by notebook 05, written by
``benchmarks/graded_sets.py``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.runs.place import committed_records

DATA_FILE = "data_quality.json"
BOUNDS = {"induced": (0.25, 0.4375), "described": (0.5, 0.75)}
"""By kind: the pass rate below which a problem is hard, and that from which it is easy."""
NAMES = {"harder": "Harder set", "easier": "Easier set"}
"""Both sets, as they are drawn."""
REQUIRED = 0.95
"""Precision and recall that every stage has to reach."""


@dataclass(frozen=True)
class Score:
    """How one stage did: ``found`` of ``planted`` defects, and ``wrong`` ones it saw elsewhere."""

    stage: str
    planted: int
    found: int
    wrong: int

    @property
    def precision(self) -> float:
        """Found / all that the stage acted on; 1 where it did nothing."""
        return self.found / (self.found + self.wrong) if self.found + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Found / planted; 1 where nothing was planted."""
        return self.found / self.planted if self.planted else 1.0


@dataclass(frozen=True)
class DataRecord:
    """What the pipeline made of the noisy pool; kept as JSON beside the runs' records.

    ``planted``: defect -> how many, and the stage that has to act. ``funnel``: the stages' rows of
    the manifest. ``scores``: seed of the planting -> precision and recall per stage; the sets come
    from seed 0. ``dropped``: examples, each with the defect that was planted in it. ``passes``:
    "pool" (what was verified) and levels -> passes of ``attempts`` -> problems. ``kinds``: level ->
    kind of problem -> problems. ``trained``: level -> how many of the problems just selected are in
    the committed set that runs train on. ``base``: as in :class:`mcbench.worlds.graded.Grades`.
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

    @classmethod
    def read(cls, path: Path) -> DataRecord:
        """Read back what :meth:`write` wrote.

        Raises:
            UserError: the file is missing or no such record.
        """
        try:
            content = json.loads(path.read_text())
            content["scores"] = {
                seed: tuple(Score(**one) for one in found)
                for seed, found in content["scores"].items()
            }
            return cls(**content)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(f"{path} is no record of a data set: {error}") from None


def data_record() -> DataRecord | None:
    """The committed record; None outside a checkout."""
    paths = [folder / DATA_FILE for folder in committed_records()]
    return next((DataRecord.read(path) for path in paths if path.exists()), None)
