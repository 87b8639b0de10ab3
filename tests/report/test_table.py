from dataclasses import replace
from typing import Any

import pytest

from mcbench.report import ends, paper, table
from mcbench.report.rendering import macro
from mcbench.report.series import comparable, eval_lengths
from mcbench.runs.scores import cells_of, table_text
from mcbench.runs.store import RunRecord

from .synthetic import make_record, make_records


def problem(form: str, difficulty: str, passes: int) -> dict[str, Any]:
    return {"form": form, "difficulty": difficulty, "passes": passes, "attempts": 4}


def by_arm(records: list[RunRecord]) -> dict[str, list[RunRecord]]:
    arms: dict[str, list[RunRecord]] = {}
    for record in records:
        arms.setdefault(record.config.recipe, []).append(record)
    return arms


def test_cells_average_over_problems_not_attempts() -> None:
    problems = [
        problem("stdin", "easy", 4),
        problem("stdin", "easy", 1),
        problem("call", "hard", 2),
    ]
    cells = cells_of(problems, "form", "all")
    assert cells["stdin", "easy"] == 62.5
    assert ("stdin", "medium") not in cells  # no such problem
    assert cells["stdin", "all"] == 62.5
    assert cells["call", "hard"] == 50.0
    assert cells["all", "all"] == pytest.approx((1 + 0.25 + 0.5) / 3 * 100)
    assert cells_of([{**problems[0], "attempts": 0}], "form", "all") == {}


def test_delta_is_against_the_best_other_arm_of_each_column() -> None:
    def row(*values: float) -> table.Row:
        return table.Row("", {("all", str(place)): value for place, value in enumerate(values)})

    delta = table.delta_row(
        {"grpo": row(1, 9, 3), "grpo_plus": row(2, 4, 3), "microcoder": row(5, 5, 3)}
    )
    assert delta is not None
    assert list(delta.values.values()) == [3, -4, 0]


def test_papers_deltas_follow_from_its_rows() -> None:
    blocks = table.paper_table().blocks[1:]
    assert len(blocks) == len(paper.TABLE_1)
    for block in blocks:
        rows = dict(zip(("grpo", "grpo_plus", "microcoder"), block.rows, strict=True))
        delta = table.delta_row(rows)
        assert delta is not None
        assert block.delta is not None
        assert delta.values == pytest.approx(block.delta.values, abs=0.01)


def test_a_run_ends_with_its_last_window_and_starts_before_training() -> None:
    record = make_record(
        "grpo", 0, steps=40
    )  # evaluated every 10 steps: the last window is step 40
    kept, _ = comparable({"grpo": [record]}, 128)
    start, end = table.run_cells(record, 128, kept)
    lines = {
        line["step"]: table.cells_of(line["per_problem"], "form", "Both")
        for line in record.eval_lines
        if line["max_completion_length"] == 128
    }
    assert start is not None
    assert end is not None
    assert start["Both", "all"] == pytest.approx(lines[0]["Both", "all"])
    assert end["Both", "all"] == pytest.approx(lines[40]["Both", "all"])


def test_a_longer_limit_that_changes_no_answer_is_left_out() -> None:
    record = make_record("grpo", 0)
    assert eval_lengths({"grpo": [record]}) == [128, 256]
    short = [line for line in record.eval_lines if line["max_completion_length"] == 128]
    longer = [line | {"max_completion_length": 256} for line in short]
    alike = replace(record, eval_lines=[*short, *longer])
    assert eval_lengths({"grpo": [alike]}) == [128]
    assert eval_lengths({"grpo": [alike, record]}) == [128, 256]


def test_not_trained_is_the_mean_over_the_same_seeds_as_the_arms() -> None:
    records = make_records(seeds=3)
    made = table.results_table({"nano-s": by_arm(records)})
    assert made is not None
    untrained = made.blocks[0].rows[0]
    first = [
        100 * line["pass_at_1"]
        for record in records
        for line in record.eval_lines
        if line["step"] == 0 and line["max_completion_length"] == 128
    ]
    assert untrained.label == "nano-s (128)"
    assert untrained.values["Both", "all"] == pytest.approx(sum(first) / len(first))
    assert untrained.spread["Both", "all"] > 0


def test_the_shape_is_the_papers() -> None:
    sizes = {size: by_arm(make_records(seeds=2)) for size in ("nano-s", "nano-m")}
    ours, theirs = table.results_table(sizes), table.paper_table()
    assert ours is not None
    assert len(ours.blocks) == len(theirs.blocks) == 5
    for mine, other in zip(ours.blocks[1:], theirs.blocks[1:], strict=True):
        assert [row.label for row in mine.rows] == [row.label for row in other.rows]
    assert len(ours.columns) == len(theirs.columns) == 12
    assert ours.frame().shape == theirs.frame().shape == (4 + 4 * 4, 12)


