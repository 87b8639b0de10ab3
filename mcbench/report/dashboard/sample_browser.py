"""Responses of any step: one prompt's group at a time, beside another run's answers to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import pandas as pd
import traitlets

from mcbench.report.dashboard.follower import RunFollower
from mcbench.report.samples import plain

ASSETS = Path(__file__).parent / "assets"
MOST_CHARACTERS = 200_000  # of a response that are shown
ANY, ALONE, LATEST = "any", "nothing", "latest"
VERDICTS = {
    "AC": "accepted",
    "WA": "wrong answer",
    "RE": "runtime error",
    "TLE": "time limit exceeded",
    "MLE": "memory limit exceeded",
    "OLE": "output limit exceeded",
    "IE": "our own infrastructure failed",
    "no code": "no complete program in the response",
}


class SampleView(anywidget.AnyWidget):
    """Shows ``view``: a prompt and columns of responses, all as text."""

    _esm = (ASSETS / "samples.js").read_text(encoding="utf-8")
    view = traitlets.Dict().tag(sync=True)


class SampleBrowser:
    """Controls and the view.

    Args:
        named: the runs to choose from by name, as they are now.
        lock: what the controls wait for, since they are answered in a thread of their own.
    """

    def __init__(
        self,
        named: Callable[[], Mapping[str, tuple[str, RunFollower]]],
        lock: AbstractContextManager[Any],
    ) -> None:
        self._named = named
        self._lock = lock
        self._quiet = False  # while options are set, which fires the controls' own events
        self._tables: dict[tuple[str, int], pd.DataFrame] = {}
        self.view = SampleView()
        self.arm = _dropdown("Arm", [(ANY, ANY)])
        self.run = _dropdown("Run", [])
        self.beside = _dropdown("Beside", [(ALONE, "")])
        self.step = _dropdown("Step", [(LATEST, LATEST)])
        self.problem = _dropdown("Problem", [])
        self.verdict = _dropdown("Verdict", [(ANY, ANY)])
        self.truncated = _dropdown("Length", [(ANY, ANY), ("cut", True), ("ended", False)])
        self.masked = _dropdown("Mask", [(ANY, ANY), ("masked", True), ("kept", False)])
        self.search = widgets.Text(
            placeholder="search in the responses",
            description="Search",
            style={"description_width": "auto"},
            layout={"width": "230px"},
        )
        self.colored = widgets.ToggleButton(
            description="Colour by probability",
            tooltip="darker: the model gave this token a lower probability",
        )
        self.back = widgets.Button(description="‹", tooltip="previous problem")
        self.next = widgets.Button(description="›", tooltip="next problem")
        for control in self.controls:
            control.observe(self._changed, "value")
        self.back.on_click(lambda _: self._move(-1))
        self.next.on_click(lambda _: self._move(1))
        rows = [
            widgets.Box(list(part)).add_class("mcb-controls")
            for part in (
                (self.arm, self.run, self.beside, self.step),
                (self.problem, self.back, self.next),
                (self.verdict, self.truncated, self.masked, self.search, self.colored),
            )
        ]
        self.box = widgets.VBox([*rows, self.view])

    @property
    def controls(self) -> tuple[Any, ...]:
        """Those with a value, in reading order."""
        chosen = (self.arm, self.run, self.beside, self.step, self.problem)
        return (*chosen, self.verdict, self.truncated, self.masked, self.search, self.colored)

    # What to choose from -------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in new runs and steps, and show what the controls say."""
        with self._lock:
            self._quiet = True
            try:
                self._offer_runs()
                table, step = self._table_of(self.run.value)
                self._offer_problems(table)
            finally:
                self._quiet = False
            self._show(table, step)

    def _offer_runs(self) -> None:
        named = self._named()
        arms = list(dict.fromkeys(arm for arm, _ in named.values()))
        _offer(self.arm, [(ANY, ANY), *((arm, arm) for arm in arms)])
        fits = [
            (name, run.run_id)
            for name, (arm, run) in named.items()
            if self.arm.value in (ANY, arm) and run.completion_steps()
        ]
        _offer(self.run, fits)
        others = [(n, r.run_id) for n, (_, r) in named.items() if r.run_id != self.run.value]
        _offer(self.beside, [(ALONE, ""), *others])
        run = self._follower(self.run.value)
        steps = run.completion_steps() if run else []
        newest = f"{LATEST} ({steps[-1]})" if steps else LATEST
        _offer(self.step, [(newest, LATEST), *((str(s), s) for s in reversed(steps))])

    def _offer_problems(self, table: pd.DataFrame) -> None:
        found = ["right", "wrong"]
        if not table.empty:
            found += sorted({v for text in table["verdicts"] for v in verdicts_of(text)} - {"AC"})
        _offer(self.verdict, [(ANY, ANY), *((v, v) for v in found)])
        options = []
        kept = self._kept(table)
        for group, rows in table.groupby("group") if not table.empty else []:
            if kept[rows.index].any():
                right = int((rows["reward"] >= 1).sum())
                name = plain(str(rows["problem_id"].iloc[0]), 60)
                label = f"{int(str(group)) + 1}. {name}: {right} of {len(rows)} right"
                options.append((label, int(str(group))))
        _offer(self.problem, options)

    def _follower(self, run_id: str | None) -> RunFollower | None:
        return next((r for _, r in self._named().values() if r.run_id == run_id), None)

    def _table_of(self, run_id: str | None) -> tuple[pd.DataFrame, int | None]:
        """The responses at the chosen step, and which step that is."""
        run = self._follower(run_id)
        steps = run.completion_steps() if run else []
        if run is None or not steps:
            return pd.DataFrame(), None
        step = steps[-1] if self.step.value == LATEST else self.step.value
        if step not in steps:
            return pd.DataFrame(), step
        if (run.run_id, step) not in self._tables:
            try:
                table = run.completions(step)
            except OSError:  # removed between the listing and now
                return pd.DataFrame(), step
            while len(self._tables) > 3:
                del self._tables[next(iter(self._tables))]
            self._tables[run.run_id, step] = table
        return self._tables[run.run_id, step], step

    def _kept(self, table: pd.DataFrame) -> pd.Series:
        """Which responses pass the filters, (B,) bool."""
        kept = pd.Series(True, index=table.index)
        if table.empty:
            return kept
        for column, control in (("truncated", self.truncated), ("masked", self.masked)):
            if control.value != ANY:
                kept &= table[column] == control.value
        wanted = self.verdict.value
        if wanted in ("right", "wrong"):
            kept &= (table["reward"] >= 1) == (wanted == "right")
        elif wanted != ANY:
            kept &= table["verdicts"].map(lambda text: wanted in verdicts_of(text))
        if word := self.search.value.strip().lower():
            kept &= table["completion"].str.lower().str.contains(word, regex=False)
        return kept

    # Answers to the controls ---------------------------------------------------------------------

    def _changed(self, change: Any) -> None:
        if not self._quiet:
            self.refresh()

    def _move(self, by: int) -> None:
        groups = [group for _, group in self.problem.options]
        if groups:
            place = groups.index(self.problem.value)
            self.problem.value = groups[(place + by) % len(groups)]

    def _show(self, table: pd.DataFrame, step: int | None) -> None:
        for button in (self.back, self.next):
            button.disabled = len(self.problem.options) < 2
        if table.empty or self.problem.value is None:
            if not self.run.options:
                message = "No responses are stored yet; the first come with the first generation."
            elif table.empty:
                message = f"No responses are stored for step {step} of this run."
            else:
                message = "No response fits the filters."
            self.view.view = {"message": message}
            return
        rows = table[table["group"] == self.problem.value]
        columns = [self._column(self.run.value, rows, step)]
        if self.beside.value:
            columns.append(self._column_beside(str(rows["problem_id"].iloc[0])))
        colored = self.colored.value
        message = ""
        if colored and "logprobs" not in table:
            message = "This run did not record the probabilities of its tokens."
        view = {
            "prompt": plain(str(rows["prompt"].iloc[0]), MOST_CHARACTERS),
            "columns": columns,
            "search": plain(self.search.value.strip(), 200),
            "colored": colored,
            "message": message,
        }
        if view != self.view.view:
            self.view.view = view

    def _column_beside(self, problem_id: str) -> dict[str, Any]:
        table, step = self._table_of(self.beside.value)
        rows = table[table["problem_id"] == problem_id] if not table.empty else table
        return self._column(self.beside.value, rows, step)

    def _column(self, run_id: str | None, rows: pd.DataFrame, step: int | None) -> dict[str, Any]:
        name = next(n for n, (_, run) in self._named().items() if run.run_id == run_id)
        if rows.empty:
            where = "it has no responses" if step is None else f"not among those of step {step}"
            return {"title": name, "note": f"This problem: {where}.", "responses": []}
        kept = self._kept(rows)
        shown = int(kept.sum())
        right = int((rows["reward"] >= 1).sum())
        hidden = f", {shown} fit the filters" if shown < len(rows) else ""
        responses = [
            response(number, row, self.colored.value)
            for number, ((_, row), keeps) in enumerate(zip(rows.iterrows(), kept, strict=True), 1)
            if keeps
        ]
        title = f"{name}, step {step}: {right} of {len(rows)} right{hidden}"
        return {"title": title, "note": "", "responses": responses}


