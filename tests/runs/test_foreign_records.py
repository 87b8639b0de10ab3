"""One foreign or damaged record in a folder is named and left out; the others are read."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.grpo.temperature import Choice
from mcbench.report.dashboard.follower import StoreFollower
from mcbench.runs.compact import read_compact
from mcbench.runs.records import _say, finished_records, read_record, read_records
from mcbench.runs.resolve import described
from mcbench.runs.store import Run, RunStore, read_run

RECORDS = Path(__file__).parents[2] / "reports" / "records"
OURS = sorted(RECORDS.glob("*.parquet"))[0]


def meta(**changes):
    return json.dumps({**read_compact(OURS).meta, **changes})


def config(**changes):
    return {**read_compact(OURS).meta["config"], **changes}


FOREIGN = {
    "empty": "",
    "nothing_in_it": "{}",
    "truncated": meta()[:200],
    "of_another_program": '{"name": "sweep", "config": {"lr": 1}, "state": "finished"}',
    "of_another_run": '{"run_id": "x", "seed": 0, "state": "finished", "config": {"lr": 1}}',
    "a_list": "[1, 2]",
    "a_number": "7",
    "no_text": b"\xff\xfe",
    "deep": "[" * 100_000,
    "of_a_later_version": meta(config=config(a_setting_that_does_not_exist=1)),
    "with_a_value_that_is_none": meta(config=config(steps="many")),
    "with_a_text_for_a_config": meta(config="nano"),
    "with_no_id": meta(run_id=None),
    "with_a_text_for_a_time": meta(started="yesterday"),
    "with_a_list_of_versions": meta(versions=["1.0"]),
    "with_a_text_for_a_choice": meta(temperature_choice="hot"),
    "with_half_a_choice": meta(temperature_choice={"temperature": 1.0}),
    "with_an_empty_choice": meta(
        temperature_choice=vars(Choice(1.0, 0.8, reached=True, measured={}, explanation=""))
    ),
}
LINES = {  # of a record that is ours otherwise
    "broken_lines": ("steps.jsonl", "7"),
    "no_number": ("steps.jsonl", '{"step": "one"}'),
    "text_for_a_loss": ("steps.jsonl", '{"step": 1, "loss": "low"}'),
    "list_for_a_reward": ("steps.jsonl", '{"step": 1, "reward": [1]}'),
    "no_evaluation": ("evals.jsonl", '{"step": 0}'),
    "no_problems": (
        "evals.jsonl",
        '{"step": 0, "max_completion_length": 9, "pass_at_1": 0, "mean_length": 1}',
    ),
    **{
        f"evaluation_{name}": (
            "evals.jsonl",
            json.dumps({**read_compact(OURS).eval_lines[0], **own}, default=list),
        )
        for name, own in {
            "temperature": {"temperature": "hot"},
            "parts": {"parts": None},
            "problems": {"per_problem": [1]},
            "passes": {
                "per_problem": [
                    {**read_compact(OURS).eval_lines[0]["per_problem"][0], "passes": None}
                ]
            },
        }.items()
    },
}
PARQUETS = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no parquet"),
    "table": lambda path: pq.write_table(pa.table({"a": [1, 2]}), path),
    "kinds": lambda path: pq.write_table(pa.table({"table": ["meta"], "row": ["7"]}), path),
    "rows": lambda path: pq.write_table(pa.table({"table": ["meta"], "row": [3]}), path),
    "folder": lambda path: path.mkdir(),
}


@pytest.fixture
def folder(tmp_path):
    """One record of ours, and everything else."""
    found = tmp_path / "runs"
    found.mkdir()
    for path in (OURS, *RECORDS.glob("*-*.json")):
        shutil.copy(path, found)
    for name, text in FOREIGN.items():
        (found / name).mkdir()
        (found / name / "run.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    (found / "a_folder" / "run.json").mkdir(parents=True)
    for name, (file, line) in LINES.items():
        (found / name).mkdir()
        (found / name / "run.json").write_text(meta())
        (found / name / file).write_text(line + "\n")
    (found / "lines_are_a_folder").mkdir()
    (found / "lines_are_a_folder" / "run.json").write_text(meta())
    (found / "lines_are_a_folder" / "steps.jsonl").mkdir()
    for name, write in PARQUETS.items():
        write(found / f"{name}.parquet")
    _say.cache_clear()
    return found


def names(told):
    return {line for line in told.splitlines() if line.startswith("left out: ")}


def test_what_is_foreign_is_named_once_in_one_line_each(folder, capfd):
    for _ in range(2):
        assert [one.run_id for one in read_records(folder)] == [OURS.stem]
        assert [one.run_id for one in finished_records(folder)] == [OURS.stem]
    assert len(read_records(OURS, folder, OURS)) == 1  # one run, wherever it is
    told = capfd.readouterr().err.splitlines()
    assert all(line.startswith("left out: ") for line in told)
    wanted = {
        *FOREIGN,
        *LINES,
        "a_folder",
        "lines_are_a_folder",
        *(f"{n}.parquet" for n in PARQUETS),
    }
    assert len(told) == len(wanted) - 1  # a folder is no file, whatever its name
    for name in wanted - {"folder.parquet"}:
        assert any(f"/{name}" in line for line in told), name


@pytest.mark.parametrize(
    "command",
    [
        ["runs"],
        ["runs", OURS.stem[:6]],
        ["runs", "--where", "seed=1"],
        ["train", "--profile", "nano", "--dry-run"],
        ["sweep", "truncation_mask", "--seeds", "1", "--dry-run"],
        ["report", "FOLDER", "-o", "OUTPUT"],
        ["report", "FOLDER", "--insights"],
    ],
)
def test_every_command_steps_over_it(folder, tmp_path, capfd, command):
    given = {"FOLDER": str(folder), "OUTPUT": str(tmp_path / "page.html")}
    command = [given.get(one, one) for one in command]
    if command[0] != "report":
        command += ["--runs-dir", str(folder)]
    assert main(command) == 0
    printed = capfd.readouterr()
    assert "Traceback" not in printed.err
    assert len(names(printed.err)) >= len(FOREIGN)


def test_the_dashboard_steps_over_it(folder, capfd):
    store = StoreFollower(folder)
    for _ in range(2):
        store.poll()
    shown = [name for name, run in store.runs.items() if run.meta]
    assert shown == sorted([*LINES, "lines_are_a_folder"])
    assert all(store.runs[name].damaged for name in LINES)
    assert len(names(capfd.readouterr().err)) == len(FOREIGN)


@pytest.mark.parametrize("name", [*FOREIGN, *LINES, *(f"{n}.parquet" for n in PARQUETS)])
def test_a_path_that_is_named_must_hold_a_record(folder, name):
    with pytest.raises(UserError) as caught:
        read_records(folder / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    with pytest.raises(UserError):
        read_record(folder / name)


def test_a_folder_of_nothing_else_holds_no_record(folder):
    (folder / OURS.name).unlink()
    with pytest.raises(UserError, match="holds no run and no compact record that can be read"):
        read_records(folder)


def test_a_run_whose_own_run_json_is_damaged_says_so(tmp_path):
    run = RunStore(tmp_path).run(described("tiny"))
    run.path.mkdir()
    (run.path / "run.json").touch()
    with pytest.raises(UserError, match=r"run\.json is damaged, or no record of a run"):
        assert Run(run.path).state


def test_what_a_person_puts_into_a_run_folder_is_left_alone(tmp_path):
    run = Run(tmp_path / "run")
    for name in ("checkpoint-4", "checkpoint-8-backup", "checkpoint-best"):
        (run.checkpoints / name).mkdir(parents=True)
        (run.checkpoints / name / "COMPLETE").touch()
    (tmp_path / "run" / "completions").mkdir()
    for name in ("step_000009.parquet", "step_000009 (copy).parquet", "step_x.parquet"):
        (tmp_path / "run" / "completions" / name).touch()
    (tmp_path / "run" / "lock").write_text('{"pid": 1}')
    (tmp_path / "run" / "run.json").write_text(meta(state="running"))
    assert run.last_checkpoint()[0] == 4
    assert (run.state, read_run(run.path).completion_steps()) == ("interrupted", [9])
    with pytest.raises(UserError, match=r"step_000009\.parquet is damaged"):
        read_run(run.path).completions(9)
    run.rewind(0)
    assert len([*run.checkpoints.iterdir()]) == len([*(run.path / "completions").iterdir()]) == 2
