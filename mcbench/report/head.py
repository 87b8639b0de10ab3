"""The first screen of a comparison: what came out, on how much it rests, what to be wary of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from mcbench.claims.protocol import of_first_round
from mcbench.experiments.data_record import NAMES, REQUIRED
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import Study
from mcbench.report import claims, ends
from mcbench.report.evaluator_panels import (
    OURS,
    THEIRS,
    judge_name,
    misjudged,
    suite_sentence,
)
from mcbench.report.page import NANO_NOTE, Head, Tile
from mcbench.report.provenance import settings
from mcbench.report.series import Arms, unfinished_runs
from mcbench.report.sources import Sources, drawn_as
from mcbench.report.style import KNOWN, arm_styles
from mcbench.runs.alarm import WATCHED, exploded, warning
from mcbench.worlds.saturated import measured

SATURATED = "nano-saturated:train"


def head_of(sources: Sources) -> Head:
    """The first screen; it is about the first of the studies."""
    every = [record for study in sources.studies for record in study.records]
    if nothing_recorded(sources.studies):
        return Head("Nothing is recorded of these arms yet.")
    sizes = sources.sizes
    beside = [one for one in (sources.timing, sources.correction, sources.search) if one]
    shown = [*every, *(record for study in beside for record in study.records)]
    nano = all(record.config.model.startswith("nano") for record in shown)
    length = ends.first_length(sources.arms)
    came_out = finding(sources)
    return Head(
        finding=came_out,
        summary=claims.states_sentence(sources.results) or came_out.split("\n")[0],
        tiles=[*_data_tiles(sources), *_suite_tiles(sources)],
        ends=None if length is None else ends.chart(sources.arms, length),
        verdicts=claims.verdicts(sources.results),
        lead=lead(sources),
        notes=[
            *([NANO_NOTE] if nano else []),
            *filter(None, map(unfinished_runs, sizes.values())),
            *_in_one(_at_each(sizes, [_alarms(arms) for arms in sizes.values()])),
        ],
        papers=claims.papers_of(sources.results),
        settings={arm: ends.settings_of(runs) for arm, runs in sources.arms.items()},
        equal=list(_at_each(sizes, [_duplicates(study) for study in sources.studies])),
    )


def nothing_recorded(studies: Sequence[Study]) -> bool:
    """Whether no run has logged a step or an evaluation."""
    every = [record for study in studies for record in study.records]
    return all(record.steps.empty and record.evals.empty for record in every)


def _at_each(sizes: Iterable[str], told: Iterable[list[str]]) -> Iterable[str]:
    """Sentences by size, which begins them where there are several."""
    named = list(zip(sizes, told, strict=True))
    return (f"{n}: {text}" if len(named) > 1 else text for n, found in named for text in found)


def finding(sources: Sources) -> str:
    """What came out, a line each: the paper's main claim where it is about it, claims that are
    decided, where arms end, how many are open, and what was asked by us.
    """
    arms, told, results = sources.arms, [], sources.results
    if sources.suite is not None:
        told.append(suite_sentence(sources.suite))
    told += [claims.main_claim(results), *claims.decided_sentences(results)]
    if (length := ends.first_length(arms)) is not None:
        papers, ours = _whose(sources.study, arms)
        known = EXPERIMENTS.get(sources.study.name)
        told.append(ends.finding(papers, length, ours, known.proposed if known else ""))
    told += [claims.states_sentence(results), claims.asked_sentence(results)]
    return "\n".join(filter(None, told))


def _whose(study: Study, arms: Arms) -> tuple[Arms, Arms]:
    """The arms that a headline is about, and ours beside them; all of them where all are ours."""
    own = EXPERIMENTS[study.name].ours if study.name in EXPERIMENTS else ()
    papers = {arm: runs for arm, runs in arms.items() if arm not in own}
    if not papers:
        return arms, {}
    return papers, {arm: runs for arm, runs in arms.items() if arm in own}


def lead(sources: Sources) -> str:
    """On how much the first screen rests, and what is missing."""
    study = sources.study
    told = _of_sets(sources) if sources.data is not None else []
    told.append(_counts(sources))
    told.append(first_round(study))
    if absent := [arm for arm in _asked(study) if arm not in ends.finished(study.arms)]:
        labels = arm_styles(drawn_as(study, arm) for arm in absent).values()
        told.append(f"Without a finished run: {', '.join(style.label for style in labels)}.")
    return " ".join(filter(None, told))


def first_round(study: Study) -> str:
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


def _counts(sources: Sources) -> str:
    arms = sources.arms
    if not arms:
        return f"{sources.study.profile}: no run is recorded."
    size = next(size for size, found in sources.sizes.items() if found == arms)
    seeds = sorted({len(runs) for runs in arms.values()})
    many = ends.plural(seeds[-1], "seed") if len(seeds) < 2 else f"{seeds[0]} to {seeds[-1]} seeds"
    each = " each" if len(arms) > 1 else ""
    runs = ends.plural(sum(map(len, arms.values())), "run")
    return f"{size}: {ends.plural(len(arms), 'arm')} with {many}{each}, {runs}."


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


def _in_one(told: Iterable[str]) -> list[str]:
    """Sentences as one note; none without any."""
    return list(filter(None, [" ".join(told)]))


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
    label = {
        arm: arm_styles([name])[name].label
        for arm, name in ((arm, drawn_as(study, arm)) for arm in study.arms)
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