def test_labels_are_escaped_and_the_best_is_bold() -> None:
    rows = [
        table.Row("<script>", {("Both", "all"): 12.34}, {("Both", "all"): 1.5}),
        table.Row("b", {("Both", "all"): 9.0}),
    ]
    delta = table.Row("Δ", {("Both", "all"): -3.0})
    one = table.ScoreTable("a & b", ["Both"], [table.Rows("<b>", rows, delta)])
    html = str(macro("render")(one))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<td><b>12.3</b><small>±1.5</small></td>" in html
    assert '<td class="down">−3.0</td>' in html
    assert html.count('<td class="none">–</td>') == 9


def test_nothing_evaluated_gives_no_table() -> None:
    record = make_record("grpo", 0)
    record.eval_lines.clear()
    assert table.results_table({"nano-s": {"grpo": [record]}}) is None


def test_the_papers_rows_fit_a_benchmarks_text_table() -> None:
    rows = table.paper_rows()
    assert rows["paper: 4B MicroCoder-GRPO, 8K"]["LiveCodeBench", "all"] == 38.7
    assert table_text(rows).splitlines()[0].split() == ["atcoder", "leetcode", "LiveCodeBench"]


# What arms end at --------------------------------------------------------------------------------


def test_one_seed_is_called_exploratory_and_has_no_interval() -> None:
    arms = by_arm(make_records(seeds=1))
    chart = ends.chart(arms, 128)
    assert chart is not None
    assert {row.style.label for row in chart.rows} == {"GRPO", "GRPO+ (DAPO)", "MicroCoder-GRPO"}
    assert all(row.track and row.track.low is None for row in chart.rows)
    sentence = ends.finding(arms, 128)
    assert "no interval" in sentence
    assert "exploratory" in sentence


def test_the_difference_is_paired_over_the_shared_seeds() -> None:
    arms = by_arm(make_records(seeds=4))
    arms["microcoder"] = arms["microcoder"][1:]
    found = ends.ends(arms, 256)
    gap = ends.paired(found["grpo"].last, found["microcoder"].last)
    assert gap is not None
    assert gap.value == pytest.approx(
        sum(found["grpo"].last[s] - found["microcoder"].last[s] for s in (1, 2, 3)) / 3
    )
    assert gap.high < 0
    sentence = ends.finding(arms, 256)
    assert sentence.startswith("MicroCoder-GRPO ends highest, at ")
    assert f"GRPO by {ends.signed(gap.value)} points (95 % interval " in sentence
    assert "3 seeds)" in sentence
    few = by_arm(make_records(seeds=2))  # two seeds have no interval
    assert "% pass@1; no arm is clearly apart from it. " in ends.finding(few, 256)
    level = ends.finding({"grpo": arms["grpo"], "grpo_plus": arms["grpo"]}, 128)
    assert level.startswith("No arm is ahead: all end at ")
    alone = ends.finding({"grpo": arms["grpo"]}, 128)
    assert alone == f"GRPO ends at {ends.ends(arms, 128)['grpo'].mean:.1f} % pass@1."
    late = ends.finding({"short_late": arms["grpo"]}, 128)  # its name has a comma of its own
    assert late.startswith("“half, extended late” ends at ")


def test_arms_above_and_below_the_one_compared_with_are_said_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gains = {"kl_03": -3.0, "kl_004": 2.0, "rho_03": 2.5, "rho_10": 3.0, "all": 4.0}
    found = {
        arm: ends.Reached(
            {}, {seed: 50 + gain + 0.1 * gain * (seed - 2) for seed in range(5)}, 60.0
        )
        for arm, gain in ({"none": 0.0} | gains).items()
    }
    monkeypatch.setattr(ends, "ends", lambda arms, length: found)
    told = ends.finding(dict.fromkeys(found, ()), 128)
    assert told.startswith("“mask all (DeepCoder)” ends highest, at 54.0 % pass@1: +4.0 points")
    assert (
        "By these seeds above “GRPO+ (no mask)” too: 3 arms, from “KL 0.04” by +2.0 points" in told
    )
    assert "to “ρ = 1 (ours)” by +3.0 points" in told
    assert "; below it: “KL 0.3” by −3.0 points (95 % interval " in told
    assert "begin apart" not in told
    found["all"] = ends.Reached(dict.fromkeys(range(5), 35.0), found["all"].last, 60.0)
    found["none"] = ends.Reached(dict.fromkeys(range(5), 30.0), found["none"].last, 60.0)
    told = ends.finding(dict.fromkeys(found, ()), 128)
    assert ". They begin apart: its gain differs by −1.0 points (95 % interval " in told


