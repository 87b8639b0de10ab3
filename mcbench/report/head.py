"""The first screen of a comparison: what came out, on how much it rests, what to be wary of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcbench.claims.protocol import of_first_round
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import Study
from mcbench.report import claims, ends, story
from mcbench.report.page import NANO_NOTE, Head
from mcbench.report.provenance import settings
from mcbench.report.series import Arms, unfinished_runs
from mcbench.report.sources import Sources, drawn_as, labels_of
from mcbench.report.style import arm_styles
from mcbench.runs.alarm import exploded, warning


def head_of(sources: Sources) -> Head:
    """The first screen; it is about the first of the studies."""
    every = [record for study in sources.studies for record in study.records]
    if nothing_recorded(sources.studies):
        return Head("Nothing is recorded of these arms yet.")
    sizes = sources.sizes
    beside = sources.beside.values()
    shown = [*every, *(record for study in beside for record in study.records)]
    nano = all(record.config.model.startswith("nano") for record in shown)
    length = ends.first_length(sources.arms)
    came_out = finding(sources)
    return Head(
        finding=came_out,
        summary=story.states_sentence(sources.results) or came_out.split("\n")[0],
        tiles=sources.first.tiles,
        ends=None if length is None else ends.chart(sources.arms, length),
        verdicts=claims.verdicts(sources.results),
        lead=lead(sources),
        notes=[
            *([NANO_NOTE] if nano else []),
            *filter(None, map(unfinished_runs, sizes.values())),
            *filter(None, [" ".join(_at_each(sizes, map(_hacked, sizes.values())))]),
        ],
        exploded=list(_at_each(sizes, [_exploded(arms).values() for arms in sizes.values()])),
        papers=story.papers_of(sources.results),
        settings={arm: ends.settings_of(runs) for arm, runs in sources.arms.items()},
        equal=list(_at_each(sizes, [_duplicates(study) for study in sources.studies])),
    )


def nothing_recorded(studies: Sequence[Study]) -> bool:
    """Whether no run has logged a step or an evaluation."""
    every = [record for study in studies for record in study.records]
    return all(record.steps.empty and record.evals.empty for record in every)


def _at_each(sizes: Iterable[str], told: Iterable[Iterable[str]]) -> Iterable[str]:
    """Sentences by size, which begins them where there are several."""
    named = list(zip(sizes, told, strict=True))
    return (f"{n}: {text}" if len(named) > 1 else text for n, found in named for text in found)


def finding(sources: Sources) -> str:
    """What came out, a line each: the paper's main claim where it is about it, claims that are
    decided, where arms end and which of them exploded, how many are open, and what was asked by us.
    """
    arms, results = sources.arms, sources.results
    loud = _exploded(arms)
    told = [sources.first.finding, story.main_claim(results), *story.decided_sentences(results)]
    if (length := ends.first_length(arms)) is not None:
        papers, ours = _whose(sources.study, arms)
        known = EXPERIMENTS.get(sources.study.name)
        told.append(ends.finding(papers, length, ours, known.proposed if known else ""))
    if names := [f"“{style.label}”" for arm, style in arm_styles(arms).items() if arm in loud]:
        term = any("kl" in arms[arm][0].steps for arm in loud)
        told.append(
            f"Read with care: the loss of {', '.join(names)} exploded in single updates"
            f"{': no verdict on a KL term' if term else ''}."
        )
    told += [story.again_sentence(results), story.states_sentence(results)]
    told.append(story.asked_sentence(results))
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
    told = [sources.first.lead, _counts(sources)]
    if study.name in EXPERIMENTS and of_first_round(study.records):
        told.append("These are runs of the first round (seeds 0 to 4), before the protocol.")
    if absent := [arm for arm in _asked(study) if arm not in ends.finished(study.arms)]:
        labels = arm_styles(drawn_as(study, arm) for arm in absent).values()
        told.append(f"Without a finished run: {', '.join(style.label for style in labels)}.")
    return " ".join(filter(None, told))


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


def _exploded(arms: Arms) -> dict[str, str]:
    """A sentence for each arm in which a term of the loss exploded, by arm."""
    styles, told = arm_styles(arms), {}
    for arm, runs in arms.items():
        seed = f", seed {runs[0].meta['seed']}" if len(runs) == 1 else ""
        if alarm := exploded(*(run.steps for run in runs)):
            told[arm] = f"{styles[arm].label}{seed}: {alarm}."
    return told


def _hacked(arms: Arms) -> list[str]:
    """A sentence for each run whose reward is hacked, of those in which a part of the responses was
    judged a second time.
    """
    styles = arm_styles(arms)
    return [
        f"{styles[arm].label}, seed {run.meta['seed']}: {alarm}."
        for arm, runs in arms.items()
        for run in runs
        if "alarm/gap" in run.steps and (alarm := warning(run.steps["alarm/gap"]))
    ]


_CHOOSES = {"temperature_target_diversity", "temperature_target_entropy", "temperature_restore"}


def _duplicates(study: Study) -> list[str]:
    """A sentence for each arm that is the same computation as an earlier one, and why it is."""
    label, told = labels_of(study), []
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
