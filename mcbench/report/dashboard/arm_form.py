"""What a section notebook starts with: its experiment's dashboard, and a form that adds an arm.

Finished arms are drawn from the run folder or the committed records, running ones live. What the
form adds is trained by a process that outlives the kernel, stopped and resumed from there, and
remembered beside the runs, so that the view comes back when the cell runs again. The curves, the
runs and the responses are those of :class:`mcbench.report.dashboard.dashboard.Dashboard`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from mcbench.errors import UserError
from mcbench.experiments.arms import Arms, arm_config, check_arms
from mcbench.experiments.experiments import PlannedRun, plan_runs
from mcbench.experiments.notebook import check_injected
from mcbench.experiments.plan import make_plan
from mcbench.files import json_or_text, write_json
from mcbench.grpo.recipes import RECIPES
from mcbench.report.dashboard.dashboard import Dashboard, answer_while_busy, link_live
from mcbench.report.dashboard.progress import progress_of, span
from mcbench.report.rendering import asset
from mcbench.report.served import page_likely
from mcbench.runs.config import CHANGEABLE, SETTINGS, Config, family_of
from mcbench.runs.place import committed_records, in_project
from mcbench.runs.reference import range_of
from mcbench.runs.store import INTERRUPTED, RunStore
from mcbench.scale.apart import Training, training_of, under_way
from mcbench.scale.pace import Timed, timed

ESTIMATING = "estimating…"
EMPTY: dict[str, Any] = {"name": "", "base": "", "seeds": "", "values": {}}


class ArmForm(anywidget.AnyWidget):
    """The page's form. ``about`` is what can be chosen; ``asked`` is what stands in it, ``told``
    what is answered: defaults, cost, or what is wrong; ``own`` are the arms that were added.
    """

    _esm = asset("arm_form.js")
    about = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict(EMPTY).tag(sync=True)
    told = traitlets.Dict().tag(sync=True)
    own: Any = traitlets.List().tag(sync=True)


class Workbench(Dashboard):
    """The dashboard of an experiment with the form; arguments as for :func:`workbench`.

    ``own`` are the added arms that the notebook's ``arms`` do not hold already and that fit its
    profile and steps.
    """

    def __init__(
        self,
        experiment: str,
        arms: Arms,
        profile: str | Sequence[str],
        seeds: Sequence[int],
        steps: int | None,
        settings: Mapping[str, Any],
        runs_dir: str | Path,
        records: Sequence[Path],
    ) -> None:
        self.arms_given = check_arms(arms)
        self.bases = {**{name: {"recipe": name} for name in RECIPES}, **self.arms_given}
        self.profiles = [profile] if isinstance(profile, str) else list(profile)
        self.seeds = list(seeds)
        self.common = {**settings, **({} if steps is None else {"steps": steps})}
        self.folder = in_project(runs_dir)
        self._file = self.folder / f"{experiment}.arms.json"
        self._added = self._remembered()
        self._unfit: dict[str, str] = {}  # of the added arms: what is wrong
        self._begun: dict[str, Training] = {}
        self._cost_lock = threading.Lock()
        self._recorded: list[Timed] = []
        plan = plan_runs(self.arms_given, self.profiles, seeds, steps, settings)
        for name in self._added:
            try:
                plan += self._runs_of(name)
            except UserError as error:
                self._unfit[name] = str(error)
        self.own = {
            name: one["settings"] for name, one in self._added.items() if name not in self._unfit
        }
        self.plan = [(one.arm, one.config) for one in plan]
        super().__init__(runs_dir, planned=self.plan, records=records, live=True)

    def _widgets(self) -> list[Any]:
        schema = Config.model_json_schema()["properties"]
        families: dict[str, list[dict[str, Any]]] = {}
        for name in CHANGEABLE:
            if (family := family_of(name)) != "run":
                takes, choices = range_of(schema[name]).replace("`", ""), _choices(schema[name])
                one: dict[str, Any] = {"name": name, "help": SETTINGS[name].description}
                one |= {"takes": takes, "choices": choices}
                families.setdefault(family, []).append(one)
        about = {"families": families, "bases": list(self.bases)}
        self.form = ArmForm(
            about=about, asked={**EMPTY, "base": "microcoder", "seeds": str(self.seeds[0])}
        )
        self.form.observe(lambda change: self._answer_form(), "asked")
        self.form.on_msg(lambda form, message, buffers: self._pressed(message))
        answer_while_busy(self.form)
        self._answer_form()
        return [self.form, *super()._widgets()]

    def refresh(self) -> None:
        super().refresh()
        with self._lock:
            own = [self._row(name) for name in self._added]
            if own != self.form.own:
                self.form.own = own

    # The form ------------------------------------------------------------------------------------

    def _remembered(self) -> dict[str, Any]:
        """The added arms as they lie beside the runs, of other views and kernels too."""
        kept = json.loads(self._file.read_text()) if self._file.exists() else {}
        return {name: one for name, one in kept.items() if name not in self.arms_given}

    def _runs_of(self, name: str) -> list[PlannedRun]:
        return self._planned(name, **self._added[name])

    def _planned(
        self, name: str, settings: Mapping[str, Any], seeds: Sequence[int]
    ) -> list[PlannedRun]:
        common = {key: value for key, value in self.common.items() if key not in settings}
        return plan_runs({name: settings}, self.profiles, seeds, None, common)

    def _wanted(self) -> tuple[str, dict[str, Any], list[int]]:
        """Name, settings and seeds as they stand in the form."""
        asked = self.form.asked
        name = asked["name"].strip()
        changed = {n: json_or_text(text) for n, text in asked["values"].items() if text.strip()}
        settings = {**self.bases[asked["base"]], **changed}
        texts = re.findall(r"[^\s,]+", asked["seeds"])
        if not all(text.isdecimal() for text in texts) or not texts:
            raise UserError(f"seeds are whole numbers such as 0, 1, got {asked['seeds']!r}")
        return name, settings, list(dict.fromkeys(map(int, texts)))

    def _answer_form(self) -> None:
        told: dict[str, Any] = {"problem": "", "cost": "", "line": "", "ready": False}
        try:
            base = self.bases[self.form.asked["base"]]
            config = arm_config("base", base, self.profiles[0], self.common, look=False)
            told["defaults"] = {name: _written(getattr(config, name)) for name in CHANGEABLE}
            name, settings, seeds = self._wanted()
            planned = self._planned(name or "new", settings, seeds)
            told["line"] = f"{json.dumps(name, ensure_ascii=False)}: {settings!r},"
            if name or self.form.asked["values"]:
                told["cost"] = ESTIMATING
            if name in {**self.arms_given, **self._added}:
                raise UserError(f"there is an arm {name!r} already; give this one another name")
            told["ready"] = bool(name)
        except UserError as error:
            told["problem"] = str(error)
        self.form.told = told
        if told["cost"]:
            # Reading what finished runs took is seconds of work the first time.
            self.costing = threading.Thread(target=self._tell_cost, args=(told, planned))
            self.costing.start()

    def _tell_cost(self, told: dict[str, Any], planned: Sequence[PlannedRun]) -> None:
        with self._cost_lock:
            if self.form.told is not told:  # something else is asked by now
                return
            try:
                cost = self._cost(planned)
            except UserError as error:
                cost = f"how long is not known: {error}"
            if self.form.told is told:
                self.form.told = {**told, "cost": cost}

    def _cost(self, planned: Sequence[PlannedRun]) -> str:
        """How much there is to train and how long that takes by what finished runs took."""
        records = self.watch.store.records
        plan = make_plan(planned, RunStore(self.folder), records)
        missing = [one.config for one in plan.missing]
        if not missing:
            return "nothing to train: its runs are finished"
        # Records do not change, runs may have finished since.
        self._recorded = self._recorded or timed(*records)
        cost = plan.cost([*timed(self.folder), *self._recorded])
        if cost.left:
            return (
                f"{_counted(missing)}: how long is not known, as no run of "
                f"{cost.left[0].profile} is finished yet"
            )
        return f"{_counted(missing)}: about {span(cost.seconds)}, {cost.sources}"

    # Adding, stopping, resuming -------------------------------------------------------------------

    def _pressed(self, message: Mapping[str, Any]) -> None:
        actions: dict[str, Callable[[Any], None]] = {
            "add": self._add, "stop_arm": self._stop_arm,
            "resume": self._resume, "remove": self._remove,
        }  # fmt: skip
        with self._lock:
            try:
                actions[message["action"]](message.get("name"))
            except UserError as error:
                self.form.told = {**self.form.told, "problem": str(error)}
        self._asked.set()

    def _add(self, _: Any) -> None:
        name, settings, seeds = self._wanted()
        if not name or name in {**self.arms_given, **self._added}:
            raise UserError("a new arm needs a name of its own")
        planned = self._planned(name, settings, seeds)
        self._added[name] = {"settings": settings, "seeds": seeds}
        self.own[name] = settings
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file, self._remembered() | {name: self._added[name]})
        self.watch.store.follow([(one.arm, one.config) for one in planned])
        self._resume(name)
        self.form.asked = {**self.form.asked, "name": "", "values": {}}

    def _resume(self, name: str) -> None:
        store = RunStore(self.folder)
        left = make_plan(self._runs_of(name), store, self.watch.store.records).missing
        if left and not self._training(name):
            self._begun[name] = training_of([one.config.run_id for one in left], store)
            self._begun[name].begin(left)

    def _training(self, name: str) -> list[Training]:
        """What trains an arm now, also where another view or kernel began it."""
        begun = self._begun.get(name)
        if begun is not None and begun.is_alive():
            return [begun]
        ids = [one.config.run_id for one in self._runs_of(name)]
        return under_way(ids, RunStore(self.folder))

    def _stop_arm(self, name: str) -> None:
        for one in self._training(name):
            one.stop()

    def _remove(self, name: str) -> None:
        if not self._unfit.pop(name, ""):
            self._stop_arm(name)
        del self._added[name]
        self.own.pop(name, None)
        left = self._remembered()
        left.pop(name, None)
        write_json(self._file, left)

    def _row(self, name: str) -> dict[str, Any]:
        """An added arm, for the page: how far it is and what can be done about it."""
        line = f"{json.dumps(name, ensure_ascii=False)}: {self._added[name]['settings']!r},"
        if name in self._unfit:
            told = f"left out, it does not fit here: {self._unfit[name]}"
            return {"name": name, "told": told, "line": line, "action": ""}
        planned = self._runs_of(name)
        followed = [progress_of(self.watch.store.runs[one.config.run_id]) for one in planned]
        done = all(one.state == "finished" for one in followed)
        training = not done and self._training(name)
        problem = self._begun[name].problem if name in self._begun else ""
        problem = "" if problem == INTERRUPTED else problem
        state = "training" if training else "finished" if done else problem or "stopped"
        counts = ", ".join(f"{one.step} of {one.steps}" for one in followed)
        action = "" if done else "stop_arm" if training else "resume"
        told = f"{state}; updates: {counts}"
        return {"name": name, "told": told, "line": line, "action": action}


def _choices(schema: Mapping[str, Any]) -> list[str]:
    """The values of a setting that can be listed, as they are typed."""
    kind = next(one for one in schema.get("anyOf", [schema]) if one["type"] != "null")
    return ["true", "false"] if kind["type"] == "boolean" else list(kind.get("enum", ()))


def _written(value: Any) -> str:
    """A value as it is typed into the form; what is left to the trainer is empty."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _counted(missing: Sequence[Any]) -> str:
    updates = sum(one.steps for one in missing)
    responses = sum(one.steps * one.ppo_mini_batch_size * one.num_generations for one in missing)
    runs = "1 run" if len(missing) == 1 else f"{len(missing)} runs, one after another"
    return f"{runs}, {updates:,} updates on {responses:,} responses"


def workbench(
    experiment: str,
    arms: Arms,
    profile: str | Sequence[str] = "nano",
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    settings: Mapping[str, Any] | None = None,
    runs_dir: str | Path = "runs",
    use_records: bool = True,
) -> Arms:
    """Show the dashboard of some arms with a form that adds one; it is remembered under the name of
    the ``experiment``.

    Arguments as for :func:`mcbench.comparison.compare`; several profiles are several sizes.

    Returns:
        The arms that the form added, to be compared with the others; it grows with them. Empty in
        batch (papermill), where nothing is shown either.

    Raises:
        UserError: arms or settings that do not fit, or a parameter of a batch run that does not
            (:func:`mcbench.experiments.notebook.check_injected`).
    """
    check_injected()
    if not page_likely():
        return {}
    records = committed_records() if use_records else []
    bench = Workbench(experiment, arms, profile, seeds, steps, settings or {}, runs_dir, records)
    display(bench)
    link_live(bench.folder, bench.plan, records)
    return bench.own