def test_the_model_before_training_is_one_line_only_where_all_arms_measure_it_alike() -> None:
    record = make_record("grpo", 0)
    chart = ends.chart({"grpo": [record], "told": [record]}, 128)
    assert chart is not None
    assert chart.base is not None
    assert "(1 seed)" in chart.base_text
    meta = {**record.meta, "config": {**record.meta["config"], "model": "nano-m"}}
    chart = ends.chart({"grpo": [record], "other": [replace(record, meta=meta)]}, 128)
    assert chart is not None
    assert chart.base is None  # of two models
    lines = [{**line, "pass_at_1": line["pass_at_1"] + 0.01} for line in record.eval_lines]
    told = replace(record, eval_lines=lines)
    chart = ends.chart({"grpo": [record], "told": [told]}, 128)
    assert chart is not None
    assert (chart.base, chart.base_text) == (None, "")
    assert "points, peak" in chart.rows[0].under  # each still says its own gain


def test_the_chart_of_ends_is_in_order_and_on_one_axis() -> None:
    arms = by_arm(make_records(seeds=3))
    chart, found = ends.chart(arms, 128), ends.ends(arms, 128)
    assert chart is not None
    values = [row.text for row in chart.rows]
    assert values == sorted(values, reverse=True)
    low, high = (float(text.removesuffix(" %")) for text in chart.axis)
    track = chart.rows[0].track
    assert track is not None
    best = max(one.mean for one in found.values())
    assert track.value == pytest.approx(100 * (best - low) / (high - low), abs=0.01)
    assert len(track.points) == 3


def test_a_gain_is_over_the_arms_own_start() -> None:
    arms = by_arm(make_records(seeds=3))
    arms["grpo"] = arms["grpo"][:2]
    reached = ends.ends(arms, 128)["grpo"]
    gain = sum(reached.last[seed] - reached.base[seed] for seed in (0, 1)) / 2
    assert reached.gain == pytest.approx(gain)
    chart = ends.chart(arms, 128)
    assert chart is not None
    (under,) = [row.under for row in chart.rows if row.style.label == "GRPO"]
    assert under.startswith(f"{ends.signed(gain)} points, ")
    arms["grpo"] = [make_record("grpo", seed, model="nano-m") for seed in (0, 1)]
    made = table.results_table({"two": arms})
    assert made is not None
    assert {row.label for row in made.blocks[0].rows} >= {"nano-s (128)", "nano-m (128)"}


def test_two_seeds_have_no_interval_and_under_five_is_exploratory() -> None:
    two = by_arm(make_records(seeds=2))
    chart = ends.chart(two, 128)
    assert chart is not None
    assert all(row.track and row.track.low is None for row in chart.rows)
    told = ends.finding(two, 128)
    assert "no interval, 2 seeds" in told
    assert "exploratory" in ends.finding(by_arm(make_records(seeds=4)), 128)
    assert "exploratory" not in ends.finding(by_arm(make_records(seeds=5)), 128)


def test_the_papers_arms_are_not_said_to_end_highest_where_ours_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    means = {"kl_low_clip": 52.0, "no_kl_high_clip": 47.0, "kl_high_clip": 53.0}
    found = {
        arm: ends.Reached({}, {seed: mean + 0.1 * seed * mean / 50 for seed in range(5)}, 60.0)
        for arm, mean in means.items()
    }
    monkeypatch.setattr(ends, "ends", lambda arms, length: {arm: found[arm] for arm in arms})
    papers, ours = dict.fromkeys(["kl_low_clip", "no_kl_high_clip"], ()), {"kl_high_clip": ()}
    told = ends.finding(papers, 128, ours, proposed="no_kl_high_clip")
    assert told.startswith("Of the paper's arms “KL, low clip” ends highest, at 52.2 % pass@1.")
    assert "Ours: “KL, high clip (ours)” ends at 53.2 %, +1.0 points" in told
    # How far the proposal is below is told once.
    assert (
        "“GRPO+ (no KL, high clip)”, which stands for the paper's proposal, ends at 47.2 %." in told
    )
    assert told.count("−5.0 points") == 1
    assert ends.finding(papers, 128).startswith("“KL, low clip” ends highest")


def test_arms_of_several_limits_are_not_said_to_be_trained_at_one() -> None:
    def heading(**settings: Any) -> str:
        records = [make_record("grpo", 0, settings=settings), make_record("microcoder", 0)]
        made = table.results_table({"nano": by_arm(records)})
        assert made is not None
        return made.frame().to_string()

    assert "train on 128, test on 256" in heading()
    assert "train on" not in heading(max_completion_length=64)
    assert "train on" not in heading(length_stages=[[0, 32], [16, 128]])
