"""Beyond the paper: one question a section that it leaves open, answered from run records.

A question predicts no direction. Each of its parts is a difference with its interval, and is
**higher** or **lower** when the 95 % interval excludes 0 and the two-sided p-value stays at or
under 5 % after Holm's correction over the question's parts; **inconclusive** otherwise, and always
with too few seeds or without the runs that it needs. Statistics were fixed before the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from mcbench.claims.evidence import (
    CLIPPED,
    DIVERSITIES,
    ENTROPY,
    GROUPS,
    REWARD,
    Evidence,
    Part,
    Series,
    Term,
    mean_of,
    part,
    trend_of,
)
from mcbench.claims.measurements import Measurements
from mcbench.claims.selection import Records
from mcbench.claims.statistics import Statistic as CurveStatistic
from mcbench.claims.statistics import (
    area_under_curve,
    drop_from_peak,
    estimate,
    first_window,
    growth,
    holm,
    last_window,
)
from mcbench.claims.verdict import (
    ALPHA,
    INCONCLUSIVE,
    Rule,
    Statistic,
    arms_of,
    every_part,
    measured,
)
from mcbench.errors import UserError

HIGHER, LOWER = "higher", "lower"


@dataclass(frozen=True)
class Answer:
    """What the records say: each part with its state; ``note`` says why there is none."""

    parts: tuple[tuple[Part, str], ...]
    n_seeds: int
    note: str = ""


@dataclass(frozen=True)
class Question:
    """One question of ours.

    Attributes:
        source: what the paper leaves open.
        arms: as :mod:`mcbench.claims.selection` names them.
        statistic: evidence -> parts; its docstring says what is computed.
        seeds: seeds that every arm needs for a decision.
    """

    id: str
    section: str
    question: str
    source: str
    experiment: str
    arms: tuple[str, ...]
    statistic: Statistic
    rule: Rule = every_part
    seeds: int = 3

    def answer(self, records: Records, measurements: Measurements = ()) -> Answer:
        """The parts with their states."""
        found = measured(self, arms_of(self.experiment, self.arms, records), measurements)
        estimates = [part.estimate for part in found.parts]
        p = holm([min(1.0, 2 * min(one.p_above, one.p_below)) for one in estimates])
        states = []
        for one, corrected in zip(estimates, p, strict=True):
            decided = not found.missing and corrected <= ALPHA and (one.low > 0 or one.high < 0)
            states.append((HIGHER if one.low > 0 else LOWER) if decided else INCONCLUSIVE)
        return Answer(tuple(zip(found.parts, states, strict=True)), found.n_seeds, found.missing)


def question_rows(
    questions: Iterable[Question], records: Records, measurements: Measurements = ()
) -> list[dict[str, Any]]:
    """One row a part, or one for a question without an answer, for a summary table."""
    rows = []
    for one in questions:
        answer = one.answer(records, measurements)
        shared = {
            "id": one.id,
            "section": one.section,
            "question": one.question,
            "experiment": one.experiment,
            "seeds": answer.n_seeds,
            "note": answer.note,
        }
        nothing = {"part": "", "effect": np.nan, "low": np.nan, "high": np.nan, "unit": ""}
        rows += [
            {
                **shared,
                "part": part.name,
                "effect": part.estimate.value,
                "low": part.estimate.low,
                "high": part.estimate.high,
                "unit": part.unit,
                "state": state,
            }
            for part, state in answer.parts
        ] or [{**shared, **nothing, "state": INCONCLUSIVE}]
    return rows


def _against(name: str, unit: str, ours: Series, other: Series, statistic: CurveStatistic) -> Part:
    return part(name, unit, (1, ours, statistic), (-1, other, statistic))


# 01 -----------------------------------------------------------------------------------------------

GENERATIONS = ("grpo_plus@older", "grpo_plus@newer")


def generations(evidence: Evidence) -> list[Part]:
    """Newer minus older model, each over its own start: growth of response length by the slope, and
    the gain in pass@1 (last minus first window) on easy, medium and hard problems.
    """
    older, newer = GENERATIONS
    lengths = (evidence.length(newer), evidence.length(older))
    found = [_against("growth of responses, newer minus older", "tokens", *lengths, growth)]
    for level in ("easy", "medium", "hard"):
        ours, other = (evidence.accuracy(arm, difficulty=level) for arm in (newer, older))
        found.append(
            _against(f"gain on {level} problems, newer minus older", "points", ours, other, _gain)
        )
    return found


def _gain(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return last_window(x, y) - first_window(x, y)


# 02 -----------------------------------------------------------------------------------------------

READINGS = {"rho_02": "incorrect", "when_correct": "correct", "when_non_incorrect": "non-incorrect"}


def readings(evidence: Evidence) -> list[Part]:
    """Growth of response length by the slope: each reading minus no mask, and ``incorrect`` minus
    each of the other two; rho 0.2 in all three.
    """
    length = {arm: evidence.length(arm) for arm in ("none", *READINGS)}
    found = [
        _against(f"growth, {name} minus no mask", "tokens", length[arm], length["none"], growth)
        for arm, name in READINGS.items()
    ]
    found += [
        _against(f"growth, incorrect minus {READINGS[arm]}", "tokens", length["rho_02"],
                 length[arm], growth)
        for arm in ("when_correct", "when_non_incorrect")
    ]  # fmt: skip
    return found


# 03 -----------------------------------------------------------------------------------------------

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
    ENTROPY: "token entropy",
}


def _loss_until(share: float, column: str) -> CurveStatistic:
    """Relative loss of diversity from the first window to the tenth of training before a share."""
    sign = -1 if column == "diversity/self_bleu" else 1  # it rises where diversity falls

    def loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        done = (x - x[0]) / (x[-1] - x[0])
        inside = (done > share - 0.1) & (done <= share + 1e-9)
        if not inside.any():
            raise UserError(f"no generation in the tenth of training before {share:.0%}")
        start = first_window(x, y)
        return sign * (start - y[..., inside].mean(axis=-1)) / np.abs(start)

    return loss


def early_warning(evidence: Evidence) -> list[Part]:
    """Spearman's correlation over eleven arms, one value a seed: of the relative loss of a measure
    of diversity so far, after a quarter, half and three quarters of the training, with how far
    pass@1 ends below its peak.
    """
    drops = np.stack(
        [drop_from_peak(one.x, one.y) for one in map(evidence.accuracy, evidence.arms)]
    )
    found = []
    for share in SO_FAR:
        for column in (*DIVERSITIES, ENTROPY):
            loss = _loss_until(share, column)
            losses = np.stack(
                [loss(s.x, s.y) for s in (evidence.logged(arm, column) for arm in evidence.arms)]
            )
            values = np.array([_spearman(a, b) for a, b in zip(losses.T, drops.T, strict=True)])
            found.append(
                Part(
                    f"{NAMES[column]} after {share:.0%} of training", estimate(values), "rank corr."
                )
            )
    return found


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(stats.spearmanr(a, b).statistic)


# 04 -----------------------------------------------------------------------------------------------

CELLS = ("kl_low_clip", "kl_high_clip", "no_kl_low_clip", "no_kl_high_clip")


def one_at_a_time(evidence: Evidence) -> list[Part]:
    """Last-window pass@1, Distinct-4 and length in a 2x2 design: effect of removing the KL term
    (mean over both clips), of the high clip (mean over both KL settings), and their interaction
    (how much more the high clip does without KL).
    """
    found = []
    for name, unit, measure in (
        ("pass@1", "points", evidence.accuracy),
        ("Distinct-4", "Distinct-4", evidence.diversity),
        ("length", "tokens", evidence.length),
    ):
        old, high, free, both = (measure(arm) for arm in CELLS)
        end = last_window
        found += [
            part(f"{name}, no KL minus KL", unit,
                 *mean_of([free, both], end), *mean_of([old, high], end, -1)),
            part(f"{name}, high minus low clip", unit,
                 *mean_of([high, both], end), *mean_of([old, free], end, -1)),
            part(f"{name}, interaction", unit,
                 (1, both, end), (-1, free, end), (-1, high, end), (1, old, end)),
        ]  # fmt: skip
    return found


# 05 -----------------------------------------------------------------------------------------------


def thirds(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 on easy, medium and hard held-out problems, trained on the harder minus on
    the easier set.
    """
    return [
        _against(
            f"pass@1 on {level} problems, harder minus easier set",
            "points",
            evidence.accuracy("harder", difficulty=level),
            evidence.accuracy("easier", difficulty=level),
            last_window,
        )
        for level in ("easy", "medium", "hard")
    ]


