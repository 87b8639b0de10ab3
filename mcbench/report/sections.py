"""What the pages of the experiments say: plain data, one entry an experiment.

A page is its claims, then its parts in this order, the paper's numbers, our questions, responses
and provenance (:mod:`mcbench.report.experiment`). A part names panels: shared ones
(:data:`mcbench.report.panels.PANELS`) and the experiment's own (:mod:`mcbench.report.own_panels`),
each with what the paper claims about it, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcbench.experiments.arms import TIMING
from mcbench.experiments.study import OWN
from mcbench.report.panels import PANELS

CURVES = (
    "Thin lines are seeds, the bold line is their mean, the band its 95 % t interval (from three "
    "seeds on); in per-step figures the bold line is a running mean, and the bar above sets its "
    "width."
)
WITH_PAPER = f"{CURVES} Dotted grey lines are the paper's, read by eye."


@dataclass(frozen=True)
class Part:
    """A section of a page with its panels; ``every_size`` repeats it for every size of model."""

    id: str
    title: str
    prose: str
    panels: Mapping[str, str]
    every_size: bool = False


def dynamics(panels: Mapping[str, str], prose: str = WITH_PAPER) -> Part:
    """The curves over training."""
    return Part("dynamics", "Training dynamics", prose, panels, every_size=True)


@dataclass(frozen=True)
class Prose:
    """What a page says.

    Attributes:
        figure: of the paper, such as ``Figure 2``; empty where it has none.
        measured: what is measured here, in a sentence or two.
        styles: how arms are drawn (:data:`mcbench.report.style.KNOWN`) where their own name says
            something else.
        summed: whether the headline is what the arms end at, not the states of claims.
    """

    title: str
    figure: str
    measured: str
    parts: Sequence[Part]
    styles: Mapping[str, str] = field(default_factory=dict)
    summed: bool = False


TABLE_ONE = Part(
    "table",
    "Table 1",
    "Δ is MicroCoder-GRPO minus the best other arm, cell by cell, as in the paper. The two tables "
    "have one shape so that they can be read side by side; their numbers are about different "
    "models and problems and are not comparable.",
    {"table-1": "", "table-1-paper": ""},
)

SECTIONS: dict[str, Prose] = {
    "cross_model": Prose(
        "Two model generations",
        "Figure 1",
        "GRPO+ on an older generation, which answers briefly, and on a newer one, which searches "
        "at length: same problems, same order, seed by seed.",
        [
            dynamics(
                {
                    "accuracy": "The paper shows large gains of Qwen 2.5 and small ones of Qwen 3 "
                    "on the same mainstream set.",
                    "reward": "The paper's older models keep or shorten their outputs, the newer "
                    "ones grow them; the set is hard for the older and easy for the newer.",
                    "lengths": "",
                    "diversity": "",
                }
            )
        ],
    ),
    "truncation_mask": Prose(
        "The truncation mask",
        "Figure 2",
        "GRPO+ without a mask, with all truncated responses masked (DeepCoder), and with the "
        "conditional mask at rho 0.1, 0.2 and 0.3.",
        [
            dynamics(
                {
                    "accuracy": "The paper claims that masked arms rise fast, fall back and "
                    "settle, and that the conditional mask ends highest (M1, M3, M4, M6).",
                    "reward": "The paper claims that more masking grows responses faster and "
                    "closer to the limit (M2).",
                    "diversity": "The paper claims that more masking lowers diversity faster, and "
                    "that masking all first lifts it, then collapses (M5).",
                    "mask": "",
                    "mask-rules": "",
                    "lengths": "",
                    "readings": "",
                    "repetition": "",
                }
            )
        ],
    ),
    "temperature": Prose(
        "Temperature",
        "Figure 3",
        "GRPO+ at constant temperatures, with one jump, with a ramp, and at a temperature chosen "
        "from measured diversity.",
        [
            dynamics(
                {
                    "accuracy": "The paper claims that T = 0.6 fails (T5), that T = 1.8 trains "
                    "stably (T6) and that low-then-high staging beats high from the start (T9).",
                    "diversity": "The paper claims that diversity falls at a fixed temperature "
                    "(T3), that arms which start too low keep falling (T4) and that the others "
                    "converge to similar values (T7).",
                    "reward": "",
                    "d-of-t": "The arm T(D) takes the lowest temperature whose diversity reaches "
                    "the value that training converges to (T8).",
                    "stages": "",
                    "policy": "",
                    "grid": "",
                }
            )
        ],
    ),
    "kl_and_clip": Prose(
        "KL term and clip",
        "Figure 4",
        "GRPO+ with and without a KL term, with a low and a high upper clip; the paper changes "
        "both at once.",
        [
            dynamics(
                {
                    "accuracy": "The paper claims that accuracy keeps rising without KL and with "
                    "the high clip, and rises then falls with KL and the low clip (K1, K2).",
                    "diversity": "The paper claims that KL without the high clip loses diversity, "
                    "and that this comes before the fall of accuracy (K2).",
                    "reward": "The paper's responses grow from 3.2K to 6K tokens without KL.",
                    "policy": "",
                    "kl": "",
                }
            )
        ],
    ),
    "data_quality": Prose(
        "Data quality",
        "Figure 5",
        "A noisy pool goes through the data pipeline and becomes a harder and an easier set of one "
        "size; GRPO+ trains on either.",
        [
            Part(
                "beside",
                "The paper's numbers beside ours",
                "The harder set's responses start longer than the easier one's before any "
                "training: the last part of D4 speaks of the sets, not of what training does.",
                {"beside": ""},
            ),
            Part(
                "pipeline",
                "The pipeline on a noisy pool",
                "Generated problems, some of them with one planted defect each, so that the truth "
                "is known: damaged and unfit statements, copies, problems of the held-out set, "
                "broken tests, wrong references and problems that a constant solves.",
                {"funnel": "", "dropped": "", "scores": "", "planted": ""},
            ),
            Part(
                "difficulty",
                "Difficulty: predicted, calibrated, selected",
                "The sets are of equal size and hold the same kinds in the same numbers, because "
                "kinds differ in difficulty. Problems that were never solved are in neither. What "
                "selected a problem flatters the contrast, so the table shows fresh responses too. "
                "All this was fixed before any run.",
                {"difficulty": "", "prediction": ""},
            ),
            Part(
                "training",
                "Training on either set",
                "GRPO+ with everything equal but the problems. Accuracy is measured on nano's "
                "held-out problems in both arms. Reward is measured on the arm's own problems, so "
                f"its height says how hard they are. {CURVES}",
                dict.fromkeys(("reward", "accuracy", "lengths", "diversity", "groups"), ""),
                every_size=True,
            ),
        ],
        {"harder": "Harder set", "easier": "Easier set"},
    ),
    "code_evaluator": Prose(
        "The code evaluator",
        "Figure 6",
        "A labelled suite of right and wrong answers under several sets of rules, training under "
        "two of them, and the time that judging takes.",
        [
            Part(
                "suite",
                "E1: judging a labelled suite",
                "A strict judge refuses right answers, a lenient one accepts wrong ones, and a "
                "model learns from both mistakes. The labels come from the rules of contests and "
                "of Python, never from running this code. The suite is a list of styles and traps: "
                "it shows where judges differ, not how often that happens in practice.",
                {"suite": "", "refused": "", "accepted": ""},
            ),
            Part(
                "training",
                "E2, E3, E4: training under either set of rules",
                "GRPO+ on nano problems whose right answers come in several valid formats, chosen "
                "so that LiveCodeBench's rules refuse a quarter of the reference programs, before "
                "anything was trained. So E2 holds partly by construction; the first generation, "
                "where both arms sample the same responses from the same model, shows that part "
                "alone. Held-out problems are plain ones, judged by MicroCoder's rules in both "
                f"arms. {CURVES}",
                {
                    "pairs": "",
                    "reward": "Passing is by the arm's own rules: the paper claims that the share "
                    "is higher under the multi-strategy evaluator.",
                    "accuracy": "Judged by MicroCoder's rules in both arms. The paper claims that "
                    "accuracy rises faster and ends higher when training was judged by them too.",
                    "gap": "",
                    "groups": "A problem whose right answers are all refused falls into the light "
                    "part and carries no gradient.",
                    "group-shares": "",
                },
                every_size=True,
            ),
            Part(
                "time",
                "E5: time of a training step",
                "Seconds of one generation and the updates that follow it. Single-threaded: one "
                "test after another, a fresh python3 each. LiveCodeBench method: a manager and a "
                "forked process per sample.",
                {"timing": ""},
            ),
        ],
        {"microcoder": "microcoder_rules", "livecodebench": "livecodebench_rules"},
    ),
    "results": Prose(
        "GRPO, GRPO+ and MicroCoder-GRPO",
        "Figure 7 and Table 1",
        "",
        [
            dynamics(
                {
                    **dict.fromkeys(PANELS, ""),
                    "accuracy": "The paper claims that MicroCoder-GRPO rises fastest and ends "
                    "highest at both lengths, and that GRPO+ peaks early and then falls back.",
                    "reward": "The paper claims that the conditional truncation mask lets "
                    "responses grow, because an answer that was cut while still searching is no "
                    "longer punished.",
                },
                CURVES,
            ),
            TABLE_ONE,
        ],
        summed=True,
    ),
    "batch_size": Prose(
        "Batch size and on-policy",
        "Figure 8",
        "GRPO+ with half, one and two times the profile's problems a generation at one mini "
        "batch: the larger the batch, the more updates use responses of an older policy.",
        [
            dynamics(
                {
                    "accuracy": "The paper claims that the intermediate batch performs best (B2).",
                    "reward": "The paper claims that length rises, then falls with the small batch "
                    "(B1).",
                    "diversity": "The paper claims that diversity converges sooner with the small "
                    "batch (B1).",
                    "policy": "",
                    "optimizer": "",
                    "clip-by-update": "",
                }
            )
        ],
    ),
    "context_length": Prose(
        "Context length and extension",
        "Figure 9",
        "GRPO+ at half, three quarters and all of the profile's limit, and extended from the "
        "shorter limits early and late.",
        [
            dynamics(
                {
                    "accuracy": "The paper claims that a longer limit ends higher (C1).",
                    "reward": "The paper claims that responses grow faster and longer under a "
                    "longer limit (C2), and that a short start leaves a deficit that outlasts the "
                    "extension (C4 to C6).",
                    "diversity": "The paper claims higher diversity with a longer limit (C3).",
                    "lengths": "",
                    "mask": "",
                    "stages": "",
                }
            )
        ],
    ),
    # A comparison of arms of one's own, or of any runs.
    OWN: Prose(
        "A comparison of runs",
        "",
        "",
        [dynamics(dict.fromkeys(PANELS, ""), CURVES), TABLE_ONE],
        summed=True,
    ),
    # The runs that were timed; their page is that of the code evaluator.
    TIMING: Prose("", "", "", [], {"microcoder": "microcoder_evaluator"}),
}
"""By experiment; the pages stand under the names of their notebooks."""
