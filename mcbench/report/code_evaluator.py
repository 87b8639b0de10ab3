"""The page of the code evaluator: the paper's Fig. 6 and its claims E1 to E5 on the user's runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from mcbench.claims import Verdict
from mcbench.errors import UserError
from mcbench.experiments.labelled import SuiteRecord
from mcbench.report import figures, suite, training_rules
from mcbench.report.page import NANO_NOTE, Page, Panel, Plot, Section, Tile, data_table
from mcbench.report.panels import panel
from mcbench.report.provenance import provenance
from mcbench.report.series import Arms, Record, eval_lengths, step_curves
from mcbench.report.style import KNOWN, arm_styles
from mcbench.report.training_rules import OURS, THEIRS
from mcbench.report.verdicts import interval, signed, verdict_lines, verdict_section

TIMING_COMMAND = "mcbench sweep evaluator_timing"
NO_TIMES = (
    "No times are recorded yet. They need a machine that does nothing else, so they are measured "
    f"on their own: {TIMING_COMMAND}"
)


def suite_sentences(record: SuiteRecord) -> list[str]:
    """Both kinds of error under our rules and under LiveCodeBench's."""
    table = suite.misjudged(record).set_index("judge")
    return [
        f"{suite.judge_name(judge)}'s rules refuse {row['rejected']} of {row['right']} right cases "
        f"of the labelled suite and accept {row['accepted']} of {row['wrong']} wrong ones."
        for judge in (suite.OURS, suite.THEIRS)
        if judge in table.index
        for row in [table.loc[judge]]
    ]


def time_sentences(timing: Arms) -> list[str]:
    """E5 in words; says so where no times are recorded."""
    if not timing:
        return [f"E5: {NO_TIMES}"]
    styles = arm_styles(timing)
    lines = []
    for arm, saved in training_rules.savings(timing).items():
        interval = "no interval"
        if not np.isnan(saved.low):
            interval = f"95 % interval {saved.low:.0f} to {saved.high:.0f}"
        lines.append(
            f"E5, {styles[arm].label}: {saved.value:.0f} % less time per training step than "
            f"single-threaded ({interval}, {saved.seeds} seeds; the paper: about "
            f"{training_rules.PAPER_SAVING} %)."
        )
    return lines


def sentences(record: SuiteRecord, arms: Arms, timing: Arms) -> list[str]:
    """The verdicts on E1 to E4 and the times, one a line."""
    return [*verdict_lines(training_rules.claims(record, arms)), *time_sentences(timing)]


# Sections ----------------------------------------------------------------------------------------


def suite_section(record: SuiteRecord) -> Section:
    """E1: both kinds of error, by judge and by group of cases."""
    panels = [
        Panel(
            "Errors in both directions",
            "Comparisons are pairs of expected and printed output; programs are right and wrong "
            "ones in many styles; attacks try to be accepted without solving anything. Under every "
            "set of rules the programs run in MicroCoder-Evaluator; only the entry with its "
            "execution runs them as LiveCodeBench does, and it is not given the attacks, "
            "because it has no sandbox. A problem's own rules (tolerance, letter case, order, a "
            "checker) are known to MicroCoder's rules only: the others have no place for them.",
            [
                Plot(
                    "suite-bars",
                    "Errors in percent of the cases",
                    suite.suite_bars(record),
                    suite.bars_height(record),
                )
            ],
            suite.suite_table(record),
        )
    ]
    kinds = (("rejected", "Right cases refused"), ("accepted", "Wrong cases accepted"))
    panels += [_groups_panel(record, kind, title) for kind, title in kinds]
    return Section(
        "suite",
        "E1: judging a labelled suite",
        "A strict judge refuses right answers, a lenient one accepts wrong ones, and a model "
        "learns from both mistakes. The labels come from the rules of contests and of Python, "
        "never from running this code. The suite is a list of styles and traps: it shows where "
        "judges differ, not how often that happens in practice.",
        panels,
    )


def _groups_panel(record: SuiteRecord, kind: str, title: str) -> Panel:
    """The errors of one kind by group of cases; without any there is no figure."""
    groups = suite.misjudged(record, "part", "group")
    erring = groups[groups[kind] > 0].assign(judge=groups["judge"].map(suite.judge_name))
    if erring.empty:
        return Panel(f"{title}, by group", "None.", [])
    rows = len(erring[["part", "group"]].drop_duplicates())
    figure = suite.suite_groups(record, kind)
    plot = Plot(f"suite-{kind}", "Percent, and counts", figure, suite.groups_height(rows))
    return Panel(f"{title}, by group", "Groups without such an error are left out.", [plot], erring)


def training_section(arms: Arms) -> Section:
    """E2, E3 and E4."""
    lengths = eval_lengths(arms)
    if not lengths:
        raise UserError("the runs hold no evaluation yet, so there is nothing to compare")
    markup = data_table(training_rules.numbers_table(training_rules.numbers(arms)))
    seeds = training_rules.shared_seeds(arms)
    return Section(
        "training",
        "E2, E3, E4: training under either set of rules",
        "GRPO+ on nano problems whose right answers come in several valid formats, chosen so that "
        "LiveCodeBench's rules refuse a quarter of the reference programs, before anything was "
        "trained. So E2 holds partly by construction; the first generation, where both arms sample "
        "the same responses from the same model, shows that part alone. Held-out problems are "
        "plain ones, judged by MicroCoder's rules in both arms. "
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}, paired.",
        [
            reward_panel(arms),
            accuracy_panel(arms, lengths),
            gap_panel(arms, lengths[0]),
            groups_panel(arms),
        ],
        markup=markup,
    )


