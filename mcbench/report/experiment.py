"""From studies to a page, and its panels one by one in a notebook: the same path for all.

:mod:`mcbench.report.sections` holds what a page says, :mod:`mcbench.report.panels` and
:mod:`mcbench.report.own_panels` what it draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mcbench.claims.protocol import SEEDS as ROUND_1
from mcbench.claims.protocol import of_first_round
from mcbench.errors import UserError
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import OWN, Study, results_of
from mcbench.nano.saturated import measured
from mcbench.report import claims, ends, paper
from mcbench.report.base import add_reference, role_of
from mcbench.report.data_panels import NAMES, REQUIRED
from mcbench.report.evaluator_panels import (
    OURS,
    THEIRS,
    judge_name,
    misjudged,
    suite_sentence,
)
from mcbench.report.figures import LINES
from mcbench.report.numbers import figure_table
from mcbench.report.own_panels import own_panels
from mcbench.report.page import NANO_NOTE, Page, Panel, Section, Table, Tile, slug
from mcbench.report.panels import panel
from mcbench.report.provenance import provenance, settings
from mcbench.report.rendering import in_words
from mcbench.report.samples import samples_section
from mcbench.report.sections import Prose
from mcbench.report.series import Arms, Record, seed_of, unfinished_runs
from mcbench.report.sources import Sources, arms_of, prose_of
from mcbench.report.style import KNOWN, arm_styles
from mcbench.report.table import ScoreTable
from mcbench.runs.alarm import WATCHED, exploded, warning

# Panels ------------------------------------------------------------------------------------------


def block_of(sources: Sources, name: str, prefix: str = "", claim: str = "") -> Panel | ScoreTable:
    """A panel of the study in view, shared or the experiment's own, with the paper's curves.

    Args:
        prefix: begins the ids of the figures, which must be unique on a page.
        claim: what the paper says about it.

    Raises:
        UserError: no such panel; the message names those there are.
    """
    study = sources.study
    own = own_panels(study.name if study.name in EXPERIMENTS else OWN)
    if name in own:
        made = own[name](sources)
        if isinstance(made, Panel) and len(sources.studies) > 1:
            plots = [replace(plot, id=f"{prefix}-{plot.id}") for plot in made.plots]
            made = replace(made, plots=plots)
    else:
        made = panel(name, sources.arms, prefix, also=own)
        _add_papers_curves(made, sources, prefix)
    if isinstance(made, Panel) and claim:
        made = replace(made, prose=f"{made.prose} {claim}".strip())
    return made


def _add_papers_curves(made: Panel, sources: Sources, prefix: str) -> None:
    steps = [r.steps["step"].max() for runs in sources.arms.values() for r in runs if len(r.steps)]
    for plot in made.plots:
        line = LINES.get(plot.id.removeprefix(f"{prefix}-"))
        for place, reference in enumerate(paper.CURVES.get(sources.study.name, ())):
            if line is not None and line.column == reference.measure:
                add_reference(plot.figure, reference, float(max(steps)), place)


def show(study: Study, *names: str, **beside: Any) -> None:
    """Display panels by name in a notebook: figures, then the numbers beside them. Elsewhere a
    figure is a line that says what its curves end at.

    Args:
        beside: ``data``, ``suite`` and studies by name, as for :func:`experiment_page`.

    Raises:
        UserError: no such panel; the message names those there are.
    """
    from IPython import get_ipython
    from IPython.display import display

    for name in names:
        made = block_of(Sources([study], study, **beside), name)
        if isinstance(made, ScoreTable):
            display(made.frame())
            continue
        for plot in made.plots:
            if get_ipython() is None:
                told = in_words(figure_table(plot.figure))
                print(f'{plot.caption}: {told} study.report("page.html") draws it.')
                continue
            display(plot.figure.update(title={"text": plot.caption}))
        if made.data is not None and not made.data.empty:
            display(made.data)
        if made.missing:
            print(f"{made.title}: {made.missing}")


def frame(study: Study, name: str, **beside: Any) -> pd.DataFrame:
    """The data behind a panel: its own table, or one row a point that its figures draw.

    Of figures the columns are ``figure``, ``series``, ``x`` and ``y``; of an arm's curve each seed
    as it was measured is there as ``seeds``, and the bold line as ``mean`` (column ``part``).

    Raises:
        UserError: no such panel; the message names those there are.
    """
    made = block_of(Sources([study], study, **beside), name)
    if isinstance(made, ScoreTable):
        return made.frame()
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


def paper_table(experiment: str) -> pd.DataFrame:
    """What the paper reports for an experiment, read by eye where it is a figure."""
    rows = paper.NUMBERS.get(experiment, ())
    return pd.DataFrame(rows, columns=["Arm", "Measure", "The paper"])


SATURATED = "nano-saturated:train"

# The headline ------------------------------------------------------------------------------------


def finding(sources: Sources) -> str:
    """What came out, in a sentence or two."""
    arms, told = sources.arms, []
    if sources.suite is not None:
        told.append(suite_sentence(sources.suite))
    if (length := ends.first_length(arms)) is not None:
        papers, ours = _whose(sources.study, arms)
        told.append(ends.finding(papers, length, ours))
    told.append(claims.states_sentence(results_of(sources.studies)))
    return " ".join(filter(None, told))


def _whose(study: Study, arms: Arms) -> tuple[Arms, Arms]:
    """The arms that a headline is about, and ours beside them; all of them where all are ours."""
    own = EXPERIMENTS[study.name].ours if study.name in EXPERIMENTS else ()
    papers = {arm: runs for arm, runs in arms.items() if arm not in own}
    if not papers:
        return arms, {}
    return papers, {arm: runs for arm, runs in arms.items() if arm in own}


def lead(sources: Sources) -> str:
    """What is measured, on how much, and what is missing."""
    study, prose, arms = sources.study, prose_of(sources.study), sources.arms
    told = [_measured(study)]
    if prose.summed:
        size = next(size for size, found in sources.sizes.items() if found == arms)
        told.append(f"The first screen is about {size}.")
    if sources.data is not None:
        told += _of_sets(sources)
    told.append(_counts(arms))
    told.append(_first_round(study))
    if absent := [arm for arm in _asked(study) if arm not in ends.finished(study.arms)]:
        labels = arm_styles(prose.styles.get(arm, arm) for arm in absent).values()
        told.append(f"Without a finished run: {', '.join(style.label for style in labels)}.")
    return " ".join(filter(None, told))


def _measured(study: Study) -> str:
    """What an experiment measures; the names of its arms where they are not the experiment's."""
    prose, arms = prose_of(study), [*_asked(study), *study.arms]
    if study.name not in EXPERIMENTS or {*arms} == {*EXPERIMENTS[study.name].arms}:
        return prose.measured
    styles = arm_styles(dict.fromkeys(prose.styles.get(arm, arm) for arm in arms))
    return f"These arms: {', '.join(f'“{style.label}”' for style in styles.values())}."


