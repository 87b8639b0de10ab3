"""Beyond the paper: a question a section that it leaves open (Q1-Q9), how much of what (Q10-Q13),
and what a correction for the sampler removes (Q14)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import stats

from mcbench.claims.claim import register
from mcbench.claims.curves import (
    ALL_ENTROPY,
    CLIPPED,
    DIVERSITIES,
    GROUPS,
    LENGTH,
    LEVELS,
    LONG_WEIGHT,
    REWARD,
    SHORT_WEIGHT,
    UNIQUE,
)
from mcbench.claims.evidence import Evidence, Part, Series, difference, gap, mean_of, part
from mcbench.claims.margins import CLIPPED as CLIPPED_TOKENS
from mcbench.claims.margins import DISTINCT, NATS, POINTS, PROGRAMS, RANK, TOKENS
from mcbench.claims.statistics import (
    Statistic,
    area_under_curve,
    drop_from_peak,
    estimate,
    first_window,
    growth,
    last_window,
    mean_between,
)

question = partial(register, whose="ours")


@question(
    "Q1",
    "Does the newer model generation grow its responses more, and on which difficulty does "
    "either gain?",
    ("older", "newer"),
    section="cross_model",
    experiment="cross_model",
    source="Fig. 1 shows mean accuracy and length without intervals, and no difficulties.",
)
def generations(evidence: Evidence) -> list[Part]:
    """Newer minus older model, each over its own start: growth of response length by the slope, and
    the gain in pass@1 (last minus first window) on easy, medium and hard problems.
    """
    name = "growth of responses, newer minus older"
    found = [evidence.difference(name, TOKENS, LENGTH, ("newer", "older"), growth)]
    for level in LEVELS:
        ours, other = (evidence.accuracy(arm, difficulty=level) for arm in ("newer", "older"))
        name = f"gain on {level} problems, newer minus older"
        found.append(difference(name, POINTS, ours, other, _gain))
    return found


def _gain(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return last_window(x, y) - first_window(x, y)


READINGS = {"rho_02": "incorrect", "when_correct": "correct", "when_non_incorrect": "non-incorrect"}


@question(
    "Q2",
    "Which reading of the mask's condition makes responses grow?",
    ("none", *READINGS),
    section="mask",
    experiment="truncation_mask",
    source="§2.2 masks incorrect truncated answers, §2.3 says correct ones, a later equation "
    "non-incorrect ones; the paper compares only proportions.",
)
def readings(evidence: Evidence) -> list[Part]:
    """Growth of response length by the slope: each reading minus no mask, and ``incorrect`` minus
    each of the other two; rho 0.2 in all three.
    """
    pairs = [(arm, "none", f"{name} minus no mask") for arm, name in READINGS.items()]
    pairs += [
        ("rho_02", arm, f"incorrect minus {READINGS[arm]}")
        for arm in ("when_correct", "when_non_incorrect")
    ]
    return [
        evidence.difference(f"growth, {name}", TOKENS, LENGTH, (ours, other), growth)
        for ours, other, name in pairs
    ]


VARIED = (
    "t_06", "t_10", "t_12", "t_18",
    "truncation_mask/all", "truncation_mask/rho_01", "truncation_mask/rho_02",
    "truncation_mask/rho_03",
    "kl_and_clip/kl_low_clip", "kl_and_clip/kl_high_clip", "kl_and_clip/no_kl_low_clip",
)  # fmt: skip
SO_FAR = (0.25, 0.5, 0.75)  # shares of the training after which one looks
NAMES = {
    **{f"diversity/distinct_{n}": f"Distinct-{n}" for n in (1, 2, 3, 4)},
    "diversity/self_bleu": "self-BLEU",
    "diversity/unique_programs": "unique programs",
    ALL_ENTROPY: "token entropy",
}


def _loss_until(share: float, column: str) -> Statistic:
    """Relative loss of diversity from the first window to the tenth of training before a share."""
    sign = -1 if column == "diversity/self_bleu" else 1  # it rises where diversity falls

    def loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        done = (x - x[0]) / (x[-1] - x[0])
        start = first_window(x, y)
        return sign * (start - mean_between(done, y, share - 0.1, share)) / np.abs(start)

    return loss


@question(
    "Q3",
    "Which measure of diversity warns of a falling accuracy, and how early?",
    VARIED,
    section="temperature",
    experiment="temperature",
    source="§2.5 says that lost diversity precedes failure, but neither defines diversity nor "
    "compares measures.",
)
def early_warning(evidence: Evidence) -> list[Part]:
    """Spearman's correlation over eleven arms, one value a seed: of the relative loss of a measure
    of diversity so far, after a quarter, half and three quarters of the training, with how far
    pass@1 ends below its peak.
    """
    accuracies = [evidence.accuracy(arm, shape=True) for arm in evidence.arms]
    drops = np.stack([drop_from_peak(one.x, one.y) for one in accuracies])
    found = []
    for share in SO_FAR:
        for column in (*DIVERSITIES, ALL_ENTROPY):
            loss = _loss_until(share, column)
            series = [evidence.logged(arm, column) for arm in evidence.arms]
            losses = np.stack([loss(one.x, one.y) for one in series])
            values = np.array([_spearman(a, b) for a, b in zip(losses.T, drops.T, strict=True)])
            name = f"{NAMES[column]} after {share:.0%} of training"
            found.append(Part(name, estimate(values), RANK))
    return found


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(stats.spearmanr(a, b).statistic)


CELLS = ("kl_low_clip", "kl_high_clip", "no_kl_low_clip", "no_kl_high_clip")


@question(
    "Q4",
    "What do the KL term and the high clip do one at a time?",
    CELLS,
    section="kl",
    experiment="kl_and_clip",
    source="§2.5 changes both at once.",
)
def one_at_a_time(evidence: Evidence) -> list[Part]:
    """Last-window pass@1, Distinct-4 and length in a 2x2 design: effect of removing the KL term
    (mean over both clips), of the high clip (mean over both KL settings), and their interaction
    (how much more the high clip does without KL).
    """
    found = []
    for name, unit, measure in (
        ("pass@1", POINTS, evidence.accuracy),
        ("Distinct-4", DISTINCT, evidence.diversity),
        ("length", TOKENS, evidence.length),
    ):
        old, high, free, both = (measure(arm) for arm in CELLS)
        end = last_window
        without = [*mean_of([free, both], end), *mean_of([old, high], end, -1)]
        clip = [*mean_of([high, both], end), *mean_of([old, free], end, -1)]
        interaction = [(1.0, both, end), (-1.0, free, end), (-1.0, high, end), (1.0, old, end)]
        found += [
            part(f"{name}, no KL minus KL", unit, *without),
            part(f"{name}, high minus low clip", unit, *clip),
            part(f"{name}, interaction", unit, *interaction),
        ]
    return found


@question(
    "Q5",
    "On which difficulty does training on the harder set pay?",
    ("harder", "easier"),
    section="data",
    experiment="data_quality",
    source="§3 shows the gain on all test problems together.",
)
def thirds(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 on easy, medium and hard held-out problems, trained on the harder minus on
    the easier set.
    """
    found = []
    for level in LEVELS:
        ours, other = (evidence.accuracy(arm, difficulty=level) for arm in ("harder", "easier"))
        name = f"pass@1 on {level} problems, harder minus easier set"
        found.append(difference(name, POINTS, ours, other, last_window))
    return found


