"""What the panels of a page are drawn from, studies of one experiment and others beside them; and
these panels, and the numbers behind them, by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from mcbench.claims import Result
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import Study, results_of
from mcbench.grpo.recipes import RECIPES
from mcbench.report import paper
from mcbench.report.base import add_reference, role_of
from mcbench.report.figures import LINES
from mcbench.report.page import Head, Panel
from mcbench.report.panels import panel
from mcbench.report.series import Arms, seed_of, size_names
from mcbench.report.style import KNOWN, OWN_ARM, arm_styles
from mcbench.runs.store import RunRecord


def drawn_as(study: Study, arm: str) -> str:
    """The name under which an arm of a study is drawn; one of the reader's own may be called as an
    arm of some experiment is, and is not drawn as that.
    """
    experiment = EXPERIMENTS.get(study.name)
    if arm in KNOWN and arm not in (experiment.arms if experiment else RECIPES):
        return OWN_ARM + arm
    return experiment.drawn.get(arm, arm) if experiment else arm


def arms_of(study: Study) -> dict[str, list[RunRecord]]:
    """The runs of each arm under the name by which it is drawn, each arm in order of seeds."""
    return {
        drawn_as(study, arm): sorted(runs, key=seed_of) for arm, runs in study.arms.items() if runs
    }


def labels_of(study: Study) -> dict[str, str]:
    """The names for people of the arms of a study, as all figures have them."""
    drawn = {arm: drawn_as(study, arm) for arm in study.arms}
    styles = arm_styles(drawn.values())
    return {arm: styles[name].label for arm, name in drawn.items()}


@dataclass(frozen=True)
class Sources:
    """What a page is made from.

    Attributes:
        studies: of one experiment, one a size of model.
        study: the one that a panel is drawn of.
        beside: further comparisons by name, such as runs of a noisy sampler; their claims count.
        first: with what the first screen begins: its finding, lead and tiles.
    """

    studies: Sequence[Study]
    study: Study
    beside: Mapping[str, Study] = field(default_factory=dict)
    first: Head = field(default_factory=Head)

    def at(self, study: Study) -> Sources:
        """The same with another size in view."""
        return replace(self, study=study)

    @property
    def arms(self) -> Arms:
        """The arms of the study in view."""
        return arms_of(self.study)

    @property
    def results(self) -> dict[str, Result]:
        """Of the claims about the studies, and about what is shown beside them."""
        beside: dict[str, list[Study]] = {}
        for one in self.beside.values():  # an experiment may be there at several scales
            beside.setdefault(one.name, []).append(one)
        every = [self.studies, *beside.values()]
        return {name: result for found in every for name, result in results_of(found).items()}

    @property
    def sizes(self) -> dict[str, Arms]:
        """model -> arms; with the profile's name where several studies train one model, under that
        name alone where a study's arms are of two models alike.
        """
        sizes = [(_model(study), study.profile) for study in self.studies]
        names = size_names(sizes)
        return {names[size]: arms_of(one) for size, one in zip(sizes, self.studies, strict=True)}


def _model(study: Study) -> str:
    models = (runs[0].config.model for runs in study.arms.values() if runs)
    counts = Counter(models).most_common(2)
    tied = len(counts) == 2 and counts[0][1] == counts[1][1]
    return study.profile if tied or not counts else counts[0][0]


# Panels by name ----------------------------------------------------------------------------------


def block_of(sources: Sources, name: str) -> Panel:
    """A panel of the study in view, with the paper's curves.

    Raises:
        UserError: no such panel; the message names those there are.
    """
    made = panel(name, sources.arms)
    steps = [r.steps["step"].max() for runs in sources.arms.values() for r in runs if len(r.steps)]
    for plot in made.plots:
        line = LINES.get(plot.id)
        for place, reference in enumerate(paper.CURVES.get(sources.study.name, ())):
            if line is not None and line.column == reference.measure:
                add_reference(plot.figure, reference, float(max(steps)), place)
    return made


def frame(sources: Sources, name: str) -> pd.DataFrame:
    """The data behind a panel: its own table, or one row a point that its figures draw.

    Of figures the columns are ``figure``, ``series``, ``x`` and ``y``; of an arm's curve each seed
    as it was measured is there as ``seeds``, and the bold line as ``mean`` (column ``part``).

    Raises:
        UserError: no such panel; the message names those there are.
    """
    made = block_of(sources, name)
    if made.data is not None and not made.data.empty:
        return made.data
    rows = [
        pd.DataFrame(
            {
                "figure": plot.caption,
                "series": str(trace.get("name") or ""),
                "part": role_of(trace),
                "x": list(trace["x"]),
                "y": list(trace["y"]),
            }
        )
        for plot in (*made.plots, *made.flat)
        for trace in plot.figure.data
        if trace["type"] in ("scatter", "bar") and not trace.get("fill")
    ]
    if not rows:
        return pd.DataFrame(columns=["figure", "series", "part", "x", "y"])
    return pd.concat(rows, ignore_index=True).dropna(subset=["y"]).reset_index(drop=True)


def papers_numbers(experiment: str) -> pd.DataFrame:
    """What the paper reports for an experiment, read by eye where it is a figure."""
    rows = paper.NUMBERS.get(experiment, ())
    return pd.DataFrame(rows, columns=["Arm", "Measure", "The paper"])
