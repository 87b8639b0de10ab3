import pytest

from mcbench.report import paper, table

from .synthetic import make_record, make_records


def problem(form: str, difficulty: str, passes: int) -> dict[str, object]:
    return {"form": form, "difficulty": difficulty, "passes": passes, "attempts": 4}


def test_cells_average_over_problems_not_attempts() -> None:
    cells = table.cell_means(
        [problem("stdin", "easy", 4), problem("stdin", "easy", 1), problem("call", "hard", 2)]
    )
    assert cells[0] == 62.5  # stdin, easy
    assert cells[1] is None  # no such problem
    assert cells[3] == 62.5  # stdin, all
    assert cells[6] == 50.0  # call, hard
    assert cells[11] == pytest.approx((1 + 0.25 + 0.5) / 3 * 100)


def test_delta_is_against_the_best_baseline_of_each_column() -> None:
    def row(*values: float) -> table.Row:
        return table.Row("", values)

    delta = table.delta_row(
        {"grpo": row(1, 9, 3), "grpo_plus": row(2, 4, 3), "microcoder": row(5, 5, 3)}
    )
    assert delta is not None
    assert delta.values == (3, -4, 0)


@pytest.mark.parametrize("block", list(paper.TRAINED))
def test_papers_deltas_follow_from_its_rows(block: tuple[str, str]) -> None:
    rows = {arm: table.Row(arm, values) for arm, values in paper.TRAINED[block].items()}
    delta = table.delta_row(rows)
    assert delta is not None
    assert delta.values == pytest.approx(paper.DELTA[block], abs=0.01)


def test_the_tables_last_window_leaves_the_base_model_out() -> None:
    record = make_record("grpo", 0, steps=10)  # evaluated at steps 0 and 10
    last = next(line for line in record.eval_lines if line["step"] == 10)
    assert table.trained_cells(record, 128, window=3) == table.cell_means(last["per_problem"])


def test_the_shape_is_the_papers() -> None:
    ours = table.results_table({"nano-s": table_arms(), "nano-m": table_arms()})
    theirs = table.paper_table()
    assert len(ours.blocks) == len(theirs.blocks) == 5
    for mine, other in zip(ours.blocks, theirs.blocks, strict=True):
        assert [row.label for row in mine.rows[:3]] == [row.label for row in other.rows[:3]] or (
            mine.heading == "Not trained"
        )
        assert all(len(row.values) == 12 for row in mine.rows)
    frame = table.to_frame(ours)
    assert frame.shape == (4 + 4 * 4, 12)


def table_arms() -> dict[str, list]:
    arms: dict[str, list] = {}
    for record in make_records(seeds=2):
        arms.setdefault(record.config.recipe, []).append(record)
    return arms


def test_labels_are_escaped() -> None:
    block = table.Block("<b>", (table.Row("<script>", (1.0,) * 12),))
    html = table.to_html(table.Table(table.OUR_SOURCES, (block,)), "a & b")
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
