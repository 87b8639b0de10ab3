"""The dashboard as an object: one thread, closed cleanly, honest about what is missing."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcbench.errors import UserError
from mcbench.experiments.experiments import planned_runs
from mcbench.report import Dashboard
from mcbench.report.dashboard.curves import MOST_LINES
from mcbench.runs.config import preset

from .runs import begin, finished, lines, responses


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread looks by itself; tests say when."""
    monkeypatch.setattr(Dashboard, "_follow", lambda self: self._stop.wait())
    yield
    for thread in threads():
        thread.join(10)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dashboard"]


def figures_of(dashboard: Dashboard) -> list[Any]:
    return [figure for view in dashboard.curves.children for figure in view.figures.values()]


def states(dashboard: Dashboard) -> dict[str, str]:
    return {row["id"]: row["state"] for row in dashboard.list.rows}


def test_new_runs_join_and_deleted_ones_are_said(tmp_path: Path, still: None) -> None:
    dashboard = Dashboard(tmp_path / "runs", live=True)
    assert "No runs yet" in dashboard.status.value
    run = begin(tmp_path / "runs")
    dashboard.refresh()
    assert states(dashboard) == {"a": "starting"}
    assert dashboard.list.chosen == ["a"]
    for line in lines()[:20]:
        run.append_step(line)
    dashboard.refresh()
    titles = [figure.layout.title.text for figure in figures_of(dashboard)]
    assert "Training reward" in titles
    assert "1 running" in dashboard.status.value
    assert "step 20 of 40 · 2.0 steps/s · 10 s left" in dashboard.status.value
    shutil.rmtree(run.path)
    dashboard.refresh()
    assert states(dashboard) == {"a": "deleted"}
    assert figures_of(dashboard) == []
    dashboard.close()


def test_controls(tmp_path: Path, still: None) -> None:
    finished(tmp_path, "a", "grpo", 0, 40)
    finished(tmp_path, "b", "microcoder", 0, 40)
    dashboard = Dashboard(tmp_path, live=True)

    def reward() -> list[str]:
        dashboard.refresh()
        figures = dashboard.curves.sections["Learning"].figures
        return [trace.legendgroup for trace in figures["reward"].data]

    assert reward() == ["grpo"] * 3 + ["microcoder"] * 3
    dashboard.list.chosen = ["b"]
    assert reward() == ["microcoder"] * 3
    before = dashboard.curves.sections["Learning"].figures["reward"]
    dashboard.smoothing.value = 15
    dashboard.refresh()
    assert dashboard.curves.sections["Learning"].figures["reward"] is before
    dashboard.sections["Diversity"].value = True
    dashboard.refresh()
    assert list(dashboard.curves.sections) == ["Learning", "Truncation and mask", "Diversity"]
    dashboard.shown.value = "Responses"
    dashboard.refresh()
    assert dashboard._body.children == (dashboard.samples,)
    dashboard.pause.value = True
    shutil.rmtree(tmp_path / "a")
    dashboard.refresh()
    assert set(states(dashboard).values()) == {"finished"}
    assert "Paused" in dashboard.status.value
    dashboard.pause.value = False
    dashboard.refresh()
    assert states(dashboard)["a"] == "deleted"
    dashboard.close()


def test_the_same_cell_twice_leaves_one_thread_and_close_none(tmp_path: Path) -> None:
    first = Dashboard(tmp_path, live=True)
    second = Dashboard(tmp_path, live=True)
    assert not first.is_following
    assert second.is_following
    assert len(threads()) == 1
    second.close()
    second.close()
    assert threads() == []


def test_the_thread_looks_by_itself_and_survives_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dashboard = Dashboard(tmp_path, live=True)
    failed, shown = threading.Event(), threading.Event()
    poll = dashboard.store.poll

    def broken() -> bool:
        monkeypatch.setattr(dashboard.store, "poll", poll)
        failed.set()
        raise OSError("<b>disk</b>")

    monkeypatch.setattr(dashboard.store, "poll", broken)
    dashboard.status.observe(
        lambda change: shown.set() if "1 starting" in change["new"] else None, "value"
    )
    assert failed.wait(60)
    begin(tmp_path)
    assert shown.wait(60)
    dashboard.close()


def test_without_a_page_it_is_text_and_has_no_thread(tmp_path: Path) -> None:
    config = preset("tiny", "grpo")
    dashboard = Dashboard(tmp_path, planned=[("", config)])
    assert not dashboard.is_following
    assert list(dashboard._repr_mimebundle_()) == ["text/plain"]
    assert "1 planned" in dashboard._repr_mimebundle_()["text/plain"]
    dashboard.close()


