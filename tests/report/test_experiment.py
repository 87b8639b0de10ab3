"""Pages of the experiments and of any runs: complete, partial, changed, unfinished."""

from copy import deepcopy
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from claims.effects import make_runs

from mcbench.claims import CLAIMS
from mcbench.claims.protocol import BEGAN
from mcbench.comparison import Comparison
from mcbench.errors import UserError
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import Study, studies
from mcbench.report import display, paper, sources
from mcbench.report.base import Figure
from mcbench.report.page import Panel
from mcbench.report.panels import constant
from mcbench.report.site import comparison_of, write_comparison
from mcbench.report.sources import Sources, arms_of, block_of
from mcbench.report.style import arm_styles, spoken
from mcbench.runs.store import RunRecord
from tests.quick import every

from . import synthetic
from .made import EFFECTS, head_for, html_for, page_for, planned_records, study, study_of

RECORDS = Path(__file__).parents[2] / "reports" / "records"


def frame(made: Study, name: str) -> pd.DataFrame:
    return sources.frame(Sources([made], made), name)


def panel_of(made: Study, name: str) -> Panel:
    found = block_of(Sources([made], made), name)
    assert isinstance(found, Panel)
    return found


@pytest.mark.parametrize("name", every(3, [*EFFECTS]))
def test_a_page_has_claims_paper_questions_and_says_what_it_is(name: str) -> None:
    made = study(name)
    html = html_for(made)
    assert html == html_for(made)
    for words in ("no evidence about Qwen3", "the call &lt;x&gt;", "2603.07777"):
        assert words in html
    for one in made.results:
        assert str(escape(CLAIMS[one].claim)).replace("&#x27;", "&#39;") in html
    assert ("Beyond the paper" in html) == any(not CLAIMS[one].directed for one in made.results)
    arm = next(iter(arms_of(made)))
    assert f'"legendgroup":"{arm}"' in html


@pytest.mark.parametrize(
    "name", every(4, [name for name, one in EXPERIMENTS.items() if not (one.beside or one.cells)])
)
def test_every_arm_of_an_experiment_is_found_and_drawn_under_a_name_of_its_own(name: str) -> None:
    (made,) = studies(name, planned_records(name))
    assert set(made.arms) == set(EXPERIMENTS[name].arms)
    labels = [style.label for style in arm_styles(arms_of(made)).values()]
    assert not set(labels) & set(EXPERIMENTS[name].arms)  # names for people
    looks = {(style.color, style.dash) for style in arm_styles(arms_of(made)).values()}
    assert len(looks) == len(labels)
    assert {style.label for style in page_for(made).arms.values()} >= {*labels}
    assert "Without a finished run" not in head_for(made).lead


def test_missing_arms_are_named_and_their_claims_inconclusive() -> None:
    runs = make_runs("B1", 1, 3)
    without = study_of("batch_size", {arm: runs[arm] for arm in ("small", "medium")})
    states = {one.state for name, one in without.results.items() if CLAIMS[name].directed}
    assert states == {"inconclusive"}
    assert "Without a finished run: twice the batch." in head_for(without).lead
    assert "no finished run of twice the batch" in html_for(without)


def test_a_changed_record_changes_the_page() -> None:
    made = study("context_length", 1, 5)
    assert made.results["C2"].state == "supported"
    other = study("context_length", -1, 5)
    assert other.results["C2"].state == "contradicted"
    assert html_for(other) != html_for(made)


def test_the_papers_curves_and_numbers_stand_beside_ours() -> None:
    made = study("temperature")
    panel = panel_of(made, "diversity")
    plot = next(plot for plot in panel.plots if plot.id == "distinct-4")
    names = [t["name"] for t in plot.figure.data if t.get("legendgroup") == "paper"]
    assert len(names) == len(paper.CURVES["temperature"])
    assert list(sources.papers_numbers("temperature").columns) == ["Arm", "Measure", "The paper"]


