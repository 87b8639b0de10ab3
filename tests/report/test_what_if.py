"""The mask asked again on recorded batches: by hand, by slider, from records."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cells import run_cells
from claims.effects import make_runs

from mcbench.claims.assess import assess
from mcbench.experiments.study import Study
from mcbench.grpo.masking import uniform_draws
from mcbench.report.what_if import _tokens, recorded_batches, survival, under, verdicts_if, what_if
from mcbench.runs.one_generation import Generation
from mcbench.worlds.tokenizer import load_tokenizer

from .made import study_of

REWARDS = [1.0, 0.0, 0.0, 0.0]


def stored(path: Any = None) -> Any:
    """A run with one batch: one right response, one cut, one cut in a loop, one wrong."""
    pieces = [list("ab"), list("abcdefgh"), list("abcdxyxy"), list("abc")]
    frame = pd.DataFrame(
        {
            "prompt": "p", "completion": ["".join(row) for row in pieces], "pieces": pieces,
            "truncated": [False, True, True, False], "masked": False, "reward": REWARDS,
            "advantage": 0.0, "verdicts": "WA", "group": 0,
        }
    )  # fmt: skip
    named = {"model": "another", "recipe": "microcoder", "train_set": "nano:train"}
    config = SimpleNamespace(max_completion_length=8, reward="tests", **named)
    return SimpleNamespace(
        seed=0, config=config, completion_steps=lambda: [1], completions=lambda step: frame
    )


def study(run: Any) -> Study:
    return Study("comparison", "nano", {"microcoder": [run]})


def recorded() -> Generation:
    ((name, read),) = recorded_batches(study(stored()))
    assert name == "MicroCoder-GRPO, seed 0, step 1"
    return read()


def test_eq_2_is_applied_again_with_other_settings() -> None:
    batch = recorded()
    everything = under(batch, 1.0, 2, "incorrect", 0).batch
    assert everything.masked.tolist() == [False, True, False, False]  # the loop is not spared
    assert everything.advantages == pytest.approx([1.4997, 0, -0.4999, -0.4999], abs=1e-4)
    assert under(batch, 1.0, 4, "incorrect", 0).batch.masked.tolist() == [False, True, True, False]
    assert not under(batch, 0.0, 2, "incorrect", 0).batch.masked.any()
    assert not under(batch, 1.0, 2, "correct", 0).batch.masked.any()
    draw = float(uniform_draws((3, 0, 0), 4)[1])
    for ratio in (draw - 0.01, draw + 0.01):
        assert under(batch, ratio, 2, "incorrect", 3).batch.masked[1] == (ratio > draw)


def test_what_survives_is_weighed_by_length() -> None:
    table = survival(under(recorded(), 1.0, 2, "incorrect", 0))
    # |A| x tokens: 1.5 * 2, 0.5 * 8, 0.5 * 8, 0.5 * 3 = 12.5, of which 4 are masked
    assert table.loc["all"].tolist() == [4, 2, 1, 68.0]
    assert table["weight left (%)"].iloc[-2] == 50.0  # the longest band: one of two equal ones


def test_a_slider_changes_what_is_shown() -> None:
    box = what_if(study(stored()))
    rho, window, _, _, shown = box.children
    rho.value, window.value = 1.0, 4
    assert "2 of 2 cut responses spared" in shown.value
    rho.value = 0.0
    assert "0 of 2 cut responses spared, 100.0 %" in shown.value
    window.value = 2
    assert "cut, but repeating itself" in shown.value


def test_without_tokens_there_is_nothing_to_ask() -> None:
    run = stored()
    run.completions = lambda step: pd.DataFrame({"reward": np.array(REWARDS)})
    (told,) = what_if(study(run)).children
    assert told.value == "No run here stored a batch with its tokens."


def test_claims_are_asked_again_with_fewer_seeds_and_other_margins() -> None:
    made = replace(
        study_of("context_length", make_runs("C2", 1, 5)),
        claimed={"context_length": make_runs("C2", 1, 5)},
    )
    made = replace(made, results=made.results_if(range(100)))
    assert made.results["C2"].state == "supported"
    assert made.results_if([30])["C2"].state == "inconclusive"  # one seed
    part = made.results_if(range(100), 2.0)["C2"].parts[0]
    assert part.margin == 2 * made.results["C2"].parts[0].margin
    margins, seeds, shown = verdicts_if(made).children
    assert "0 of " in shown.value
    seeds.value = seeds.options[:1]
    assert "1 of " in shown.value
    assert "1 of the 3 seeds it needs" in shown.value
    margins.value = 2.0
    assert "not the verdict" in shown.value


def test_seeds_of_the_protocol_are_asked_too_whether_fewer_would_do() -> None:
    runs = {arm: {seed - 20: one for seed, one in of.items()} for arm, of in
            make_runs("C2", 1, 5).items()}  # fmt: skip
    assert {seed for of in runs.values() for seed in of} == set(range(10, 15))
    made = replace(study_of("context_length", runs), claimed={"context_length": runs})
    assert made.results_if(range(100))["C2"].state == "supported"
    (verdict,) = (one for one in assess("context_length", runs).values() if one.claim.id == "C2")
    assert verdict.reason == "5 of the 12 seeds it needs"


def cells(shown: Any) -> list[str]:
    return re.findall("<td>(.*?)</td>", shown.value)


def test_another_target_takes_the_lowest_temperature_that_reaches_it() -> None:
    row = {"kind": "temperature_grid", "seed": 0, "step": 80}
    rows = [{**row, "temperature": t, "distinct_4": d} for t, d in ((0.6, 0.4), (1.2, 0.6))]
    made = Study("temperature", "nano", {}, measurements=rows)
    names, _ = run_cells("03_temperature", "whatifimports", "whatifcell", study=made)
    target, shown = names["target_if"](made).children
    target.value = 0.4
    assert cells(shown) == ["after 80 steps", "0", "0.6", "0.4", "True"]
    target.value = 0.45
    assert cells(shown) == ["after 80 steps", "0", "1.2", "0.6", "True"]


def test_a_lower_limit_cuts_what_is_longer() -> None:
    run = stored()
    frame = run.completions(1).assign(length=[2, 8, 8, 3])
    run.completions = lambda step: frame
    names, _ = run_cells("09_context_length", "whatifimports", "whatifcell", study=study(run))
    limit, shown = names["limit_if"](study(run)).children
    assert limit.value == 8
    limit.value = 2
    assert cells(shown) == ["75.0", "25.0", "25.0"]
    limit.value = 1
    assert cells(shown) == ["100.0", "25.0", "0.0"]


def test_a_record_without_tokens_is_read_by_the_model_s_tokenizer() -> None:
    run: Any = SimpleNamespace(config=SimpleNamespace(model="nano-s"))
    frame = pd.DataFrame({"completion": ["in 1 out 2\n", "in 1"], "length": [6, 2]})
    texts = load_tokenizer()(list(frame["completion"]), add_special_tokens=False)["input_ids"]
    frame["length"] = [len(texts[0]) + 1, len(texts[1])]  # the first ended by itself
    assert _tokens(run, frame) == [[*texts[0], "end"], texts[1]]
    assert _tokens(run, frame.assign(length=99)) is None
    run.config.model = "another"
    assert _tokens(run, frame) is None
