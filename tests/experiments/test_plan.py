"""Plans of several experiments: what is shared, finished or kept as a record, and the time."""

import pytest

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments import experiments
from mcbench.experiments.experiments import Experiment, planned_together
from mcbench.experiments.plan import make_plan
from mcbench.experiments.training import train_missing
from mcbench.runs.store import RunStore


@pytest.fixture(autouse=True)
def two_experiments(monkeypatch):
    """They share the arm without settings of its own."""
    plain, masked = {"recipe": "grpo_plus"}, {"recipe": "microcoder", "mask_ratio": 0.5}
    for name, own in (("one", {"plain": plain, "masked": masked}), ("two", {"usual": plain})):
        made = Experiment(name, "", "", own, (0,), ("tiny",))
        monkeypatch.setitem(experiments.EXPERIMENTS, name, made)


@pytest.fixture
def asked(tiny_settings):
    return planned_together(["one", "two"], steps=2, settings=tiny_settings)


def test_an_arm_of_two_experiments_is_one_run(asked, tmp_path):
    plan = make_plan(asked, RunStore(tmp_path))
    assert [one.label for one in plan.distinct] == ["one plain seed 0", "one masked seed 0"]
    assert plan.describe() == [
        "runs: 3 by arm and seed, 2 distinct, 1 saved by sharing",
        "finished: 0, to train: 2",
        "estimated time: unknown for 2 of tiny, of which no run is finished: mcbench train "
        "--profile tiny --dry-run --measure times one",
    ]


@pytest.mark.slow
def test_what_is_kept_as_a_record_is_finished_and_gives_the_pace(asked, tmp_path):
    store, kept, lines = RunStore(tmp_path / "runs"), tmp_path / "kept", []
    train_missing("both", asked[:1], store.root, lines.append, keep=kept)
    (record,) = kept.glob("*.parquet")
    assert record.stem == asked[0].config.run_id

    elsewhere = RunStore(tmp_path / "other")
    plan = make_plan(asked, elsewhere, [kept])
    assert [one.label for one in plan.missing] == ["one masked seed 0"]
    assert "(by 1 finished run of tiny)" in plan.describe()[2]
    before = record.read_bytes()
    train_missing("both", asked, elsewhere.root, lines.append, keep=kept)
    assert "both: 2 runs, 1 from records, 1 to train" in lines
    assert not elsewhere.run(asked[0].config).path.exists()
    assert len(list(kept.glob("*.parquet"))) == 2
    assert record.read_bytes() == before

    record.unlink()
    assert [one.label for one in make_plan(asked, elsewhere, [kept]).missing] == [
        "one plain seed 0"
    ]


def test_arms_are_chosen_for_one_experiment(asked):
    with pytest.raises(UserError, match="arms can be chosen for one experiment, got one, two"):
        planned_together(["one", "two"], arms=["plain"])


def test_the_command_plans_the_whole_set(capsys, tmp_path, tiny_settings):
    changes = [f"--set={name}={value}" for name, value in tiny_settings.items()]
    command = ["sweep", "one", "two", "--steps", "2", "--dry-run", "--runs-dir", str(tmp_path)]
    assert main([*command, *changes]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 5
    assert out[0].startswith("runs: 3 by arm and seed, 2 distinct")
    assert not list(tmp_path.iterdir())