# 06 -----------------------------------------------------------------------------------------------


def signal(evidence: Evidence) -> list[Part]:
    """Share of prompts whose responses fare differently (only those carry a gradient), and of those
    with no passing response, mean over the run, our rules minus LiveCodeBench's.
    """
    names = ("prompts with a gradient", "prompts without a passing response")
    found = []
    for name, column in zip(names, GROUPS, strict=True):
        ours, theirs = (
            Series(s.x, 100 * s.y)
            for s in (evidence.logged(arm, column) for arm in ("microcoder", "livecodebench"))
        )
        found.append(_against(name, "points", ours, theirs, area_under_curve))
    return found


# 07 -----------------------------------------------------------------------------------------------

OLD_LOSS, TOKEN_LOSS, PLUS = STEPS_TO_PLUS = ("grpo", "kl_and_clip/kl_low_clip", "grpo_plus")


def steps_to_plus(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 at the longest evaluated length, and response length in training: GRPO
    minus GRPO+, divided into what the averaging of the loss does (over each response, as in GRPO,
    minus over all tokens) and what KL term and low clip do (both with the token-level loss).
    """
    pairs = (
        ("GRPO minus GRPO+", OLD_LOSS, PLUS),
        ("loss averaged by response minus by token", OLD_LOSS, TOKEN_LOSS),
        ("KL and low clip minus neither", TOKEN_LOSS, PLUS),
    )
    rates = {arm: evidence.accuracy(arm, longest=True) for arm in STEPS_TO_PLUS}
    lengths = {arm: evidence.length(arm) for arm in STEPS_TO_PLUS}
    return [
        _against(f"{what}, {name}", unit, curves[a], curves[b], last_window)
        for what, unit, curves in (
            ("pass@1 at the longest length", "points", rates),
            ("response length", "tokens", lengths),
        )
        for name, a, b in pairs
    ]


# 08 -----------------------------------------------------------------------------------------------

SIZES, DOUBLINGS = ("small", "medium", "large"), (0.0, 1.0, 2.0)


def _clipped(evidence: Evidence, arm: str) -> tuple[Series, Series]:
    """Share of clipped tokens in percent: over all updates, and over each generation's last one."""
    every = evidence.logged(arm, CLIPPED)
    begins = evidence.logged(arm, REWARD).x
    last = np.isin(every.x, np.append(begins[1:] - 1, every.x[-1]))
    values = 100 * every.y
    return Series(every.x, values), Series(every.x[last], values[:, last])


def off_policy(evidence: Evidence) -> list[Part]:
    """How far updates get from the policy that sampled: share of tokens clipped, mean over all
    updates and over the last update of each generation, and last-window entropy, from the small to
    the large batch by the straight line over the doublings.
    """
    clipped = [_clipped(evidence, arm) for arm in SIZES]
    entropy = [evidence.logged(arm, ENTROPY) for arm in SIZES]
    mean = area_under_curve

    def rise(series: Sequence[Series], statistic: CurveStatistic) -> list[Term]:
        return trend_of(list(series), DOUBLINGS, statistic)

    return [
        part("tokens clipped, small to large", "% of tokens", *rise([a for a, _ in clipped], mean)),
        part(
            "tokens clipped in the last update of a generation, small to large",
            "% of tokens",
            *rise([b for _, b in clipped], mean),
        ),
        part("entropy at the end, small to large", "nats", *rise(entropy, last_window)),
    ]


# 09 -----------------------------------------------------------------------------------------------


def repair(evidence: Evidence) -> list[Part]:
    """Last-window pass@1 (at the training length of the long arm), length and Distinct-4: what the
    conditional mask adds at half the limit, and what is then still lacking against the full limit.
    """
    return [
        _against(f"{name}, {what}", unit, measure(ours), measure(other), last_window)
        for name, unit, measure in (
            ("pass@1", "points", evidence.accuracy),
            ("length", "tokens", evidence.length),
            ("Distinct-4", "Distinct-4", evidence.diversity),
        )
        for what, ours, other in (
            ("mask minus no mask at half the limit", "short_masked", "short"),
            ("full limit minus masked half", "long", "short_masked"),
        )
    ]


QUESTIONS: dict[str, Question] = {
    one.id: one
    for one in (
        Question(
            "Q1",
            "cross_model",
            "Does the newer model generation grow its responses more, and on which difficulty does "
            "either gain?",
            "Fig. 1 shows mean accuracy and length without intervals, and no difficulties.",
            "cross_model",
            GENERATIONS,
            generations,
        ),
        Question(
            "Q2",
            "mask",
            "Which reading of the mask's condition makes responses grow?",
            "§2.2 masks incorrect truncated answers, §2.3 says correct ones, a later equation "
            "non-incorrect ones; the paper compares only proportions.",
            "truncation_mask",
            ("none", *READINGS),
            readings,
        ),
        Question(
            "Q3",
            "temperature",
            "Which measure of diversity warns of a falling accuracy, and how early?",
            "§2.5 says that lost diversity precedes failure, but neither defines diversity nor "
            "compares measures.",
            "temperature",
            VARIED,
            early_warning,
        ),
        Question(
            "Q4",
            "kl",
            "What do the KL term and the high clip do one at a time?",
            "§2.5 changes both at once.",
            "kl_and_clip",
            CELLS,
            one_at_a_time,
        ),
        Question(
            "Q5",
            "data",
            "On which difficulty does training on the harder set pay?",
            "§3 shows the gain on all test problems together.",
            "data_quality",
            ("harder", "easier"),
            thirds,
        ),
        Question(
            "Q6",
            "evaluator",
            "How many prompts lose their gradient to misjudged answers?",
            "§4 shows mean rewards, not what misjudgement does to the groups.",
            "code_evaluator",
            ("microcoder", "livecodebench"),
            signal,
        ),
        Question(
            "Q7",
            "results",
            "Why is plain GRPO ahead of GRPO+ at twice the training length on the nano models?",
            "The paper has GRPO+ ahead; GRPO differs from it in loss averaging, KL term and clip, "
            "which it never separates.",
            "results",
            STEPS_TO_PLUS,
            steps_to_plus,
        ),
        Question(
            "Q8",
            "batch",
            "How far off-policy do updates get as the batch grows?",
            "§7.1 argues with on-policyness but does not measure it.",
            "batch_size",
            SIZES,
            off_policy,
        ),
        Question(
            "Q9",
            "context",
            "Does the conditional mask repair what a short limit costs?",
            "§2.3 and §7.2 treat mask and limit apart.",
            "context_length",
            ("short", "short_masked", "long"),
            repair,
        ),
    )
}
