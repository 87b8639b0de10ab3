"""Pages of the sections from synthetic records: complete, partial, and changed."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "lab"))
import synthetic_runs as synthetic

from mcbench.claims import INSIGHTS
from mcbench.claims.measurements import REPETITION
from mcbench.experiments.study import Study, shown_arms, study_of
from mcbench.report import paper, section
from mcbench.report.page import build_page
from mcbench.report.sections import SECTIONS, grid_values, repetition_table
from mcbench.report.site import results_records
from mcbench.report.verdicts import PAGES, insight_summary, summary_lines, summary_markup
from mcbench.runs.store import RunRecord

from .synthetic import make_record

CLAIMS = {
    "cross_model": "Q1",
    "truncation_mask": "M2",
    "temperature": "T7",
    "kl_and_clip": "K1",
    "batch_size": "B1",
    "context_length": "C2",
}


def study(experiment: str, effect: int = 1, seeds: int = 5) -> Study:
    records = synthetic.make_records(CLAIMS[experiment], effect, seeds)
    return study_of(experiment, records, synthetic.make_measurements(effect))


def html_of(made: Study) -> str:
    return build_page(section.section_page(made, "the command"), "plotly.js")


@pytest.mark.parametrize("experiment", SECTIONS)
def test_a_page_has_claims_paper_questions_and_says_what_it_is(experiment: str) -> None:
    made = study(experiment)
    html = html_of(made)
    assert html == html_of(made)
    for words in ("no evidence about Qwen3", "Beyond the paper", "the command", "The paper"):
        assert words in html
    for name in made.verdicts:
        assert INSIGHTS[name].claim.replace("'", "&#x27;") in html
    arm = next(arm for arm in made.arms)
    assert f'"legendgroup":"{arm}"' in html


def test_missing_arms_are_named_and_their_claims_inconclusive() -> None:
    found = study("batch_size").arms
    without = study_of("batch_size", {arm: found[arm] for arm in ("small", "medium")})
    assert {verdict.state for verdict in without.verdicts.values()} == {"inconclusive"}
    assert "Without a finished run: twice the batch." in section.lead(without)
    assert "no finished run of arm large" in html_of(without)


def test_a_changed_record_changes_the_page() -> None:
    made = study("context_length")
    assert made.verdicts["C2"].state == "supported"
    records: list[RunRecord] = [record for runs in made.arms.values() for record in runs]
    for record in records:
        for line in record.step_lines:
            line["completions/mean_length"] = 100 - line["completions/mean_length"]
    changed = study_of("context_length", records)
    assert changed.verdicts["C2"].state == "contradicted"
    assert html_of(changed) != html_of(made)


def test_the_papers_curves_and_numbers_stand_beside_ours() -> None:
    made = study("temperature")
    panel = section.section_panel(made, "diversity")
    plot = next(plot for plot in panel.plots if plot.id == "temperature-distinct-4")
    names = [trace.name for trace in plot.figure.data if trace.legendgroup == "paper"]
    assert len(names) == len(paper.CURVES["temperature"])
    assert list(section.paper_table("temperature").columns) == ["Arm", "Measure", "The paper"]
    assert all(experiment in paper.NUMBERS for experiment in SECTIONS)


def test_checkpoints_over_temperature_are_drawn_where_measured() -> None:
    made = study("temperature")
    (panel,) = SECTIONS["temperature"].extra(made)
    assert [plot.id for plot in panel.plots] == ["grid-diversity", "grid-accuracy"]
    values = grid_values([r for r in made.measurements if "distinct_4" in r], "distinct_4")
    assert list(values) == ["after 0 steps", "after 80 steps", "after 160 steps"]
    (nothing,) = SECTIONS["temperature"].extra(study_of("temperature", []))
    assert nothing.missing.startswith("Not recorded")


def test_repetition_by_both_rules_is_counted_by_arm() -> None:
    made = study("truncation_mask", seeds=1)
    counts = {"responses": 100, "truncated": 20, "window": 3, "periodic": 5}
    run_id = made.arms["all"][0].run_id
    row = {"kind": REPETITION, "run_id": run_id, "seed": 0, **counts}
    rows = [{**row, "step": 80}, {**row, "step": 160}, {**row, "run_id": "other", "step": 160}]
    table = repetition_table(study_of("truncation_mask", made.arms, rows))
    assert table.to_numpy().tolist() == [["mask all (DeepCoder)", 200, 40, 6, 10, 4]]
    assert repetition_table(made).empty


def test_the_summary_links_every_claim_and_question_to_its_page() -> None:
    records = [*synthetic.make_records("D2", 1), *synthetic.make_records("Q9", 1)]
    summary = insight_summary(records)
    assert sum(summary["states"].values()) == len(summary["rows"]) == 34
    assert {row["link"].partition(".")[0] for row in summary["rows"]} <= set(PAGES.values())
    assert summary["rows"][0]["link"] == "06_code_evaluator.html#verdicts"
    html = summary_markup(summary)
    assert html.count('href="02_truncation_mask.html#verdicts"') == 6
    assert "neither says anything about the paper&#x27;s models" in html
    lines = summary_lines(summary)
    assert lines[0].startswith("34 claims: 1 supported, 0 contradicted, 33 inconclusive")
    (line,) = [line for line in lines if line.startswith("D2 ")]
    assert "supported" in line
    assert "5 seeds" in line


def test_every_experiment_with_a_page_has_arms_to_show() -> None:
    assert all(shown_arms(experiment) for experiment in PAGES)


def test_the_results_page_takes_its_own_arms_only() -> None:
    own = make_record("grpo_plus", 0)
    shorter = make_record("grpo_plus", 0)
    shorter.config["changes"] = {"max_completion_length": 48}
    shared = make_record("microcoder", 0)
    shared.config["changes"] = {"mask_ratio": 0.2}  # as another experiment calls the usual rho
    alone = make_record("grpo_plus", 0, model="nano-old")
    alone.config.name = "nano-old"
    assert results_records([alone, shorter, own, shared]) == [own, shared]