def _first_round(study: Study) -> str:
    """Says so where all runs of an experiment are of the first round; else empty."""
    told = "These are runs of the first round (seeds 0 to 4), before the protocol."
    return told if study.name in EXPERIMENTS and of_first_round(study.records) else ""


def _of_sets(sources: Sources) -> list[str]:
    """What the pipeline made, and what the easier arm trained on where that is another set."""
    record = sources.data
    assert record is not None  # asked for where there is one
    rates = [f"{100 * record.base[level]['pass@1']:.0f} %" for level in NAMES]
    told = [
        f"The pipeline turned a pool of {record.pool} problems into a harder and an easier set of "
        f"{sum(record.passes['harder'])} problems, of which the base model solves {rates[0]} and "
        f"{rates[1]}."
    ]
    if _saturated(sources):
        told.append(
            f"The easier arm trains on another set, {SATURATED}, of which its base model solves "
            f"{100 * measured()['pass@1']:.0f} %."
        )
    return told


def _asked(study: Study) -> list[str]:
    """The arms that a study is about, whether they have runs or not."""
    if study.planned:
        return list(dict.fromkeys(one.arm for one in study.planned))
    if not {*study.arms} <= {*EXPERIMENTS.get(study.name, study).arms}:
        return list(study.arms)
    return list(EXPERIMENTS[study.name].arms) if study.name in EXPERIMENTS else []


def _counts(arms: Arms) -> str:
    seeds = sorted({len(runs) for runs in arms.values()})
    many = ends.plural(seeds[-1], "seed") if len(seeds) < 2 else f"{seeds[0]} to {seeds[-1]} seeds"
    each = " each" if len(arms) > 1 else ""
    runs = ends.plural(sum(map(len, arms.values())), "run")
    return f"{ends.plural(len(arms), 'arm')} with {many}{each}: {runs}."


def _data_tiles(sources: Sources) -> list[Tile]:
    """What the base solves of either set, and the pipeline at its worst."""
    record = sources.data
    if record is None:
        return []
    styles, made = arm_styles(NAMES.values()), []
    for level, name in NAMES.items():
        rate, count, of = record.base[level]["pass@1"], sum(record.passes[level]), ""
        if level == "easier" and _saturated(sources):
            rate, count, of = measured()["pass@1"], len(measured()["ids"]), f" of {SATURATED}"
        title, under = f"Base pass@1, {name.lower()}", f"{count} problems{of}"
        made.append(Tile(title, f"{100 * rate:.1f}", "%", under, styles[name]))
    scores = [one for found in record.scores.values() for one in found]
    lowest = min(min(one.precision, one.recall) for one in scores)
    under = f"required: {REQUIRED:g}"
    return [*made, Tile("Lowest precision or recall", f"{lowest:.3f}", "", under)]