def _dropdown(name: str, options: list[tuple[str, Any]]) -> widgets.Dropdown:
    return widgets.Dropdown(
        options=options,
        description=name,
        style={"description_width": "auto"},
        layout={"width": "auto", "max_width": "340px"},
    )


def _offer(control: widgets.Dropdown, options: list[tuple[str, Any]]) -> None:
    """Set the options and keep the choice where it is still among them, else take the first."""
    if list(control.options) == options:
        return
    chosen = control.value
    control.options = options
    values = [value for _, value in options]
    control.value = chosen if chosen in values else next(iter(values), None)


def verdicts_of(text: Any) -> list[str]:
    """The verdicts of a response, test by test, as the reward function logged them."""
    return text.split(",") if isinstance(text, str) and text else []


def response(number: int, row: pd.Series, colored: bool) -> dict[str, Any]:
    """One response for the page; every text in it is shown as text."""
    verdicts = verdicts_of(row["verdicts"])
    text = str(row["completion"])
    words, outcome = _words(row)
    shown: dict[str, Any] = {
        "number": number,
        "outcome": outcome,
        "words": words,
        "facts": f"{int(row['length'])} tokens · advantage {row['advantage']:+.2f}".replace(
            "-", "−"
        )
        + (f" · {', '.join(verdicts)}" if verdicts else ""),
        "verdicts": verdicts,
        "meanings": [VERDICTS.get(verdict, "") for verdict in verdicts],
        "why": _why(row, verdicts),
        "text": plain(text, MOST_CHARACTERS),
    }
    if colored and "logprobs" in row and row["logprobs"] is not None:
        shown["pieces"] = [plain(str(piece), MOST_CHARACTERS) for piece in row["pieces"]]
        shown["logprobs"] = [None if math.isnan(v) else round(float(v), 4) for v in row["logprobs"]]
    return shown


def _words(row: pd.Series) -> tuple[str, str]:
    """The outcome in words, and which look it has."""
    if math.isnan(row["reward"]):
        return "not judged", "unscored"
    words = "right" if row["reward"] >= 1 else "wrong"
    words += ", cut" if row["truncated"] else ""
    if row["masked"]:
        return f"{words}, masked", "masked"
    return words, "right" if row["reward"] >= 1 else "wrong"


def _why(row: pd.Series, verdicts: list[str]) -> str:
    """What the tests, the limit and the mask made of it."""
    reasons = []
    if verdicts == ["no code"]:
        reasons.append("It holds no complete program.")
    elif verdicts and verdicts[-1] != "AC":
        meaning = VERDICTS.get(verdicts[-1], verdicts[-1])
        reasons.append(f"Test {len(verdicts)}: {meaning}; later tests were not run.")
    elif verdicts:
        reasons.append("All tests passed.")
    if row["truncated"]:
        reasons.append("Cut at the length limit.")
    if row["masked"]:
        reasons.append("Masked: its advantage was set to 0.")
    return " ".join(reasons)