def test_the_data_behind_a_panel_are_a_frame() -> None:
    made = study("kl_and_clip", seeds=2)
    found = frame(made, "reward")
    assert list(found.columns) == ["figure", "series", "part", "x", "y"]
    assert set(found["figure"]) == {"Training reward", "Response length"}
    seeds = found.query("figure == 'Training reward' and part == 'seeds'")
    logged = [line for runs in made.arms.values() for run in runs for line in run.step_lines]
    assert len(seeds) == sum(line.get("reward") is not None for line in logged)
    with pytest.raises(UserError, match=r"unknown panel 'rewards'.*did you mean"):
        frame(made, "rewards")


def test_show_displays_figures_tables_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    monkeypatch.setattr("IPython.get_ipython", lambda: "a kernel")
    made = study("truncation_mask", seeds=2)
    names = ("coverage", "d-of-t", "accuracy")
    display.show(*(panel_of(made, name) for name in names))
    told = [one["text/plain"] for one in shown]
    assert [display.PLOTLY in one for one in shown] == [False] * 5 + [True, True]
    assert "D(T): Not recorded" in told[3]


def test_a_script_prints_lines_where_a_notebook_shows_figures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arms = {arm: [synthetic.make_record(arm, 0, steps=20)] for arm in ("grpo", "grpo_plus")}
    made = Comparison("comparison", "nano", arms)
    made.show("accuracy")
    (title, first, *_) = capsys.readouterr().out.splitlines()
    assert title == "Accuracy"
    assert first.startswith("pass@1 with up to 128 tokens (the training length): ")
    assert "from 0 to 20; at the end GRPO " in first
    path = made.report(tmp_path / "page.html")
    assert capsys.readouterr().out == f"report: {path}\n"
    assert made.verdicts().empty
    assert "No claim of the paper can be decided by these arms" in capsys.readouterr().out


# A comparison of any runs ------------------------------------------------------------------------


def test_arms_of_ones_own_get_a_page_with_table_one() -> None:
    arms = {
        name: [synthetic.make_record(recipe, seed, steps=20) for seed in range(2)]
        for name, recipe in (("mine", "grpo_plus"), ("<b>yours</b>", "microcoder"))
    }
    made = Study("comparison", "nano", arms)
    head = head_for(made)
    assert head.ends is not None
    assert {row.style.label for row in head.ends.rows} == {"mine", "<b>yours</b>"}
    html = html_for(made)
    assert html.count('class="results"') == 2  # ours and the paper's
    assert "<b>yours</b>" not in html
    assert "“&lt;b&gt;yours&lt;/b&gt;” ends highest" in html or "against “&lt;b&gt;yours" in html


def test_every_size_of_model_has_its_own_part_and_one_table() -> None:
    records = synthetic.make_records(seeds=1)
    records += [synthetic.make_record("grpo", 0, "nano-m", profile="nano-m")]
    page = page_for(*comparison_of(records))
    titles = [chapter.title for chapter in page.chapters]
    assert titles[0] == "Learning: nano-s"
    assert titles.index("Learning: nano-m") < titles.index("Table 1")
    (table,) = [chapter for chapter in page.chapters if chapter.title == "Table 1"]
    html = "".join(part.html for part in table.parts)
    assert 'scope="rowgroup">nano-s' in html
    assert 'scope="rowgroup">nano-m' in html


def test_arms_are_named_by_what_tells_them_apart() -> None:
    records = [
        synthetic.make_record("grpo", 0, settings=settings)
        for settings in ({"epsilon_high": 0.3}, {"epsilon_high": 0.2})
    ]
    (made,) = comparison_of(records)
    assert list(made.arms) == ["grpo (epsilon_high 0.3)", "grpo"]


