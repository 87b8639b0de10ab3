"""report_to: Trackio, TensorBoard and Weights & Biases, each with its own package, offline."""

import json
import math
import struct

import pandas as pd
import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments.study import run_study
from mcbench.runs import trackers
from mcbench.runs.compact import SAMPLE_GROUPS
from mcbench.runs.resolve import resolve
from mcbench.runs.store import Run, read_run
from mcbench.runs.train import train

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """Trackers keep what they get in a folder of this test."""
    for name in ("TRACKIO_DIR", "WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")


@pytest.fixture
def tracked(tiny_settings, tmp_path, offline):
    """Trains four updates that report to one tracker; skips where it is not installed."""

    def run(name):
        pytest.importorskip(name, reason=f"{name} is not installed")
        config = resolve("tiny", "grpo", {**tiny_settings, "report_to": [name]}, steps=4)
        return read_run(train(config, tmp_path / "runs", lambda line: None).path)

    return run


def numbers(record, name):
    """By step, where there is one."""
    found = record.steps.set_index("step")[name].dropna()
    return dict(zip(found.index.tolist(), found.tolist(), strict=True))


def test_it_is_no_part_of_the_id_and_off_by_default(tiny_settings):
    plain = resolve("tiny", "grpo", tiny_settings)
    told = resolve("tiny", "grpo", {**tiny_settings, "report_to": ["tensorboard", "trackio"]})
    assert plain.report_to == ()
    assert told.run_id == plain.run_id
    assert told.computation == plain.computation