def reward_panel(arms: Arms) -> Panel:
    """Training reward and length."""
    return replace(
        panel("reward", arms, "rules"),
        title="Training reward",
        prose="Share of sampled responses that pass under the arm's own rules: the paper claims "
        "that it is higher under the multi-strategy evaluator.",
    )


def accuracy_panel(arms: Arms, lengths: Sequence[int]) -> Panel:
    """Held-out accuracy at each test length."""
    plots = [
        Plot(f"rules-accuracy-{n}", f"pass@1 with up to {n} tokens", figures.accuracy(arms, n))
        for n in lengths
    ]
    return Panel(
        "Held-out accuracy",
        "Judged by MicroCoder's rules in both arms. The paper claims that accuracy rises faster "
        "and ends higher when training was judged by them too.",
        plots,
    )


def gap_panel(arms: Arms, length: int) -> Panel:
    """The difference between the arms over training."""
    return Panel(
        "The gap over training",
        "MicroCoder rules minus LiveCodeBench rules, seed by seed. The shaded thirds are compared: "
        "the paper claims that the gap is largest early.",
        [
            Plot(
                "rules-gap-accuracy",
                f"Held-out pass@1, up to {length} tokens",
                training_rules.accuracy_gap(arms, length),
            ),
            Plot("rules-gap-reward", "Training reward", training_rules.reward_gap(arms)),
        ],
    )


def groups_panel(arms: Arms) -> Panel:
    """What refused answers do to the groups."""
    shares: dict[str, dict[str, float]] = {}
    for column, name, _ in figures.GROUPS:
        for curve in step_curves(arms, column, scale=100):
            label = arm_styles(arms)[curve.arm].label
            shares.setdefault(label, {})[f"{name} (%)"] = float(np.nanmean(curve.mean))
    rows = [{"Arm": label, **values} for label, values in shares.items()]
    return Panel(
        "Group outcomes",
        "Dark: prompts whose responses all pass; middle: some pass; light: none does. A problem "
        "whose right answers are all refused falls into the light part and carries no gradient.",
        [
            Plot(
                f"rules-groups-{index}",
                arm_styles(arms)[arm].label,
                figures.group_outcomes(arm, records).update(showlegend=False),
            )
            for index, (arm, records) in enumerate(arms.items())
        ],
        pd.DataFrame(rows),
    )


def timing_section(timing: Arms) -> Section:
    """E5: where the time of a training step goes with each evaluator."""
    prose = (
        "Seconds of one generation and the updates that follow it. Single-threaded: one test after "
        "another, a fresh python3 each. LiveCodeBench method: a manager and a forked process per "
        "sample. "
    )
    if not timing:
        return Section("time", "E5: time of a training step", f"{prose}{NO_TIMES}.")
    return Section(
        "time",
        "E5: time of a training step",
        f"{prose}The dotted line is where the paper's claim would put ours: about "
        f"{training_rules.PAPER_SAVING} % below single-threaded. How much an evaluator can save "
        "depends on what the rest of the step costs, so the split says more than the total.",
        [
            Panel(
                "The step split",
                "Mean over generations and seeds.",
                [Plot("step-split", "Seconds by part", training_rules.step_split(timing))],
                training_rules.step_table(timing),
            )
        ],
        markup=data_table(training_rules.step_table(timing)),
    )


# The page ----------------------------------------------------------------------------------------


def lead(record: SuiteRecord, verdicts: Mapping[str, Verdict]) -> str:
    """The page in a few sentences."""
    states = ", ".join(f"{name} {verdict.state}" for name, verdict in verdicts.items())
    return " ".join([*suite_sentences(record), f"The paper's claims on this scale: {states}."])


def _tiles(record: SuiteRecord, verdicts: Mapping[str, Verdict]) -> list[Tile]:
    table = suite.misjudged(record).set_index("judge")
    tiles = []
    for judge, arm in ((suite.OURS, OURS), (suite.THEIRS, THEIRS)):
        if judge in table.index:
            row = table.loc[judge]
            share = 100 * row["rejected"] / max(1, row["right"])
            under = f"and {row['accepted']} of {row['wrong']} wrong accepted"
            name = f"Right refused, {suite.judge_name(judge)}"
            tiles.append(Tile(name, f"{share:.1f}", "%", under, KNOWN[arm]))
    for name in ("E2", "E3"):
        for part in verdicts[name].parts:
            found = part.estimate
            under = f"95 %: {interval(found.low, found.high)}"
            tiles.append(Tile(f"{name}: {part.name}", signed(found.value), part.unit, under))
    return tiles


def code_evaluator_page(
    record: SuiteRecord,
    records: Iterable[Record],
    timing: Iterable[Record],
    reproduce: str,
) -> Page:
    """The whole page.

    Args:
        record: the labelled suite under each judge.
        records: runs under both sets of rules, any number of seeds.
        timing: runs that timed the evaluators; may be empty.
        reproduce: the command that makes the page again, shown as it is.

    Raises:
        UserError: an arm is missing, or no seed is in both.
    """
    arms = training_rules.rule_arms(records)
    times = training_rules.timing_arms(timing)
    verdicts = training_rules.claims(record, arms)
    nano = all(_model(r).startswith("nano") for runs in arms.values() for r in runs)
    sizes = {"rules": arms} | ({"timing": times} if times else {})
    return Page(
        title="The code evaluator",
        kicker="mcbench · Figure 6",
        lead=lead(record, verdicts),
        tiles=_tiles(record, verdicts),
        arms=arm_styles(arms),
        notes=(NANO_NOTE,) if nano else (),
        sections=[
            verdict_section(verdicts),
            suite_section(record),
            training_section(arms),
            timing_section(times),
            provenance(sizes, reproduce),
        ],
    )


def _model(record: Record) -> str:
    return str(record.config.model)