def test_an_unfinished_run_is_marked_everywhere_and_left_out_of_the_ends() -> None:
    done, other = (synthetic.make_record("grpo", seed, steps=20) for seed in (0, 1))
    running = synthetic.make_record("microcoder", 0, steps=20, state="running")
    del running.step_lines[10:], running.eval_lines[4:]
    failed = replace(other, meta={**other.meta, "state": "failed"})
    made = comparison_of([done, failed, running])
    head = head_for(*made)
    assert head.ends is not None
    rows = {row.style.label: row for row in head.ends.rows}
    assert rows["MicroCoder-GRPO"].text == "–"
    assert rows["MicroCoder-GRPO"].under == "unfinished, step 10 of 20"
    ends = [line["pass_at_1"] for line in done.eval_lines if line["max_completion_length"] == 128]
    assert rows["GRPO"].text == f"{100 * ends[-1]:.1f} %"  # of seed 0 alone
    assert "1 of 2 seeds failed, step 20 of 20" in rows["GRPO"].under
    html = html_for(*made)
    assert "Not finished: " in head.notes[-1]
    assert html.count("unfinished, step 10 of 20") > 4  # row, note, table, curves
    assert "MicroCoder-GRPO ends" not in head.finding


def test_an_arm_whose_loss_explodes_is_named_at_once_and_its_numbers_are_folded() -> None:
    records = [synthetic.make_record("grpo", seed, steps=20) for seed in range(3)]
    records += [synthetic.make_record("microcoder", seed, steps=20) for seed in range(3)]
    for record, kl in zip(records[1:3], (7.0, 8e6), strict=True):
        record.step_lines[12]["kl"] = kl
    head = head_for(*comparison_of(records))
    assert (
        "Read with care: the loss of “GRPO” exploded in single updates: no verdict" in head.finding
    )
    (note,) = head.exploded
    assert note.startswith("GRPO: exploding loss: the mean KL passed 5 nats a token")
    assert "in 2 of 3 seeds (1 update each, first at 13, largest 8,000,000)" in note
    head = head_for(*comparison_of(records[1:2]))
    assert head.exploded[0].startswith("GRPO, seed 1: exploding loss: ")
    larger = synthetic.make_record("grpo", 0, "nano-m", steps=20, profile="nano-m")
    head = head_for(*comparison_of([*records, larger]))
    assert head.exploded[0].startswith("nano-s: GRPO: exploding loss: ")


def test_evaluations_that_differ_are_not_averaged() -> None:
    records = [synthetic.make_record("grpo", seed, steps=20) for seed in (0, 1, 2)]
    for record in records:
        for line in record.eval_lines:
            line |= {"attempts": 4, "temperature": 1.0, "dataset": "nano:test"}
    short = records[2]
    for line in short.eval_lines:
        line["attempts"] = 2
        line["pass_at_1"] = 1.0
    (made,) = comparison_of(records)
    head = head_for(made)
    assert head.ends is not None
    (row,) = head.ends.rows
    ends = [
        line["pass_at_1"]
        for record in records[:2]
        for line in record.eval_lines
        if line["max_completion_length"] == 128 and line["step"] == 20
    ]
    assert row.text == f"{100 * np.mean(ends):.1f} %"
    html = html_for(made)
    assert html.count("Left out, because") == 1
    assert html.count("Evaluations at 2 attempts are not in this figure.") == 1


def test_runs_that_recorded_nothing_are_an_error_for_people(tmp_path: Path) -> None:
    record = synthetic.make_record("grpo", 0)
    record.eval_lines.clear()
    html = html_for(*comparison_of([record]))
    assert "Not recorded in these runs: Accuracy, " in html
    assert "<h3>Accuracy" not in html
    empty = replace(record, step_lines=[])
    with pytest.raises(UserError, match="nothing to show"):
        write_comparison(Sources(comparison_of([empty]), comparison_of([empty])[0]), "", tmp_path)


def test_what_never_changes_is_said_not_drawn() -> None:
    (made,) = comparison_of([synthetic.make_record("grpo", 0, steps=20)])
    assert "nano-s-learning-rate" not in page_for(made).figures
    optimizer = panel_of(made, "optimizer")
    assert optimizer.missing == "Learning rate never changed: 0.0002."


