"""``compare``: arms in, what is known about them out.

from mcbench import compare

study = compare(
    {"mine": {"mask_ratio": 0.5, "temperature": 1.2}, "microcoder": {}},
    profile="nano", seeds=[0, 1], steps=64,
)
study.show("accuracy", "length", "diversity")
study.report("mine.html")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from IPython import get_ipython
from IPython.display import display

from mcbench.errors import UserError
from mcbench.experiments.arms import Arms
from mcbench.experiments.experiments import EXPERIMENTS, PlannedRun
from mcbench.experiments.study import Study, missing_runs, planned_study, run_study
from mcbench.report.base import with_stills
from mcbench.report.dashboard.dashboard import Dashboard
from mcbench.report.experiment import experiment_page, finding, frame, paper_table, show
from mcbench.report.served import page_likely
from mcbench.report.site import command, save
from mcbench.report.sources import Sources
from mcbench.report.style import spoken
from mcbench.runs.place import in_project


@dataclass(frozen=True, repr=False)
class Comparison(Study):
    """A :class:`mcbench.experiments.study.Study` that can be looked at and kept.

    ``curves``, ``evaluations`` and ``responses`` are its tidy frames, ``verdicts()`` the claims
    that its arms suffice for. ``beside`` holds what some experiments measure beside runs, see
    :func:`mcbench.report.experiment.experiment_page`.
    """

    beside: Mapping[str, Any] = field(default_factory=dict)

    def with_beside(self, **records: Any) -> Comparison:
        """The same with ``data``, ``suite`` or studies by name to show beside it."""
        return replace(self, beside={**self.beside, **records})

    def verdicts(self) -> pd.DataFrame:
        """As :meth:`Study.verdicts` gives them, with the names of arms for people."""
        found = super().verdicts()
        if found.empty:
            print(
                "No claim of the paper can be decided by these arms: none has all of its arms here."
            )
        told = {name: found[name].map(spoken) for name in ("parts", "note") if name in found}
        return found.assign(**told)

    def show(self, *names: str) -> None:
        """Display figures by name, such as ``"accuracy"``, ``"length"``, ``"diversity"``.

        Raises:
            UserError: no such figure; the message lists them.
        """
        show(self, *names, **self.beside)

    def frame(self, name: str) -> pd.DataFrame:
        """The numbers that a figure of :meth:`show` draws.

        Raises:
            UserError: as there.
        """
        return frame(self, name, **self.beside)

    def paper(self) -> pd.DataFrame:
        """What the paper reports: arm, measure, value; read by eye where it is a figure."""
        return paper_table(self.name)

    def report(self, path: str | Path | None = None, *others: Comparison) -> Path:
        """Write the comparison as one HTML page; returns where it lies, and prints it in a script.

        Args:
            path: ``runs/<name>.html`` of the project where None.
            others: the same comparison at other sizes of model, for the same page.
        """
        page = experiment_page([self, *others], self._again(others), **self.beside)
        written = save(page, path or in_project(Path("runs", f"{self.name}.html")))
        if get_ipython() is None:
            print(f"report: {written}")
        return written

    def _again(self, others: Sequence[Comparison]) -> str:
        """The command, or the call, that makes the page again."""
        seeds = list(dict.fromkeys(one.config.seed for one in self.planned))
        if self.name in EXPERIMENTS and not self.options.get("settings"):
            home = EXPERIMENTS[self.name]
            scale: dict[str, Any] = {"profile": self.profile}
            if len(home.profiles) > 1:
                scale = {"profiles": [one.profile for one in (self, *others)]}
            own = None if self.settings == home.arms else self.settings
            steps = self.options.get("steps")
            return command(f"{home.notebook}.ipynb", **scale, arms=own, seeds=seeds, steps=steps)
        given = [repr({arm: dict(own) for arm, own in self.settings.items()})]
        given += [f"profile={self.profile!r}", f"seeds={seeds!r}"]
        given += [f"{name}={value!r}" for name, value in self.options.items() if value]
        return f"compare({', '.join(given)})"

    def _repr_html_(self) -> str:
        """Arms, settings and runs, as a notebook shows them."""
        rows = [
            (arm, ", ".join(f"{name} {value}" for name, value in own.items()),
             len(self.arms.get(arm, ())))
            for arm, own in self.settings.items()
        ]  # fmt: skip
        table = pd.DataFrame(rows, columns=["arm", "settings", "runs"])
        told = finding(Sources([self], self, **self.beside))
        return f"<p>{escape(told)}</p>" + table.to_html(index=False)


def compare(
    arms: Arms | Sequence[str] | None = None,
    profile: str = "nano",
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    *,
    experiment: str | None = None,
    settings: Mapping[str, Any] | None = None,
    runs_dir: str | Path = "runs",
    use_records: bool = True,
    workers: int = 1,
    fresh: bool = False,
    temperatures: Sequence[float] = (),
    address: str | None = None,
    launch: str | None = None,
) -> Comparison:
    """Find or train the runs of some arms and compare them.

    What is finished in ``runs_dir``, or recorded in the checkout's ``reports/records``, is not
    trained again; how much of each there is, is said first. In JupyterLab a live dashboard stands
    above the cell while runs train; elsewhere there are lines of progress.

    Args:
        arms: a name and the settings it changes, for each: ``{"rho 0.5": {"mask_ratio": 0.5}}``.
            ``recipe`` is a setting too; an arm without one takes the recipe of its own name, else
            ``microcoder``. ``mcbench settings`` lists them all. Numbers of the profile can be
            changed by shares, such as ``"50%"``. None: the arms of ``experiment``.
        profile: the scale: ``nano``, ``qwen3-4b``, ...
        seeds: of every arm.
        steps: optimizer updates; the profile's number where None.
        experiment: one of the paper's (``truncation_mask``, ...): its claims are assessed, and its
            arms can be given by name. Where None, the claims of every experiment whose arms are
            there.
        settings: of every arm, such as ``{"learning_rate": 1e-4}``; an arm's own go before them.
        runs_dir: where runs are kept; relative to the checkout.
        use_records: whether committed records stand in for runs that are not in ``runs_dir``.
        workers: runs trained side by side.
        fresh: train again what is finished.
        temperatures: at which the checkpoints of the ``temperature`` experiment are measured.
        address: of a Ray cluster to train on.
        launch: an accelerate configuration, to train each run with several processes.

    Raises:
        UserError: a name or value that is not allowed (before anything is trained), or a run
            failed.
    """
    if arms is None and experiment is None:
        raise UserError("compare needs arms, or the name of an experiment that has some")
    folder = in_project(runs_dir)
    planned = planned_study(arms, experiment, profile, seeds, steps, settings)
    with_stills()  # also for figures that the reader draws of the frames
    if page_likely():
        _watch(folder, missing_runs(planned, folder, use_records, fresh))
    study = run_study(
        arms, experiment, profile, seeds, steps, settings, runs_dir=folder,
        use_records=use_records, workers=workers, fresh=fresh,
        temperatures=temperatures, address=address, launch=launch,
    )  # fmt: skip
    return Comparison(**{one.name: getattr(study, one.name) for one in fields(study)})


def _watch(folder: Path, missing: Sequence[PlannedRun]) -> None:
    if missing:
        display(Dashboard(folder, planned=[(one.arm, one.config) for one in missing]))
