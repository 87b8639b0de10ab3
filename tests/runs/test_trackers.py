"""report_to: Trackio, TensorBoard and Weights & Biases, each with its own package, offline."""

import json
import struct

import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.runs import trackers
from mcbench.runs.resolve import resolve
from mcbench.runs.store import Run, read_run
from mcbench.runs.train import train

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def tracked(tiny_settings, tmp_path, monkeypatch):
    """Trains four updates that report to one tracker; skips where it is not installed."""
    for name in ("TRACKIO_DIR", "WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")

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

        def table(self, frame, step):
            sent.append((step, frame))

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
    columns = {"group": [0, 3, 4], "completion": list("abc"), "verdicts": ["AC", "WA", "RE"]}
    run.write_completions(9, {**columns, "tokens": [[1], [2], [3]]})
    assert sent[:4] == [
        (3, {"reward": 0.5}),
        (8, {"eval/96/pass_at_1": 0.25}),
        (8, {"eval/96/T=0.6/pass_at_1": 0.25}),
        (8, {"eval/96/part/pass_at_1": 0.25}),
    ]
    step, frame = sent[4]
    assert step == 9
    assert frame.to_dict("list") == {
        "group": [0, 3], "completion": ["a", "b"], "verdicts": ["AC", "WA"],
    }  # fmt: skip


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

    (name,) = SQLiteStorage.get_runs(trackers.PROJECT)
    assert record.run_id in str(name)
    logs = SQLiteStorage.get_logs(trackers.PROJECT, name)
    found = {one["step"]: one["reward"] for one in logs if "reward" in one}
    assert found == pytest.approx(numbers(record, "reward"))
    assert any("eval/12/pass_at_1" in one for one in logs)
    tables = [one["responses"] for one in logs if "responses" in one]
    assert len(tables) == len(record.completion_steps())
    assert {"prompt", "completion", "verdicts"} <= set(tables[0]["_value"][0])


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