def test_values_that_never_change_are_told_apart_and_printed_plainly() -> None:
    def flat(**values: float) -> Figure:
        lines = [
            {"x": [0, 1], "y": [value, value], "name": name, "meta": {"role": "seeds"}}
            for name, value in values.items()
        ]
        return Figure(lines)

    assert constant(flat(a=16384, b=16384)) == "16384"
    assert constant(flat(a=0.12341, b=0.12344, c=0.12341)) == "0.12341 in a, c; 0.12344 in b"


def test_equal_arms_are_said_to_be_equal_and_why() -> None:
    record = synthetic.make_record("grpo_plus", 0, steps=20)
    runs = {"none": [record], "all": [deepcopy(record)]}
    runs["all"][0].meta["config"]["truncation_mask"] = "all"
    made = Study("truncation_mask", "nano", runs)
    head = head_for(made)
    assert len(head.notes) == 1
    (note,) = head.equal
    summary = "<summary>1 pair of arms is equal to the last digit</summary>"
    assert summary in html_for(made).split("</header>")[0]
    assert note.startswith("mask all (DeepCoder) and GRPO+ (no mask) are equal to the last digit.")
    assert "They differ only in truncation_mask (all against none), which" in note
    assert note.endswith("never acted: no response met the mask's condition.")


def test_the_first_round_is_called_so_wherever_it_is_shown() -> None:
    first = Study("truncation_mask", "nano", {"none": [synthetic.make_record("grpo_plus", 0)]})
    own = Study("comparison", "nano", {"none": [synthetic.make_record("grpo_plus", 0)]})
    told = "These are runs of the first round (seeds 0 to 4), before the protocol."
    assert told in head_for(first).lead
    assert told not in head_for(own).lead
    later = synthetic.make_record("grpo_plus", 0, started=BEGAN + 1.0)  # a run of one's own
    assert told not in head_for(replace(first, arms={"none": [later]})).lead
    records = planned_records("batch_size", range(3))
    assert studies("batch_size", records)[0].results["B1"].basis == "first round"
    records[-1].meta["started"] = BEGAN + 1.0
    assert studies("batch_size", records)[0].results["B1"].basis == ""


def test_the_first_screen_says_on_how_much_it_rests() -> None:
    record = synthetic.make_record("grpo_plus", 0)
    made = Study("truncation_mask", "nano", {"none": [record], "mine": [record]})
    assert head_for(made).lead.startswith("nano-s: 2 arms with 1 seed each, 2 runs.")


def test_arms_have_names_for_people_in_every_sentence() -> None:
    told = "no finished run of arms rho_10, doses/kl_004; t_of_d trained as t_06 did; fall at t_18"
    assert spoken(told) == (
        "no finished run of ρ = 1 (ours), KL 0.04; our reading of T(D) trained as T = 0.6 did; "
        "fall at T = 1.8"
    )
    assert spoken("arm mine has no pass_at_1") == "arm mine has no pass_at_1"
    assert spoken("solved at the end, rlef minus unread_arm, plus 2") == (
        "solved at the end, told the failing test (RLEF) minus unread_arm, plus 2"
    )
    assert spoken("reward, all minus mine; end minus the base") == (
        "reward, mask all (DeepCoder) minus mine; end minus the base"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["truncation_mask", "context_length"])
def test_what_the_correction_leaves_counts_on_the_pages_of_mask_and_context(
    name: str, committed: list[RunRecord]
) -> None:
    """By the committed records; without them the panel says what is missing."""
    (noisy,) = studies("correction", committed)
    assert {part.state for part in noisy.results["Q14"].parts[:3]} == {"lower"}
    made = study(name)
    html = html_for(made, beside={"correction": noisy})
    assert str(escape(CLAIMS["Q14"].claim)) in html
    assert "Q14" not in html_for(made)
    labels = [plot.caption for plot in panel_of(noisy, "correction").plots]
    assert "noise, sequences masked (ours)" in labels
    panel = panel_of(made, "correction")
    assert panel.missing == "Not recorded: the correction, which acts only where vLLM samples."
