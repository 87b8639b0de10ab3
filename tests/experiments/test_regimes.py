"""What the two nano regimes and the saturated set were chosen by: notebook 10 shows the figures."""

from pathlib import Path

import pytest

from mcbench.runs.problems import load_problems
from mcbench.runs.records import read_records
from mcbench.worlds.graded import measured

ROOT = Path(__file__).parents[2]


def test_the_committed_pilots_are_unmasked_runs_of_seeds_that_decide_no_claim():
    pilots = read_records(ROOT / "reports" / "records" / "pilots")
    assert {run.config.recipe for run in pilots} == {"grpo_plus"}
    assert {run.seed for run in pilots} <= set(range(100, 104))
    once = [run.config for run in pilots if (run.config.num_iterations or 1) == 1]
    assert {config.learning_rate for config in once} >= {2e-4, 3e-4, 5e-4}


@pytest.mark.slow
def test_a_set_is_saturated_by_what_was_measured():
    problems = load_problems("nano-saturated:train")
    assert len(problems) == 176
    assert {(p.kind, p.difficulty) for p in problems} == {("described", "easy")}
    assert {p.id for p in problems} == set(measured("saturated")["ids"])
