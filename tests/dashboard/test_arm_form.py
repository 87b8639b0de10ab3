"""What a section notebook starts with: records drawn, an arm asked for, nothing in batch."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcbench.experiments.experiments import plan_runs
from mcbench.files import write_json
from mcbench.report import served
from mcbench.report.dashboard.arm_form import Workbench, workbench
from mcbench.report.dashboard.dashboard import Dashboard
from mcbench.report.dashboard.follower import RunFollower
from mcbench.report.dashboard.progress import progress_of
from mcbench.runs.compact import write_compact
from mcbench.runs.store import RunStore

from .runs import begin, finished

ARMS = {"medium": {"recipe": "grpo_plus"}}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    monkeypatch.setattr(Dashboard, "_follow", lambda self: self._stop.wait())
    finished(tmp_path, "other", "microcoder", 3, 40)
    made = Workbench("batch_size", ARMS, "tiny", [0], 60, {}, tmp_path, [])
    yield made
    made.close()


def ask(bench: Workbench, **values: Any) -> dict[str, Any]:
    bench.form.asked = {**bench.form.asked, **values}
    if bench.form.told["cost"]:
        bench.costing.join()
    return bench.form.told


def test_settings_have_ranges_and_values_from_the_configuration(bench: Workbench) -> None:
    families = bench.form.about["families"].values()
    known = {one["name"]: one for family in families for one in family}
    assert known["mask_ratio"]["takes"] == "number from 0 to 1"
    assert known["precision"]["choices"] == ["fp32", "bf16"]
    assert known["gradient_checkpointing"]["choices"] == ["true", "false"]


def test_a_form_says_defaults_cost_and_what_is_wrong(bench: Workbench) -> None:
    assert bench.form.told["cost"] == ""  # nothing stands in it
    told = ask(bench, name="mine", values={"mask_ratio": "0.5"})
    assert told["defaults"]["mask_ratio"] == "0.2"
    assert told["ready"]
    assert told["cost"].startswith("1 run, 60 updates on ")
    assert told["cost"].endswith("by 1 finished run of tiny")
    assert told["line"] == "\"mine\": {'recipe': 'microcoder', 'mask_ratio': 0.5},"
    told = ask(bench, values={"mask_ratio": "2"})
    assert (told["ready"], told["problem"]) == (
        False,
        "arm 'mine': mask_ratio must be from 0 to 1, got 2",
    )
    assert "there is an arm 'medium' already" in ask(bench, name="medium", values={})["problem"]
    assert "seeds are whole numbers" in ask(bench, name="mine", seeds="0; 1")["problem"]
    assert (
        "2 runs, one after another, 80 updates"
        in ask(bench, seeds="0, 1", values={"steps": "40"})["cost"]
    )


def test_added_arms_are_remembered_beside_the_runs(tmp_path: Path, bench: Workbench) -> None:
    kept = {
        "mine": {"settings": {"recipe": "microcoder", "mask_ratio": 0.5}, "seeds": [0]},
        "medium": {"settings": {"recipe": "grpo_plus"}, "seeds": [0]},  # in the notebook by now
    }
    write_json(tmp_path / "batch_size.arms.json", kept)
    again = Workbench("batch_size", ARMS, "tiny", [0], 60, {}, tmp_path, [])
    assert again.own == {"mine": {"recipe": "microcoder", "mask_ratio": 0.5}}
    assert [row["name"] for row in again.page.rows["rows"]] == [
        "intermediate batch, seed 0",
        "mine, seed 0",
    ]
    (row,) = again.form.own
    assert (row["told"], row["action"]) == ("stopped; updates: 0 of 60", "resume")
    again._pressed({"action": "remove", "name": "mine"})
    assert again.own == {}
    assert json.loads((tmp_path / "batch_size.arms.json").read_text()) == {}
    again.close()


def test_a_remembered_arm_that_does_not_fit_here_is_left_out_and_can_be_removed(
    tmp_path: Path,
) -> None:
    late = {"recipe": "microcoder", "temperature_stages": "0:0.6,96:1.2"}
    kept = {"late": {"settings": late, "seeds": [0]}}
    write_json(tmp_path / "batch_size.arms.json", kept)
    short = Workbench("batch_size", ARMS, "tiny", [0], 60, {}, tmp_path, [])
    assert short.own == {}
    (row,) = short.form.own
    assert row["told"].startswith("left out, it does not fit here: arm 'late': ")
    assert "there is an arm 'late' already" in ask(short, name="late", values={})["problem"]
    short._pressed({"action": "remove", "name": "late"})
    assert json.loads((tmp_path / "batch_size.arms.json").read_text()) == {}
    short.close()


def test_an_arm_that_is_recorded_is_not_trained_and_other_views_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dashboard, "_follow", lambda self: self._stop.wait())
    records = tmp_path / "records"
    records.mkdir()
    mine = {"recipe": "microcoder", "mask_ratio": 0.5}
    (planned,) = plan_runs({"mine": mine}, ["tiny"], [0], 60)
    run = RunStore(tmp_path / "there").run(planned.config)
    run.begin({"run_id": run.run_id, "seed": 0, "config": planned.config.to_dict(), "started": 1.0})
    run.finish(2.0)
    write_compact(run, records / f"{run.run_id}.parquet")
    bench = Workbench("batch_size", ARMS, "tiny", [0], 60, {}, tmp_path / "here", [records])
    file = tmp_path / "here" / "batch_size.arms.json"
    write_json(file, {"theirs": {"settings": {"recipe": "grpo"}, "seeds": [0]}})
    ask(bench, name="mine", base="microcoder", values={"mask_ratio": "0.5"})
    bench._pressed({"action": "add"})
    assert bench.own == {"mine": mine}
    assert not (tmp_path / "here" / "trainings").exists()
    assert set(json.loads(file.read_text())) == {"theirs", "mine"}
    bench._pressed({"action": "remove", "name": "mine"})
    assert set(json.loads(file.read_text())) == {"theirs"}
    bench.close()


def test_in_batch_there_is_nothing(tmp_path: Path) -> None:
    assert workbench("batch_size", ARMS, "no such profile", runs_dir=tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_record_stands_in_until_the_run_is_trained_again(tmp_path: Path) -> None:
    run = finished(tmp_path / "there", "a", "microcoder", 0, 40)
    record = write_compact(run, tmp_path / "a.parquet")
    follower = RunFollower(tmp_path / "here" / "a", label="mine", record=record)
    assert follower.poll()
    assert not follower.poll()
    assert (progress_of(follower).state, len(follower.steps)) == ("finished", 40)
    assert follower.evals["pass_at_1"].notna().all()
    begin(tmp_path / "here", "a")
    assert follower.poll()
    assert (progress_of(follower).state, len(follower.steps)) == ("starting", 0)


def test_a_page_is_linked_where_this_kernel_s_server_serves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(
        "jupyter_server.serverapp.list_running_servers",
        lambda: [{"pid": 7, "root_dir": str(tmp_path), "base_url": "/user/ada/"}],
    )
    monkeypatch.setenv("JPY_PARENT_PID", "7")
    assert served.served_at(tmp_path / "runs" / "a b.html") == "/user/ada/files/runs/a%20b.html"
    assert served.served_at(tmp_path.parent / "page.html") is None
    monkeypatch.setenv("JPY_PARENT_PID", "8")
    assert served.served_at(tmp_path / "page.html") is None