def test_an_unknown_or_missing_tracker_is_one_sentence(tiny_settings, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"report_to.*'mlflow'.*tensorboard"):
        resolve("tiny", "grpo", {**tiny_settings, "report_to": ["mlflow"]})
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    config = resolve("tiny", "grpo", {**tiny_settings, "report_to": ["wandb"]})
    with pytest.raises(UserError, match="run pip install wandb"):
        train(config, tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_is_recorded_is_sent(tmp_path):
    """Every number, evaluations by length, temperature and part, samples without their tokens."""
    sent = []

    class Listener:
        def log(self, values, step):
            sent.append((step, values))

        def table(self, name, frame, step):
            sent.append((step, name, frame))

        def close(self):
            sent.append("closed")

    config = resolve("nano", "grpo", {"small_eval_every": 8})
    run = Run(tmp_path)
    (tmp_path / "completions").mkdir()
    run.trackers = trackers.Trackers([Listener()], config)
    run.lock.acquire()
    run.append_step({"step": 3, "time": 1.0, "reward": 0.5, "kl": None, "histogram/x": [1]})
    line = {"step": 8, "max_completion_length": 96, "attempts": 4, "pass_at_1": 0.25}
    for temperature, problems in ((1.0, 120), (0.6, 120), (1.0, 60)):
        run.append_eval({**line, "temperature": temperature, "per_problem": [{}] * problems})
    last = SAMPLE_GROUPS - 1
    columns = {
        "group": [0, last, last + 1],
        "completion": list("abc"),
        "verdicts": ["AC", "WA", "RE"],
    }
    run.write_completions(9, {**columns, "tokens": [[1], [2], [3]]})
    assert sent[:4] == [
        (3, {"reward": 0.5}),
        (8, {"eval/96/pass_at_1": 0.25}),
        (8, {"eval/96/T=0.6/pass_at_1": 0.25}),
        (8, {"eval/96/part/pass_at_1": 0.25}),
    ]
    step, name, frame = sent[4]
    assert (step, name) == (9, "responses")
    assert frame.to_dict("list") == {
        "group": [0, last], "completion": ["a", "b"], "verdicts": ["AC", "WA"],
    }  # fmt: skip


def test_verdicts_are_a_run_of_their_own(tmp_path, monkeypatch):
    """A claim's numbers where it has some, the table as it is, and an end also after an error."""
    sent = []

    class Recorder:
        def __init__(self, name, folder, settings, label, id_):
            sent.append((name, label, id_, folder.is_dir()))

        def log(self, values, step):
            sent.append((values, step))

        def table(self, name, frame, step):
            sent.append((name, frame.to_dict("list"), step))
            if frame.empty:
                raise OSError("full")

        def close(self):
            sent.append("closed")

    monkeypatch.setattr(trackers, "_opened", Recorder)
    rows = {
        "id": ["B1", "B2"], "claim": ["more", "less"], "state": ["supported", "missing"],
        "effect": [0.5, math.nan], "low": [0.25, math.nan], "high": [0.75, math.inf],
    }  # fmt: skip
    about = {"name": "batch_size", "id": "abc", "margin": 0.02}
    verdicts = pd.DataFrame(rows)
    trackers.send_verdicts(["trackio", "wandb"], tmp_path / "verdicts", about, verdicts)
    numbers = {f"verdicts/B1/{part}": rows[part][0] for part in ("effect", "low", "high")}
    one = [(numbers, None), ("verdicts", verdicts.to_dict("list"), None), "closed"]
    begun = ("batch_size, verdicts", "abc", True)
    assert [str(part) for part in sent] == [
        str(part) for part in [("trackio", *begun), *one, ("wandb", *begun), *one]
    ]
    with pytest.raises(OSError, match="full"):
        trackers.send_verdicts(["trackio"], tmp_path, about, verdicts[:0])
    assert sent[-1] == "closed"


@pytest.mark.slow
def test_tensorboard(tracked):
    record = tracked("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(record.path / "tensorboard"))
    events.Reload()
    for name in ("reward", "loss", "completions/mean_length", "diversity/distinct_4"):
        found = {one.step: one.value for one in events.Scalars(name)}
        assert found == pytest.approx(numbers(record, name))
    scores = {one.step: one.value for one in events.Scalars("eval/12/pass_at_1")}
    lines = [one for one in record.eval_lines if one["max_completion_length"] == 12]
    assert scores == pytest.approx({one["step"]: one["pass_at_1"] for one in lines})
    samples = events.Tensors("responses/0/text_summary")
    assert [one.step for one in samples] == record.completion_steps()
    told = samples[0].tensor_proto.string_val[0].decode()
    assert "verdicts " in told
    assert record.completions(1)["completion"][0].splitlines()[0] in told


@pytest.mark.slow
def test_trackio(tracked):
    record = tracked("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    (name,) = (one for one in SQLiteStorage.get_runs(trackers.PROJECT) if record.run_id in str(one))
    logs = SQLiteStorage.get_logs(trackers.PROJECT, name)
    found = {one["step"]: one["reward"] for one in logs if "reward" in one}
    assert found == pytest.approx(numbers(record, "reward"))
    assert any("eval/12/pass_at_1" in one for one in logs)
    tables = [one["responses"] for one in logs if "responses" in one]
    assert len(tables) == len(record.completion_steps())
    assert {"prompt", "completion", "verdicts"} <= set(tables[0]["_value"][0])


@pytest.fixture
def decided(tmp_path, offline):
    """Compares committed runs with the verdicts reported to one tracker, and says it twice."""

    def study(name):
        pytest.importorskip(name, reason=f"{name} is not installed")
        for _ in range(2):
            found = run_study(
                None, "batch_size", seeds=[0, 1, 2], settings={"report_to": [name]},
                runs_dir=tmp_path, progress=lambda line: None,
            )  # fmt: skip
        rows = found.verdicts().set_index("id")
        assert len(rows) > 1
        assert rows["effect"].notna().any()
        return rows

    return study


@pytest.mark.slow
def test_verdicts_of_claims_reach_tensorboard(decided, tmp_path):
    rows = decided("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = tmp_path.glob("verdicts/batch_size-*/tensorboard")
    events = EventAccumulator(str(folder))
    events.Reload()
    for place, (claim, row) in enumerate(rows.iterrows()):
        (*_, last) = events.Tensors(f"verdicts/{place}/text_summary")
        told = last.tensor_proto.string_val[0].decode()
        assert f"id {claim}, state {row['state']}" in told
        assert row["claim"] in told
        if row["effect"] == row["effect"]:
            (*_, last) = events.Scalars(f"verdicts/{claim}/effect")
            assert last.value == pytest.approx(row["effect"])


@pytest.mark.slow
def test_verdicts_of_claims_reach_trackio(decided):
    rows = decided("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    (name,) = (one for one in SQLiteStorage.get_runs(trackers.PROJECT) if "verdicts" in str(one))
    logs = SQLiteStorage.get_logs(trackers.PROJECT, name)
    *_, table = (one["verdicts"] for one in logs if "verdicts" in one)
    assert [one["state"] for one in table["_value"]] == list(rows["state"])
    *_, numbers = (one for one in logs if any(key.startswith("verdicts/") for key in one))
    known = rows["effect"].dropna()
    assert {c: numbers[f"verdicts/{c}/effect"] for c in known.index} == pytest.approx(dict(known))


@pytest.mark.slow
def test_verdicts_of_claims_reach_wandb(decided, tmp_path):
    rows = decided("wandb")
    *_, path = sorted(tmp_path.glob("verdicts/*/wandb/offline-run-*/files/media/table/*.json"))
    table = json.loads(path.read_text())
    states = [row[table["columns"].index("state")] for row in table["data"]]
    assert states == list(rows["state"])


def test_a_missing_tracker_is_said_before_anything_is_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="run pip install trackio"):
        run_study(None, "batch_size", settings={"report_to": ["trackio"]}, runs_dir=tmp_path)


def records_of(data):
    """The records of an offline run: a log as LevelDB writes it, in blocks of 32 KiB, each part
    of a record behind its checksum, length and kind (whole, first, middle, last), after 7 bytes.
    """
    place, parts = 7, b""
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


@pytest.mark.slow
def test_wandb_offline(tracked):
    record = tracked("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = record.path.glob("wandb/offline-run-*/run-*.wandb")
    rows = []
    for data in records_of(path.read_bytes()):
        entry = Record()
        entry.ParseFromString(data)
        if entry.HasField("history"):
            items = entry.history.item
            rows.append({"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in items})
    found = {one["_step"]: one["reward"] for one in rows if "reward" in one}
    assert found == pytest.approx(numbers(record, "reward"))
    assert any("eval/12/pass_at_1" in one for one in rows)
    assert list(record.path.glob("wandb/offline-run-*/files/media/table/*.table.json"))


def test_the_command_takes_it(tiny_settings, capsys):
    settings = [f"--set={name}={json.dumps(value)}" for name, value in tiny_settings.items()]
    more = ["--set", 'report_to=["tensorboard"]', "--dry-run"]
    assert main(["train", "--profile", "tiny", *settings, *more]) == 0
    assert '"report_to"' in capsys.readouterr().out
