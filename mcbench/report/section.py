"""The pages of the paper's sections, all by one path: a study of an experiment, and its prose.

:mod:`mcbench.report.sections` holds the prose; notebooks show the same figures one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from mcbench.claims import Answer
from mcbench.errors import unknown
from mcbench.experiments.study import Study, shown_arms
from mcbench.report import paper
from mcbench.report.base import add_reference
from mcbench.report.figures import LINES
from mcbench.report.page import NANO_NOTE, Page, Panel, Section, Tile, data_table
from mcbench.report.panels import panel
from mcbench.report.provenance import provenance
from mcbench.report.samples import samples_section
from mcbench.report.series import Arms, seed_of
from mcbench.report.style import arm_styles
from mcbench.report.verdicts import PAGES, question_section, verdict_section


@dataclass(frozen=True)
class SectionPage:
    """The prose of a section's page.

    Attributes:
        figure: of the paper, such as ``Figure 2``.
        measured: what is measured here, in a sentence or two.
        panels: the panels of :data:`mcbench.report.panels.PANELS` it shows, each with what the
            paper claims about it (or nothing).
        extra: panels of its own, made from the study.
    """

    experiment: str
    title: str
    figure: str
    measured: str
    panels: Mapping[str, str]
    extra: Callable[[Study], list[Panel]] = field(default=lambda study: [])

    @property
    def name(self) -> str:
        """The page's and the notebook's name, without the ending."""
        return PAGES[self.experiment]


def spec_of(study: Study) -> SectionPage:
    """The prose of a study's page.

    Raises:
        UserError: the experiment's page is not one of these.
    """
    from mcbench.report.sections import SECTIONS

    if study.experiment not in SECTIONS:
        raise unknown("section", study.experiment, SECTIONS)
    return SECTIONS[study.experiment]


# Figures -----------------------------------------------------------------------------------------


def section_panel(study: Study, name: str) -> Panel:
    """One panel with the paper's claim about it, and the paper's curves where there are some.

    Raises:
        UserError: no such panel.
    """
    made = panel(name, study.arms, study.experiment)
    steps = [record.steps["step"].max() for runs in study.arms.values() for record in runs]
    for plot in made.plots:
        line = LINES.get(plot.id.removeprefix(f"{study.experiment}-"))
        for reference in paper.CURVES.get(study.experiment, ()):
            if line is not None and line.column == reference.measure:
                add_reference(plot.figure, reference, float(max(steps)))
    claim = spec_of(study).panels.get(name, "")
    return replace(made, prose=f"{made.prose} {claim}".strip())


def panels_of(study: Study) -> list[Panel]:
    """All panels of a section's page."""
    spec = spec_of(study)
    return [*(section_panel(study, name) for name in spec.panels), *spec.extra(study)]


def show(study: Study, *names: str) -> None:
    """Display figures in a notebook: of panels by name, or the section's own with ``extra``.

    Raises:
        UserError: no such panel.
    """
    from IPython.display import display

    for name in names:
        extra = name == "extra"
        for made in spec_of(study).extra(study) if extra else [section_panel(study, name)]:
            for plot in made.plots:
                display(plot.figure.update(title={"text": plot.caption}))
            if made.data is not None and not made.data.empty:
                display(made.data)
            if made.missing:
                print(f"{made.title}: {made.missing}")


# The page ----------------------------------------------------------------------------------------


def paper_table(experiment: str) -> pd.DataFrame:
    """What the paper reports for an experiment, read by eye where it is a figure."""
    rows = paper.NUMBERS.get(experiment, ())
    return pd.DataFrame(rows, columns=["Arm", "Measure", "The paper"])


def lead(study: Study) -> str:
    """The page in a few sentences."""
    runs = sum(map(len, study.arms.values()))
    seeds = {seed_of(record) for records in study.arms.values() for record in records}
    counts = {"arm": len(study.arms), "seed": len(seeds), "run": runs}
    found = [", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in counts.items()) + "."]
    if study.verdicts:
        states = ", ".join(f"{name} {one.state}" for name, one in study.verdicts.items())
        found.append(f"The paper's claims on this scale: {states}.")
    for name, answer in study.answers.items():
        decided = [
            f"{part.name}: {state}" for part, state in answer.parts if state != "inconclusive"
        ]
        found.append(f"{name} (ours): {'; '.join(decided) or 'nothing is decided'}.")
    if absent := [arm for arm in shown_arms(study.experiment) if arm not in study.arms]:
        names = ", ".join(style.label for style in arm_styles(absent).values())
        found.append(f"Without a finished run: {names}.")
    return " ".join([spec_of(study).measured, *found])


def _tiles(study: Study) -> list[Tile]:
    states = [verdict.state for verdict in study.verdicts.values()]
    return [
        Tile(state.capitalize(), str(states.count(state)), f" of {len(states)} claims")
        for state in ("supported", "contradicted", "inconclusive")
        if states
    ]


def section_page(study: Study, reproduce: str) -> Page:
    """The whole page.

    Args:
        reproduce: the command that makes the page again, shown as it is.
    """
    spec, arms = spec_of(study), study.arms
    sections = [verdict_section(study.verdicts)] if study.verdicts else []
    sections.append(
        Section(
            "dynamics",
            "Training dynamics",
            "Thin lines are seeds, the bold line is their mean, the band its 95 % t interval (from "
            "three seeds on). Dotted grey lines are the paper's, read by eye.",
            panels_of(study),
        )
    )
    if spec.experiment in paper.NUMBERS:
        sections.append(
            Section(
                "paper",
                f"The paper's numbers ({spec.figure})",
                "Read by eye from its figures, or as printed. They are about other models on other "
                "problems (mostly Qwen3-4B-Instruct-2507): compare directions, not values.",
                markup=data_table(paper_table(spec.experiment)),
            )
        )
    if study.answers:
        sections.append(question_section(study.answers))
    sections += filter(None, [samples_section(spec.title.lower(), spec.experiment, arms)])
    sections.append(provenance({"": arms}, reproduce))
    return Page(
        title=spec.title,
        kicker=f"mcbench · {spec.figure}",
        lead=lead(study),
        tiles=_tiles(study),
        arms=arm_styles(arms),
        notes=(NANO_NOTE,) if is_nano(arms) else (),
        sections=sections,
    )


def with_answers(page: Page, answers: Mapping[str, Answer]) -> Page:
    """A page with our questions before its last section, which says where it comes from."""
    if not answers:
        return page
    *others, last = page.sections
    return replace(page, sections=[*others, question_section(answers), last])


def is_nano(arms: Arms) -> bool:
    """Whether all runs are of nano models."""
    models = {str(record.config.model) for records in arms.values() for record in records}
    return all(model.startswith("nano") for model in models)
