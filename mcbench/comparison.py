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
from pathlib import Path
from typing import Any

import pandas as pd
from IPython import get_ipython

from mcbench.claims import claims_of
from mcbench.claims.evidence import Evidence
from mcbench.errors import UserError, unknown
from mcbench.experiments.arms import Arms
from mcbench.experiments.experiments import EXPERIMENTS, REGISTERED
from mcbench.experiments.plan import make_plan
from mcbench.experiments.study import Study, planned_study, run_study
from mcbench.report import display
from mcbench.report.claims import claim_sections, our_sections
from mcbench.report.dashboard.dashboard import show_live
from mcbench.report.head import head_of, nothing_recorded
from mcbench.report.page import Head, Panel, Table, Tile, slug
from mcbench.report.panels import COVERAGE, PANELS
from mcbench.report.provenance import provenance
from mcbench.report.samples import samples_of
from mcbench.report.served import page_likely
from mcbench.report.site import write_comparison
from mcbench.report.sources import (
    Sources,
    arms_of,
    block_of,
    frame,
    labels_of,
    papers_numbers,
)
from mcbench.report.style import spoken
from mcbench.report.table import results_table
from mcbench.runs.place import committed_records, in_project
from mcbench.runs.store import RunStore


@dataclass(frozen=True, repr=False)
class Comparison(Study):
    """A :class:`mcbench.experiments.study.Study` that can be looked at and kept.

    ``curves``, ``evaluations`` and ``responses`` are its tidy frames, ``verdicts()`` the claims
    that its arms suffice for. ``beside`` holds further comparisons by name, ``others`` the same
    arms at other sizes; ``first`` is what the first screen begins with.
    """

    beside: Mapping[str, Comparison] = field(default_factory=dict)
    others: Sequence[Comparison] = ()
    first: Head = field(default_factory=Head)

    def with_beside(self, *others: Comparison, **named: Comparison) -> Comparison:
        """The same with comparisons by name beside it, whose runs and claims count, and with other
        sizes, whose claims count where this one decides nothing.
        """
        found = {**self.beside, **named}
        return replace(self, beside=found, others=[*self.others, *others])

    def with_registered(
        self, name: str, runs_dir: str | Path = "runs", use_records: bool = True
    ) -> Comparison:
        """The same with the runs of an experiment beside it that the protocol registers since round
        1, as :func:`show_registered` finds them, so that its claims are on the first screen too;
        this one where there are none yet.
        """
        found = _registered(name, runs_dir, use_records)
        if nothing_recorded(found):
            return self
        return self.with_beside(**{f"{name}, {one.profile}": one for one in found})

    def with_first(
        self, finding: str = "", lead: str = "", tiles: Sequence[Tile] = ()
    ) -> Comparison:
        """The same with a finding, a sentence on what it rests on, and numbers that its first
        screen begins with.
        """
        return replace(self, first=Head(finding, lead=lead, tiles=tiles))

    @property
    def labels(self) -> dict[str, str]:
        """The arms' names for people, as all figures have them."""
        return labels_of(self)

    @property
    def evidence(self) -> Evidence:
        """The finished runs as claims read them: curves by arm, aligned by seed and problem."""
        return Evidence(self.claim_curves)

    @property
    def sources(self) -> Sources:
        """What panels and the first screen are drawn from."""
        return Sources([self, *self.others], self, self.beside, self.first)

    def verdicts(self) -> pd.DataFrame:
        """As :meth:`Study.verdicts` gives them, with the names of arms for people."""
        found = super().verdicts()
        if found.empty:
            print(
                "No claim of the paper can be decided by these arms: none has all of its arms here."
            )
        told = {name: found[name].map(spoken) for name in ("parts", "note") if name in found}
        return found.assign(**told)

    # Shown in a notebook, and on the page that it becomes ----------------------------------------

    def show(self, *names: str, fold: str = "") -> None:
        """Show panels by name, such as ``"accuracy"``, ``"length"``, ``"diversity"``: figures,
        then the numbers beside them. Elsewhere than in a notebook, a line for each figure.

        Args:
            names: every panel that any runs have, where there are none.
            fold: the line under which a page hides them until somebody opens it.

        Raises:
            UserError: no such panel; the message lists them.
        """
        if nothing_recorded([self]):
            display.show(Panel("", missing=f"Nothing is recorded at {self.profile}."), fold=fold)
            return
        blocks = [block_of(self.sources, name) for name in names or (*PANELS, COVERAGE)]
        if not names:
            blocks = [one for one in blocks if not one.is_empty]
        display.show(*blocks, prefix=self._prefix, fold=fold)

    @property
    def _prefix(self) -> str:
        """What the ids of figures begin with: another comparison may share the page."""
        beside = self.name in REGISTERED
        return slug(f"{self.name}-{self.profile}" if beside else self.profile)

    def claims(self, fold: str = "") -> None:
        """Show every claim and question with its parts, intervals and reasons."""
        results = self.sources.results
        display.show(*claim_sections(results), *our_sections(results), fold=fold)

    def scores(self, fold: str = "") -> None:
        """Show pass rates by source and difficulty, in the shape of the paper's Table 1."""
        nothing = Panel("", missing="Not recorded: an evaluation.")
        display.show(results_table(self.sources.sizes) or nothing, fold=fold)

    def samples(self, fold: str = "") -> None:
        """Show responses, which a page has in a browser of its own; those of other sizes folded."""
        sources = self.sources
        sizes = zip(sources.sizes.items(), sources.studies, strict=True)
        for place, ((size, arms), study) in enumerate(sizes):
            if (found := samples_of(size, slug(study.profile), arms)) is not None:
                display.show(found, fold=found.title if place else fold)

    def provenance(self, fold: str = "") -> None:
        """Show the runs, their settings and what produced them."""
        sources = self.sources
        if nothing_recorded(sources.studies):
            return
        named = {name: arms_of(one) for name, one in self.beside.items()}
        display.show(provenance({**sources.sizes, **named}), fold=fold)

    def paper(self, fold: str = "") -> None:
        """Show what the paper reports: arm, measure, value; read by eye where it is a figure."""
        display.show(Table(papers_numbers(self.name)), fold=fold)

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> tuple[dict[str, Any], Any]:
        shown = display.head_output(head_of(self.sources))
        return shown.data, {display.KEY: shown.about}

    # Kept ----------------------------------------------------------------------------------------

    def frame(self, name: str) -> pd.DataFrame:
        """The numbers that a panel of :meth:`show` draws.

        Raises:
            UserError: as there.
        """
        return frame(self.sources, name)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the comparison as one HTML page; returns where it lies, and prints it in a script.

        Args:
            path: ``runs/<name>.html`` of the project where None.
        """
        target = Path(path or in_project(Path("runs", f"{self.name}.html")))
        written = write_comparison(self.sources, self._call(), target)
        if get_ipython() is None:
            print(f"report: {written}")
        return written

    def _call(self) -> str:
        """The call that makes the comparison again."""
        seeds = list(dict.fromkeys(one.config.seed for one in self.planned))
        given = [repr({arm: dict(own) for arm, own in self.settings.items()})]
        given += [f"profile={self.profile!r}", f"seeds={seeds!r}"]
        given += [f"{name}={value!r}" for name, value in self.options.items() if value]
        return f"compare({', '.join(given)})"


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
    address: str | None = None,
    launch: str | None = None,
    train: bool = True,
) -> Comparison:
    """Find or train the runs of some arms and compare them.

    What is finished in ``runs_dir``, or recorded in the checkout's ``reports/records``, is not
    trained again; how much of each there is, is said first. In JupyterLab a live dashboard stands
    above the cell while runs train, which survives a reload and a restart of the kernel, as the
    training does: the same cell is attached to it again. Elsewhere there are lines of progress.

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
        address: of a Ray cluster to train on.
        launch: an accelerate configuration, to train each run with several processes.
        train: whether missing runs are trained; else they are left out.

    Raises:
        UserError: a name or value that is not allowed (before anything is trained), or a run
            failed.
    """
    if arms is None and experiment is None:
        raise UserError("compare needs arms, or the name of an experiment that has some")
    folder = in_project(runs_dir)
    planned = planned_study(arms, experiment, profile, seeds, steps, settings)
    watched = page_likely() and train
    records = committed_records() if use_records and not fresh else []
    if watched and (fresh or make_plan(planned, RunStore(folder), records).missing):
        show_live(folder, [(one.arm, one.config) for one in planned], records)
    study = run_study(
        arms, experiment, profile, seeds, steps, settings, runs_dir=folder,
        use_records=use_records, workers=workers, fresh=fresh,
        address=address, launch=launch, train=train, apart=watched,
    )  # fmt: skip
    return _compared(study)


def _compared(study: Study) -> Comparison:
    return Comparison(**{one.name: getattr(study, one.name) for one in fields(study)})


def show_registered(
    name: str, *panels: str, runs_dir: str | Path = "runs", use_records: bool = True
) -> None:
    """Show panels and claims of an experiment that the protocol registers since round 1, from the
    runs that are there; where there are none, in a line that it is not trained yet.

    Args:
        name: of the experiment.
        panels: as of :meth:`Comparison.show`.
        runs_dir, use_records: where runs are looked for, as for :func:`compare`.

    Raises:
        UserError: it is not registered, or no such panel.
    """
    found = _registered(name, runs_dir, use_records)
    experiment, claims = EXPERIMENTS[name], [one.id for one in claims_of(name)]
    if nothing_recorded(found):
        told = f"{', '.join(claims)}: registered, not trained yet (mcbench sweep {name})."
        display.show(Panel("", missing=told))
        return
    for one in found:
        one.show(*panels, fold=f"{experiment.title}, at {one.profile}")
    found[0].with_beside(*found[1:]).claims(fold=f"{', '.join(claims)}, with what differs")


def _registered(name: str, runs_dir: str | Path, use_records: bool) -> list[Comparison]:
    """The runs of a registered experiment that are there, a comparison a profile."""
    if name not in REGISTERED:
        raise unknown("registered experiment", name, REGISTERED)
    experiment = EXPERIMENTS[name]
    settings = experiment.cells[0] if experiment.cells else None
    return [
        _compared(
            run_study(
                None, name, profile, experiment.seeds, None, settings, in_project(runs_dir),
                use_records, progress=lambda line: None, train=False,
            )
        )
        for profile in experiment.profiles
    ]  # fmt: skip
