"""Round 2 from folders of records: a block counts when it is whole."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mcbench.claims import CLAIMS, Result
from mcbench.claims.round_2 import ASKED_OTHERWISE, END, HYPOTHESES, NOT_WHOLE
from mcbench.experiments.experiments import PlannedRun, planned_runs
from mcbench.experiments.round_2 import outcomes, registered, whole_block, with_second_round
from mcbench.report.round_2 import claims_table, counted, hypotheses_table, lines, sentence, tiles
from mcbench.runs.compact import write_compact
from mcbench.runs.store import RunRecord

PASSES = {"short": 1, "middle": 2, "long": 3}


def record(planned: PlannedRun) -> RunRecord:
    """A finished run, evaluated from update 352 on at both lengths on eight problems."""
    config, passes = planned.config, PASSES[planned.arm]
    more = np.random.default_rng([config.seed, passes]).integers(0, 2, 8)
    of = [
        {"id": f"p{i}", "form": "call", "difficulty": "easy", "kind": "induced",
         "passes": passes + int(more[i]), "attempts": 4}
        for i in range(8)
    ]  # fmt: skip
    evals = [
        {"step": step, "max_completion_length": length, "temperature": 1.0, "per_problem": of,
         "dataset": "nano:test", "dataset_hash": "0a2389caf05cfe8d"}
        for step in range(END[0] - 32, END[1] + 1, 32)
        for length in config.eval_lengths
    ]  # fmt: skip
    meta = {"run_id": config.run_id, "seed": config.seed, "state": "finished"}
    return RunRecord({**meta, "config": config.to_dict()}, [], evals, Path("absent"))


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs of one block."""
    folder = tmp_path_factory.mktemp("records")
    for planned in planned_runs("round_2_limits"):
        write_compact(record(planned), folder)
    return folder


def test_a_block_is_read_when_all_of_it_is_there(limits: Path, tmp_path: Path) -> None:
    assert {arm: len(runs) for arm, runs in whole_block("round_2_limits", [limits]).items()} == {
        "short": 24, "middle": 24, "long": 24,
    }  # fmt: skip
    _, *others = limits.glob("*.parquet")
    for path in (*others, *limits.glob("*.json")):
        (tmp_path / path.name).symlink_to(path)
    assert whole_block("round_2_limits", [tmp_path]) == {}


def test_runs_of_other_settings_are_none_of_the_registered() -> None:
    records = [record(one) for one in planned_runs("round_2_limits")]
    found = registered("round_2_limits", records)
    assert {arm: len(runs) for arm, runs in found.items()} == dict.fromkeys(PASSES, 24)
    cooler = {"settings": {"learning_rate": 1e-4}}
    others = [record(one) for one in planned_runs("round_2_limits", **cooler)]
    assert registered("round_2_limits", others) == {}
    assert registered("round_2_limits", [*others, *records[1:]]) == {}


def test_what_whole_blocks_say_stands_beside_what_is_open(limits: Path) -> None:
    found = outcomes([limits])
    assert found["H8"].state == "supported"
    assert found["H8"].estimate.value == pytest.approx(50, abs=5)  # two passes more of four
    assert {one.reason for name, one in found.items() if name != "H8"} == {NOT_WHOLE}
    assert counted(found) == "1 supported, 0 refuted, 11 inconclusive (11 not measured yet)"
    table = hypotheses_table(found).set_index("Id")
    assert table.loc["H8", "Seeds"] == "24 of 24"
    assert table.loc["H1", "Effect"] == "–"
    again = claims_table(found, {"C1": Result(CLAIMS["C1"], 12)}).set_index("Claim")
    (c1,) = (name for name in again.index if name.startswith("C1: "))
    assert again.loc[c1, ["Round 1", "Round 2"]].tolist() == ["inconclusive", "supported"]
    assert again.loc[c1, "Asked otherwise"] == ASKED_OTHERWISE["C1"]
    (tile,) = (one for one in tiles(found) if one.id == "H8")
    assert tile.side == "for"
    assert tile.size == pytest.approx(25, abs=3)  # margins
    assert tile.track is not None
    assert sentence(found).startswith("Round 2, twelve hypotheses on fresh seeds: 1 supported")
    assert "Supported, in points: All of the limit ends higher than half of it (+" in sentence(
        found
    )
    assert sentence(outcomes([])) == ""
    shortly = sentence({"H1": replace(found["H8"], hypothesis=HYPOTHESES[0])})
    assert "higher than averaging it over tokens (+" in shortly
    assert any(line.startswith("H8  supported") for line in lines(found, {}))


def test_a_claim_says_what_round_2_makes_of_it(limits: Path) -> None:
    decided = {
        name: Result(CLAIMS[name], 12, basis="protocol") for name in ("C1", "M6", "T6", "Q1")
    }
    told = {
        name: one.second for name, one in with_second_round(decided, outcomes([limits])).items()
    }
    assert told["C1"] == "in round 2 supported (H8 supported)"
    assert told["M6"] == told["Q1"] == ""  # not measured, and not asked again
    assert told["T6"].startswith("not testable here: T = 1.8 is close to noise")
    own = {"C1": Result(CLAIMS["C1"], 3)}  # other seeds than the protocol's
    assert with_second_round(own, outcomes([limits]))["C1"].second == ""