def _saturated(sources: Sources) -> bool:
    """Whether the easier arm trained on no set of the pipeline's, but on the saturated one."""
    runs = sources.arms.get(NAMES["easier"], ())
    return {record.config.train_set for record in runs} == {SATURATED}


def _suite_tiles(sources: Sources) -> list[Tile]:
    if sources.suite is None:
        return []
    table = misjudged(sources.suite).set_index("judge")
    made = []
    for judge, arm in (("microcoder", OURS), ("livecodebench", THEIRS)):
        if judge in table.index:
            row = table.loc[judge]
            share = 100 * row["rejected"] / max(1, row["right"])
            under = f"and {row['accepted']} of {row['wrong']} wrong accepted"
            name = f"Right refused, {judge_name(judge)}"
            made.append(Tile(name, f"{share:.1f}", "%", under, KNOWN[arm]))
    return made


# The page ----------------------------------------------------------------------------------------


def experiment_page(studies: Sequence[Study], reproduce: str, **beside: Any) -> Page:
    """The whole page.

    Args:
        studies: of one experiment or comparison, one a size of model; the first is the headline.
        reproduce: the command that makes the page again, shown as it is.
        beside: what some experiments measure beside runs, each where it is known: ``data``
            (:class:`~mcbench.experiments.graded_sets.DataRecord`) of ``data_quality``, ``suite``
            (:class:`~mcbench.experiments.labelled.SuiteRecord`) and ``timing`` (the study of
            ``evaluator_timing``) of ``code_evaluator``, ``correction`` (the study of that name) of
            ``truncation_mask`` and ``context_length``, ``search`` (the study of ``retrieval``) of
            ``multi_turn``.

    Raises:
        UserError: the runs recorded nothing yet.
    """
    sources = Sources(studies, studies[0], **beside)
    prose, results, sizes = prose_of(studies[0]), sources.results, sources.sizes
    if all(r.steps.empty and r.evals.empty for study in studies for r in study.records):
        raise UserError("the runs recorded no step and no evaluation yet: there is nothing to show")
    shown = {name: getattr(sources, name) for name in ("timing", "correction", "search")}
    where = sizes | {name: arms_of(study) for name, study in shown.items() if study}
    known = [
        record.config.model
        for arms in where.values()
        for records in arms.values()
        for record in records
    ]
    notes = [NANO_NOTE] if all(model.startswith("nano") for model in known) else []
    length = ends.first_length(sources.arms)
    styles = arm_styles(dict.fromkeys(arm for arms in sizes.values() for arm in arms))
    return Page(
        title=prose.title,
        kicker=prose.figure or "comparison",
        lead=lead(sources),
        finding=finding(sources),
        tiles=[*_data_tiles(sources), *_suite_tiles(sources)],
        ends=None if length is None else ends.chart(sources.arms, length),
        verdicts=claims.verdicts(results),
        notebook=EXPERIMENTS[own].notebook if (own := studies[0].name) in EXPERIMENTS else "",
        arms=styles,
        notes=[
            *notes,
            *known_of_round_1(prose, [one for study in studies for one in study.records]),
            *filter(None, map(unfinished_runs, sizes.values())),
            *_in_one(
                f"{size}: {text}" if len(sizes) > 1 else text
                for size, arms in sizes.items()
                for text in _alarms(arms)
            ),
        ],
        equal=[
            f"{size}: {text}" if len(sizes) > 1 else text
            for size, one in zip(sizes, studies, strict=True)
            for text in _duplicates(one)
        ],
        sections=[
            *claims.claim_sections(results),
            *_parts(sources),
            *_papers_numbers(studies[0].name, prose.figure),
            *claims.our_sections(results),
            *_samples(sources),
            provenance(where, reproduce),
        ],
    )


def _in_one(told: Iterable[str]) -> list[str]:
    """Sentences as one note; none without any."""
    return list(filter(None, [" ".join(told)]))


def known_of_round_1(prose: Prose, records: Iterable[Record]) -> list[str]:
    """What is known since of round 1, where its runs are shown."""
    shown = any(seed_of(record) in ROUND_1 for record in records)
    return [f"What is known of round 1 now. {prose.known}"] if prose.known and shown else []