@question(
    "Q6",
    "How many prompts lose their gradient to misjudged answers?",
    ("microcoder", "livecodebench"),
    section="evaluator",
    experiment="code_evaluator",
    source="§4 shows mean rewards, not what misjudgement does to the groups.",
)
def signal(evidence: Evidence) -> list[Part]:
    """Share of prompts whose responses fare differently (only those carry a gradient), and of those
    with no passing response, mean over the run, our rules minus LiveCodeBench's.
    """
    names = ("prompts with a gradient", "prompts without a passing response")
    arms = ("microcoder", "livecodebench")
    return [
        evidence.difference(name, POINTS, column, arms, area_under_curve)
        for name, column in zip(names, GROUPS, strict=True)
    ]


PER_RESPONSE, PER_TOKEN, PLUS = STEPS_TO_PLUS = ("grpo_per_response", "grpo", "grpo_plus")


@question(
    "Q7",
    "Why is GRPO averaged per response ahead of GRPO+ at twice the training length here?",
    STEPS_TO_PLUS,
    section="results",
    experiment="results",
    source="The paper's GRPO differs from GRPO+ in KL term and clip (section 5); that it is "
    "averaged as GRPO+ is, is our reading of Eq. 1. Round 1 compared GRPO as first published, "
    "averaged per response.",
)
def steps_to_plus(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at the longest evaluated length, and response length in training: GRPO
    averaged per response minus GRPO+, divided into what the averaging of the loss does (over each
    response minus over all tokens) and what KL term and low clip do (both over all tokens).
    """
    pairs = (
        ("GRPO per response minus GRPO+", PER_RESPONSE, PLUS),
        ("loss averaged per response minus over tokens", PER_RESPONSE, PER_TOKEN),
        ("KL and low clip minus neither, over tokens", PER_TOKEN, PLUS),
    )
    rates = {arm: evidence.accuracy(arm, longest=True) for arm in STEPS_TO_PLUS}
    lengths = {arm: evidence.length(arm) for arm in STEPS_TO_PLUS}
    return [
        difference(f"{what}, {name}", unit, curves[a], curves[b], last_window)
        for what, unit, curves in (
            ("pass@1 at the longest length", POINTS, rates),
            ("response length", TOKENS, lengths),
        )
        for name, a, b in pairs
    ]


SIZES = ("small", "medium", "large")


def _clipped(evidence: Evidence, arm: str) -> tuple[Series, Series]:
    """Share of clipped tokens in percent: over all updates, and over each generation's last one."""
    every = evidence.logged(arm, CLIPPED).percent()
    begins = evidence.logged(arm, REWARD).x
    last = np.isin(every.x, np.append(begins[1:] - 1, every.x[-1]))
    return every, Series(every.x[last], every.y[:, last])


@question(
    "Q8",
    "How far off-policy do updates get as the batch grows?",
    SIZES,
    section="batch",
    experiment="batch_size",
    source="§7.1 argues with on-policyness but does not measure it.",
)
def off_policy(evidence: Evidence) -> list[Part]:
    """How far updates get from the policy that sampled: share of tokens clipped, mean over all
    updates and over the last update of each generation, and last-window entropy, from each batch
    size to the next.
    """
    every, last = (dict(zip(SIZES, found, strict=True)) for found in zip(
        *(_clipped(evidence, arm) for arm in SIZES), strict=True))  # fmt: skip
    entropy = {arm: evidence.logged(arm, ALL_ENTROPY) for arm in SIZES}
    return [
        difference(f"{name}, {arm} to {larger}", unit, series[larger], series[arm], statistic)
        for name, unit, series, statistic in (
            ("tokens clipped", CLIPPED_TOKENS, every, area_under_curve),
            ("tokens clipped in the last update of a generation", CLIPPED_TOKENS, last,
             area_under_curve),
            ("entropy at the end", NATS, entropy, last_window),
        )
        for arm, larger in pairwise(SIZES)
    ]  # fmt: skip


@question(
    "Q9",
    "Does the conditional mask repair what a short limit costs?",
    ("short", "short_masked", "long"),
    section="context",
    experiment="context_length",
    source="§2.3 and §7.2 treat mask and limit apart.",
)
def repair(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 (at the training length of the long arm), length and Distinct-4: what the
    conditional mask adds at half the limit, and what is then still lacking against the full limit.
    """
    return [
        difference(f"{name}, {what}", unit, measure(ours), measure(other), last_window)
        for name, unit, measure in (
            ("pass@1", POINTS, evidence.accuracy),
            ("length", TOKENS, evidence.length),
            ("Distinct-4", DISTINCT, evidence.diversity),
        )
        for what, ours, other in (
            ("mask minus no mask at half the limit", "short_masked", "short"),
            ("full limit minus masked half", "long", "short_masked"),
        )
    ]


dose = partial(question, section="doses", experiment="doses")


def _effects(evidence: Evidence, pairs: Sequence[tuple[str, str, str]]) -> list[Part]:
    """For each named pair of arms: last-window pass@1 at both lengths, response length, and the
    share of unique programs; the first arm minus the second.
    """
    found = []
    for name, ours, other in pairs:
        ends = evidence.accuracy_parts(f"pass@1, {name}", gap(ours, other))
        found += [
            *(one for one in ends if not one.beside),
            evidence.difference(f"length, {name}", TOKENS, LENGTH, (ours, other)),
            evidence.difference(f"unique programs, {name}", PROGRAMS, UNIQUE, (ours, other)),
        ]
    return found


@dose(
    "Q10",
    "Does masking more pay, up to every wrong cut answer?",
    ("none", "rho_03", "rho_10"),
    source="The paper stops at rho 0.3, which touches 3 to 10 % of the answers here.",
)
def mask_dose(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths, response length and unique programs: rho 1 minus no mask,
    and minus rho 0.3.
    """
    return _effects(
        evidence,
        [("rho 1 minus no mask", "rho_10", "none"), ("rho 1 minus rho 0.3", "rho_10", "rho_03")],
    )


@dose(
    "Q11",
    "What of masking all is the mask, and what the normaliser?",
    ("none", "rho_10", "cut_kept", "all"),
    source="Masking all also takes the cut answers' tokens out of the loss's denominator; the "
    "conditional mask keeps them, so that the paper compares two changes at once.",
)
def normaliser(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths, response length and unique programs: every cut answer
    without its advantage, tokens kept, minus no mask (the mask); tokens dropped minus kept (the
    normaliser); every cut answer minus those that Eq. 2 names (its conditions).
    """
    return _effects(
        evidence,
        [
            ("the mask", "cut_kept", "none"),
            ("the normaliser", "all", "cut_kept"),
            ("the conditions", "cut_kept", "rho_10"),
        ],
    )


@dose(
    "Q12",
    "From which coefficient on does a KL term cost or keep anything?",
    ("none", "kl_0001", "kl_004", "kl_03"),
    source="§2.5 has one coefficient, and does not say which.",
)
def kl_dose(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths, response length and unique programs, at the high clip:
    each coefficient minus none.
    """
    named = (("0.001", "kl_0001"), ("0.04", "kl_004"), ("0.3", "kl_03"))
    return _effects(evidence, [(f"KL {told} minus none", arm, "none") for told, arm in named])


@dose(
    "Q13",
    "Does the upper clip do anything?",
    ("none", "no_upper_clip"),
    source="§2.5 raises it; nobody takes it away.",
)
def upper_clip(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths, response length and unique programs: without an upper
    clip minus with the high one.
    """
    return _effects(evidence, [("no upper clip minus high", "no_upper_clip", "none")])


MODES = ("uncorrected", "token_truncate", "sequence_mask")


@question(
    "Q14",
    "Does sequence-level masking of the importance ratio remove long responses?",
    MODES,
    section="correction",
    experiment="correction",
    source="The paper does not say how it corrects for a sampler whose log-probabilities are not "
    "the policy's; TRL masks whole responses by the product of their tokens' ratios.",
)
def removed(evidence: Evidence) -> list[Part]:
    """Percent of its weight in the loss that a response keeps, mean over the run: of the longest
    (above three quarters of the limit) and of shorter ones (a quarter to half), masking by sequence
    minus truncation by token; and longest minus shorter in each. Last-window response length of
    each, and of truncation by token minus no correction.
    """
    none, token, sequence = MODES
    longest, shorter, length = (
        {arm: evidence.logged(arm, column) for arm in arms}
        for column, arms in ((LONG_WEIGHT, MODES[1:]), (SHORT_WEIGHT, MODES[1:]), (LENGTH, MODES))
    )
    mean, end = area_under_curve, last_window
    kept = [
        ("longest responses, sequence minus token", longest[sequence], longest[token]),
        ("shorter responses, sequence minus token", shorter[sequence], shorter[token]),
        ("longest minus shorter, by sequence", longest[sequence], shorter[sequence]),
        ("longest minus shorter, by token", longest[token], shorter[token]),
    ]
    return [
        *(
            difference(f"weight, {name}", POINTS, ours.percent(), other.percent(), mean)
            for name, ours, other in kept
        ),
        difference("length, sequence minus token", TOKENS, length[sequence], length[token], end),
        difference("length, token minus none", TOKENS, length[token], length[none], end),
    ]


@dose(
    "Q15",
    "Does it matter that loops are not spared?",
    ("rho_10", "rho_10_loops"),
    source="Eq. 2 holds what repeats to its loss, but compares two windows, which finds a loop "
    "only if its period divides the window: on nano none, where a rule for any period finds them.",
)
def repetition(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths, response length and unique programs: loops of any period
    not spared, minus the paper's rule, both at rho 1.
    """
    return _effects(evidence, [("any loop minus the paper's rule", "rho_10_loops", "rho_10")])


@question(
    "Q16",
    "Does punishing length softly end higher at DAPO's own weight?",
    ("none", "soft_overlong", "soft_overlong_half"),
    section="rivals",
    experiment="rivals",
    source="ours, written after a look at R4's runs: DAPO's punishment of up to 1 stands beside "
    "rewards of 1 and -1, R4's beside 1 and 0, where it weighs twice as much.",
)
def soft_punishment_at_half(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at both lengths, response length and unique programs: half the punishment
    minus none, and minus the whole.
    """
    half = "soft_overlong_half"
    named = (("half the punishment minus none", "none"), ("half minus whole", "soft_overlong"))
    return _effects(evidence, [(told, half, other) for told, other in named])