def test_an_experiment_is_watched_before_its_runs_exist(tmp_path: Path, still: None) -> None:
    runs = [(run.arm, run.config) for run in planned_runs("results", "tiny", [0, 1], 4)]
    dashboard = Dashboard(tmp_path, planned=runs, live=True)
    assert list(states(dashboard).values()) == ["planned"] * 8
    assert len(dashboard.list.chosen) == 8
    dashboard.close()


def test_planned_runs_are_listed_under_the_names_of_their_arms(tmp_path: Path, still: None) -> None:
    mine = [
        preset("tiny", "microcoder", seed).with_settings({"mask_ratio": 0.5}) for seed in (0, 1)
    ]
    usual = preset("tiny", "microcoder")

    def listed(planned: Any) -> list[str]:
        dashboard = Dashboard(tmp_path, planned=planned, live=True)
        dashboard.close()
        return sorted(row["name"] for row in dashboard.list.rows)

    names = ["mine, seed 0", "mine, seed 1", "usual, seed 0"]
    assert listed([("mine", mine[0]), ("mine", mine[1]), ("usual", usual)]) == names
    assert listed([("", config) for config in (*mine, usual)]) == [
        "MicroCoder-GRPO, seed 0",
        "microcoder (mask_ratio=0.5), seed 0",
        "microcoder (mask_ratio=0.5), seed 1",
    ]


def test_a_folder_that_holds_something_else_is_passed_over(tmp_path: Path, still: None) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"config": {"lr": 1}, "seed": 0}')
    dashboard = Dashboard(tmp_path, live=True)
    assert "No runs yet" in dashboard.status.value
    dashboard.close()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Learning"):
        Dashboard(tmp_path, sections=["Lerning"])
    with pytest.raises(UserError, match="at least 1"):
        Dashboard(tmp_path, smoothing=0)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UserError, match="is a file"):
        Dashboard(file)


def test_a_click_on_a_curve_opens_the_responses_of_its_step(tmp_path: Path, still: None) -> None:
    for name, recipe in (("a", "grpo"), ("b", "microcoder")):
        run = finished(tmp_path, name, recipe, 0, 40)
        for step in (1, 21):
            run.write_completions(step, responses(["one", "two", "three", "four"]))
    dashboard = Dashboard(tmp_path, live=True)
    figure = next(f for f in figures_of(dashboard) if f.layout.title.text == "Training reward")
    index = next(i for i, one in enumerate(figure.data) if one.legendgroup == "microcoder")
    points = {"trace_indexes": [index], "point_indexes": [0], "xs": [25], "ys": [0.5]}
    figure._js2py_pointsCallback = {"event_type": "plotly_click", "points": points}
    assert dashboard.shown.value == "Responses"
    assert dashboard.samples.data["chosen"] == "b"
    assert {row["step"] for row in dashboard.samples.data["rows"]} == {21}
    assert all(row["diversity"] is None for row in dashboard.samples.data["rows"])  # short texts
    dashboard.close()


def test_rows_stay_where_they_are_and_a_new_run_comes_first(tmp_path: Path, still: None) -> None:
    finished(tmp_path, "done", "grpo", 0, 40)
    run = begin(tmp_path, "live")
    dashboard = Dashboard(tmp_path, live=True)
    order = [row["id"] for row in dashboard.list.rows]
    assert order == ["live", "done"]
    run.finish(2e9)
    begin(tmp_path, "new", recipe="grpo", seed=1)
    dashboard.refresh()
    assert [row["id"] for row in dashboard.list.rows] == ["new", "live", "done"]
    dashboard.close()


def test_who_is_ahead_is_said_with_what_it_is_worth(tmp_path: Path, still: None) -> None:
    finished(tmp_path, "a", "grpo", 0, 40)
    dashboard = Dashboard(tmp_path, live=True)
    assert "ahead" not in dashboard.status.value
    finished(tmp_path, "b", "microcoder", 0, 40)
    dashboard.refresh()
    told = "(one seed of each); under 5 seeds that decides nothing."
    assert "is ahead at step 40, by " in dashboard.status.value
    assert told in dashboard.status.value
    finished(tmp_path, "c", "grpo_plus", 7, 40)
    dashboard.refresh()
    assert "No arm is ahead yet: they have no seed in common." in dashboard.status.value
    dashboard.close()


def test_of_many_runs_the_means_alone_are_drawn(tmp_path: Path, still: None) -> None:
    for seed in range(MOST_LINES + 1):
        finished(tmp_path, f"r{seed}", "grpo", seed, 8)
    dashboard = Dashboard(tmp_path, live=True)
    reward = dashboard.curves.sections["Learning"].figures["reward"]
    assert [one.visible for one in reward.data] == [False, None, None]
    assert "means of 25 runs" in reward.layout.title.text
    dashboard.close()