def _alarms(arms: Arms) -> list[str]:
    """A sentence for each arm in which a term of the loss exploded, and for each run whose reward
    is hacked, of those in which a part of the responses was judged a second time.
    """
    styles = arm_styles(arms)
    told = []
    for arm, runs in arms.items():
        seed = f", seed {runs[0].meta['seed']}" if len(runs) == 1 else ""
        if alarm := exploded(*(_watched_of(run.steps) for run in runs)):
            told.append(f"{styles[arm].label}{seed}: {alarm}.")
        for run in runs:
            if "alarm/gap" in run.steps and (alarm := warning(run.steps["alarm/gap"])):
                told.append(f"{styles[arm].label}, seed {run.meta['seed']}: {alarm}.")
    return told


def _watched_of(steps: pd.DataFrame) -> dict[str, pd.Series]:
    return {name: steps[name] for name in WATCHED if name in steps}


_CHOOSES = {"temperature_target_diversity", "temperature_target_entropy", "temperature_restore"}


def _duplicates(study: Study) -> list[str]:
    """A sentence for each arm that is the same computation as an earlier one, and why it is."""
    styles = prose_of(study).styles
    label = {
        arm: arm_styles([styles.get(arm, arm)])[styles.get(arm, arm)].label for arm in study.arms
    }
    told = []
    for arm, other in study.duplicates.items():
        ours, theirs = (settings(study.arms[one][0].config) for one in (arm, other))
        apart = [name for name in ours if ours[name] != theirs[name]]
        named = ", ".join(f"{name} ({ours[name]} against {theirs[name]})" for name in apart)
        why = (
            f"They differ only in {named}, which" if apart else "Their settings are the same, which"
        )
        masks = [run.steps["mask/share"] for run in study.arms[arm] if "mask/share" in run.steps]
        never = masks and all((share.dropna() == 0).all() for share in masks)
        does = "changed no update"
        if never and "truncation_mask" in apart:
            does = "never acted: no response met the mask's condition"
        elif "temperature" in apart and _CHOOSES & set(apart):
            does = "came to one temperature in every seed"
        told.append(
            f"{label[arm]} and {label[other]} are equal to the last digit. "
            f"{why} {does if apart else 'makes them one computation'}."
        )
    return told


def _views(sources: Sources) -> list[tuple[str, str, Sources]]:
    """Size, prefix of ids and sources of every study."""
    one = len(sources.studies) == 1 and sources.study.name in EXPERIMENTS
    return [
        (size, sources.study.name if one else slug(size), sources.at(study))
        for size, study in zip(sources.sizes, sources.studies, strict=True)
    ]


def _parts(sources: Sources) -> list[Section]:
    made = []
    views = _views(sources)
    several = len(views) > 1 or prose_of(sources.study).summed
    for part in prose_of(sources.study).parts:
        for size, prefix, view in views if part.every_size else views[:1]:
            made_of = [block_of(view, name, prefix, said) for name, said in part.panels.items()]
            blocks = [one for one in made_of if not _is_empty(one)]
            panels = [one for one in made_of if isinstance(one, Panel)]
            absent = [one.title for one in panels if _is_empty(one) and one.missing]
            not_there = f" Not recorded in these runs: {', '.join(absent)}." if absent else ""
            apart = part.every_size and several
            name = f"{prefix}-{part.id}" if apart else part.id
            title = f"{part.title}: {size}" if apart else part.title
            other = fold = ""
            if view.study is not sources.study:
                other = _first_round(view.study)
                fold = f"The panels at {size}"
            prose = " ".join(filter(None, [other, part.prose])) + not_there
            made.append(Section(name, title, prose, blocks, fold=fold))
    return made


def _is_empty(block: Panel | ScoreTable) -> bool:
    """Whether a panel has nothing to show but what is missing."""
    if not isinstance(block, Panel):
        return False
    some = block.data is not None and len(block.data)
    return not (block.plots or block.flat or block.text or some)


def _papers_numbers(experiment: str, figure: str) -> list[Section]:
    if experiment not in paper.NUMBERS:
        return []
    return [
        Section(
            "paper",
            f"The paper's numbers ({figure})",
            "Read by eye from its figures, or as printed. They are about other models on other "
            "problems (mostly Qwen3-4B-Instruct-2507): compare directions, not values.",
            [Table(paper_table(experiment))],
        )
    ]


def _samples(sources: Sources) -> list[Section]:
    prose, views = prose_of(sources.study), _views(sources)
    shown = [
        (size if prose.summed or len(views) > 1 else prose.title, prefix, view.arms)
        for size, prefix, view in views
    ]
    if sources.search:
        shown.append(("A sub-agent that searches", "search", arms_of(sources.search)))
    return [section for one in shown if (section := samples_section(*one))]
