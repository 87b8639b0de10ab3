"""Maps over conditions: the planned cells, effects by hand, the paragraph."""

import numpy as np
import pytest
from cells import run_cells
from fake_cells import ARMS, NAME, maps_of
from scipy import stats

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.experiments.experiments import grid, planned_runs


def test_the_protocol_s_cells_are_planned_seed_by_seed():
    planned = planned_runs(NAME)
    assert len({one.config.run_id for one in planned}) == len({one.label for one in planned}) == 300
    assert [one.config.seed for one in planned] == sorted(one.config.seed for one in planned)
    cells = {
        (one.config.model, one.config.learning_rate, one.config.max_completion_length)
        for one in planned
    }
    small = {cell[1:] for cell in cells if cell[0] == "nano-s2"}
    assert len(small) == 16
    assert {limit for _, limit in small} == {48, 72, 96, 144}
    assert {cell[1:] for cell in cells if cell[0] == "nano-m"} == {
        (1e-4, 48), (2e-4, 72), (3.5e-4, 96), (5e-4, 144)
    }  # fmt: skip
    assert {one.config.steps for one in planned} == {320}
    assert {one.config.eval_lengths for one in planned} == {(96, 192)}
    assert planned[0].label == "none seed 30 at 0.0001 x 48"


def test_a_sweep_plans_the_same_runs(capsys, tmp_path):
    command = ["sweep", "where_it_holds", "--dry-run", "--arms", "none", "--seeds", "30"]
    assert main([*command, "--runs-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    wanted = [one for one in planned_runs(NAME, seeds=[30]) if one.arm == "none"]
    ids = [one.config.run_id for one in wanted]
    listed = [line.split(" ")[0] for line in printed.splitlines()]
    assert [one for one in listed if one in ids] == ids
    assert "runs: 20 by arm and seed, 20 distinct" in printed


def test_effects_are_differences_of_last_windows_with_intervals_from_the_seeds():
    made, _ = maps_of()
    rows = made["effects"]
    assert set(rows["rule"]) == {"all"}
    assert rows["length"].tolist() == [96, 192]
    one = rows.iloc[0]
    assert (one["model"], one["limit"], one["seeds"]) == ("nano-s2", 96, 3)
    assert one["effect"] == pytest.approx(18.75)
    # At least Student's t over 25, 12.5 and 18.75; the choice of problems adds a little.
    half = stats.t.ppf(0.975, 2) * 6.25 / np.sqrt(3)
    assert one["effect"] - one["low"] == pytest.approx(half, rel=0.05)
    assert one["effect"] - one["low"] >= half - 1e-6
    assert one["state"] == "higher"
    assert made["pooled"](rows[:1]).value == pytest.approx(18.75)
    assert made["finding"].startswith(
        "A rule against none, by cell and evaluated length: higher in 2 of 2, the others"
    )
    (told,) = made["sentences"]
    assert told.startswith("mask all (DeepCoder), nano-s2: on average +18.8 points (")
    assert "; at 96 tokens higher in 1 of 1 (learning rate 0.0002, 96 tokens); at 192" in told


def test_states_are_corrected_over_the_cells_of_a_map():
    made, _ = maps_of((2e-4, 5e-4))
    rows = made["effects"][made["effects"]["length"] == 96]
    assert rows["effect"].tolist() == pytest.approx([18.75, 0])
    assert rows["state"].tolist() == ["undecided"] * 2  # p is .035, and doubled
    assert made["finding"] == "No cell decided: 3 seeds a cell are too few for any of them."
    pooled = made["pooled"](rows)  # 12.5, 6.25 and 9.375 by seed
    assert pooled.value == pytest.approx(9.375)
    told = f"on average +9.4 points ({pooled.low:+.1f} to {pooled.high:+.1f}) at 96 tokens and +9.4"
    assert told in made["sentences"][0]
    assert made["sentences"][0].endswith("; no cell decided.")
    row = made["means"][0]
    assert [row[name] for name in ("cells", "higher", "undecided")] == [2, 0, 2]
    assert row["mean (points)"] == "+9.4"


def test_cells_are_in_order_and_a_further_model_has_its_own():
    made, _ = maps_of((5e-4, 2e-4), ("100%", "50%"), "nano-m")
    assert [cell[1:] for cell in made["cells"] if cell[0] == "nano-s2"] == [
        (48, 2e-4), (48, 5e-4), (96, 2e-4), (96, 5e-4)
    ]  # fmt: skip
    assert [cell[1:] for cell in made["cells"] if cell[0] == "nano-m"] == [(48, 2e-4), (96, 5e-4)]
    assert len({made["anchor"](*cell) for cell in made["cells"]}) == 6


def test_a_cell_without_runs_of_both_arms_is_undecided():
    made, _ = maps_of(counted=lambda one: one.config.truncation_mask == "all")
    assert made["effects"]["effect"].isna().all()
    assert set(made["effects"]["state"]) == {"undecided"}
    assert made["pooled"](made["effects"]).seeds == 0
    nothing, shown = maps_of(counted=lambda one: False)
    assert nothing["finding"] == "Nothing is recorded of these cells yet."
    assert len(shown) == 2


@pytest.mark.parametrize(("arms", "rates"), [({"all": {}}, [1e-4]), (ARMS, [])])
def test_wrong_grids_are_one_sentence(arms, rates):
    given = {"arms": arms, "rates": rates, "limits": ["50%"], "added": {}, "grid": grid}
    with pytest.raises(UserError, match="an arm named 'none', and at least one rate and one limit"):
        run_cells("12_where_it_holds", "cell-04", **given)
