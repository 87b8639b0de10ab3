"""The dashboard as an object: one thread, closed cleanly, honest about what is missing."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcbench.errors import UserError
from mcbench.experiments.experiments import planned_runs
from mcbench.report.dashboard import Dashboard, watch
from mcbench.runs.config import preset

from .runs import begin, finished, lines, responses


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread looks by itself; tests say when, and all that is new is drawn at once."""
    monkeypatch.setattr(Dashboard, "_follow", lambda self: self._stop.wait())
    monkeypatch.setattr(watch, "LONGEST_UNDRAWN_S", 0.0)
    yield
    for thread in threads():
        thread.join(10)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dashboard"]


def drawn(dashboard: Dashboard) -> list[str]:
    """The arms in the figure of the reward."""
    data = dashboard.page.figures.get("reward", {"data": []})["data"]
    return list(dict.fromkeys(trace["legendgroup"] for trace in data))


def rows(dashboard: Dashboard) -> list[dict[str, Any]]:
    return dashboard.page.rows["rows"]


def states(dashboard: Dashboard) -> dict[str, str]:
    return {row["id"]: row["state"] for row in rows(dashboard)}


def ask(dashboard: Dashboard, **chosen: Any) -> None:
    """As the page does when a reader chooses."""
    dashboard.page.asked = {**dashboard.page.asked, **chosen}
    dashboard.refresh()


def test_new_runs_join_and_deleted_ones_are_said(tmp_path: Path, still: None) -> None:
    dashboard = Dashboard(tmp_path / "runs", live=True)
    assert dashboard.page.status["state"] == "No runs yet"
    run = begin(tmp_path / "runs")
    dashboard.refresh()
    assert states(dashboard) == {"a": "starting"}
    assert dashboard.page.rows["chosen"] == ["a"]
    for line in lines()[:20]:
        run.append_step(line)
    dashboard.refresh()
    assert drawn(dashboard) == ["microcoder"]
    assert dashboard.page.status["state"] == "1 running"
    assert "step 20 of 40 · 2.0 steps/s · 10 s left" in dashboard.page.status["totals"]
    shutil.rmtree(run.path)
    dashboard.refresh()
    assert states(dashboard) == {"a": "deleted"}
    assert dashboard.page.figures == {}
    dashboard.close()


def test_controls(tmp_path: Path, still: None) -> None:
    finished(tmp_path, "a", "grpo", 0, 40)
    finished(tmp_path, "b", "microcoder", 0, 40)
    dashboard = Dashboard(tmp_path, live=True)

    assert drawn(dashboard) == ["grpo", "microcoder"]
    ask(dashboard, picked={"a": False})
    assert drawn(dashboard) == ["microcoder"]
    ask(dashboard, sections=["Learning", "Diversity"])
    assert list(dashboard.page.sections) == ["Learning", "Diversity"]
    assert dashboard.page.data == {}
    ask(dashboard, open=True, browser={})
    assert "No responses are stored yet" in dashboard.page.data["message"]
    ask(dashboard, paused=True)
    shutil.rmtree(tmp_path / "a")
    dashboard.refresh()
    assert set(states(dashboard).values()) == {"finished"}
    ask(dashboard, paused=False)
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
    told = {
        "The last look failed: OSError: disk": threading.Event(),
        "1 starting": threading.Event(),
    }
    failed, shown = told.values()
    store = dashboard.watch.store
    poll = store.poll

    def broken() -> bool:
        monkeypatch.setattr(store, "poll", poll)
        raise OSError("disk")

    dashboard.page.observe(
        lambda change: told.get(change["new"]["state"], threading.Event()).set(), "status"
    )
    monkeypatch.setattr(store, "poll", broken)
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
    assert len(dashboard.page.rows["chosen"]) == 8
    dashboard.close()


def test_planned_runs_are_listed_under_the_names_of_their_arms(tmp_path: Path, still: None) -> None:
    mine = [
        preset("tiny", "microcoder", seed).with_settings({"mask_ratio": 0.5}) for seed in (0, 1)
    ]
    usual = preset("tiny", "microcoder")

    def listed(planned: Any) -> list[str]:
        dashboard = Dashboard(tmp_path, planned=planned, live=True)
        dashboard.close()
        return sorted(row["name"] for row in rows(dashboard))

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
    assert dashboard.page.status["state"] == "No runs yet"
    dashboard.close()


def test_a_file_is_refused(tmp_path: Path) -> None:
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
    sent: list[Any] = []
    dashboard.page.send = lambda content: sent.append(content)
    dashboard._open_stored({"arm": "microcoder", "step": 25})
    assert sent == [{"opened": ("b", 21)}]
    ask(dashboard, open=True, browser={"run": "b", "step": "21"})
    assert dashboard.page.data["chosen"] == "b"
    assert {row["step"] for row in dashboard.page.data["rows"]} == {21}
    assert all(row["diversity"] is None for row in dashboard.page.data["rows"])  # short texts
    dashboard.close()


def test_rows_stay_where_they_are_and_a_new_run_comes_first(tmp_path: Path, still: None) -> None:
    finished(tmp_path, "done", "grpo", 0, 40)
    run = begin(tmp_path, "live")
    dashboard = Dashboard(tmp_path, live=True)
    assert list(states(dashboard)) == ["live", "done"]
    run.finish(2e9)
    begin(tmp_path, "new", recipe="grpo", seed=1)
    dashboard.refresh()
    assert list(states(dashboard)) == ["new", "live", "done"]
    dashboard.close()


def test_who_is_ahead_is_said_with_what_it_is_worth(tmp_path: Path, still: None) -> None:
    finished(tmp_path, "a", "grpo", 0, 40)
    dashboard = Dashboard(tmp_path, live=True)
    assert dashboard.page.status["ahead"] == ""
    finished(tmp_path, "b", "microcoder", 0, 40)
    dashboard.refresh()
    told = "(one seed of each); under 5 seeds that decides nothing."
    assert "is ahead at step 40, by " in dashboard.page.status["ahead"]
    assert told in dashboard.page.status["ahead"]
    finished(tmp_path, "c", "grpo_plus", 7, 40)
    dashboard.refresh()
    told = "No arm is ahead yet: they have no seed in common."
    assert dashboard.page.status["ahead"] == told
    dashboard.close()
