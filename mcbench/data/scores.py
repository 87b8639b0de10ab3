"""Precision and recall of the stages on a pool with planted defects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from mcbench.data.config import STAGES
from mcbench.data.planted import TRUTH, Pool, content
from mcbench.data.storage import iter_dataset


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


def score(pool: Pool, out: Path) -> list[Score]:
    """One score per stage for a set built from a pool.

    A defect that calls for dropping is found when its stage dropped the record (of two copies:
    either one). One that can be repaired is found when the record of the finished set as it
    was before (without the test that was broken); one that another stage dropped by mistake counts
    against that stage only.
    """
    log = pq.read_table(out / "audit.parquet").to_pylist()
    dropped = {r["record"]: r["stage"] for r in log if r["action"] == "drop"}
    final = {record.id: record for record in iter_dataset(out)}
    originals = {original: copy for copy, original in pool.pairs.items()}
    scores = []
    for stage in STAGES:
        if stage == "difficulty":  # drops nothing that is wrong
            continue
        planted = pool.dropped_by(stage)
        acted = {record for record, by in dropped.items() if by == stage}
        if stage == "dedup":
            acted = {originals.get(record, record) for record in acted}
        repairs = [
            name
            for name, defect in pool.defects.items()
            if TRUTH[defect][0] == stage and TRUTH[defect][1] != "drop" and name in final
        ]
        restored = sum(content(final[name]) == content(pool.clean[name]) for name in repairs)
        scores.append(
            Score(
                stage,
                planted=len(planted) + len(repairs),
                found=len(planted & acted) + restored,
                wrong=len(acted - planted) + len(repairs) - restored,
            )
        )
    return scores
