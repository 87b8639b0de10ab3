"""Beyond the paper: a question a section that it leaves open (Q1-Q9), how much of what (Q10-Q13,
Q15), what a correction for the sampler removes (Q14), and DAPO's own weight (Q16).
"""

from __future__ import annotations

from functools import partial

from mcbench.claims import in_code
from mcbench.claims.claim import Claim
from mcbench.claims.contrast import Contrast, ends
from mcbench.claims.curves import LEVELS
from mcbench.claims.curves import LONG_WEIGHT as LONGEST
from mcbench.claims.curves import SHORT_WEIGHT as SHORTER

_question = partial(Claim, whose="ours")
_dose = partial(_question, experiment="doses")

VARIED = (
    *("t_06", "t_10", "t_12", "t_18", "truncation_mask/all"),
    *("truncation_mask/rho_01", "truncation_mask/rho_02", "truncation_mask/rho_03"),
    *("kl_and_clip/kl_low_clip", "kl_and_clip/kl_high_clip", "kl_and_clip/no_kl_low_clip"),
)

QUESTIONS: tuple[Claim, ...] = (
    _question(
        "Q1",
        "Does the newer model generation grow its responses more, and on which difficulty "
        "does either gain?",
        ("older", "newer"),
        "Newer minus older model, each over its own start: growth of response length by the "
        "slope, and the gain in pass@1 (last minus first window) on easy, medium and hard "
        "problems.",
        [
            Contrast(
                "length", "growth of responses, newer minus older", "growth(newer) - growth(older)"
            ),
            *(
                Contrast(
                    f"pass@1 on {level} problems",
                    f"gain on {level} problems, newer minus older",
                    "gain(newer) - gain(older)",
                )
                for level in LEVELS
            ),
        ],
        source="Fig. 1 shows mean accuracy and length without intervals, and no difficulties.",
        experiment="cross_model",
    ),
    _question(
        "Q2",
        "Which reading of the mask's condition makes responses grow?",
        ("none", "rho_02", "when_correct", "when_non_incorrect"),
        "Growth of response length by the slope: each reading minus no mask, and "
        "``incorrect`` minus each of the other two; rho 0.2 in all three.",
        [
            Contrast("length", f"growth, {told}", f"growth({ours}) - growth({other})")
            for told, ours, other in (
                ("incorrect minus no mask", "rho_02", "none"),
                ("correct minus no mask", "when_correct", "none"),
                ("non-incorrect minus no mask", "when_non_incorrect", "none"),
                ("incorrect minus correct", "rho_02", "when_correct"),
                ("incorrect minus non-incorrect", "rho_02", "when_non_incorrect"),
            )
        ],
        source="§2.2 masks incorrect truncated answers, §2.3 says correct ones, a later "
        "equation non-incorrect ones; the paper compares only proportions.",
        experiment="truncation_mask",
        section="mask",
    ),
    _question(
        "Q3",
        "Which measure of diversity warns of a falling accuracy, and how early?",
        VARIED,
        "Spearman's correlation over eleven arms, one value a seed: of the relative loss of a "
        "measure of diversity so far, after a quarter, half and three quarters of the "
        "training, with how far pass@1 ends below its peak.",
        code=in_code.early_warning,
        source="§2.5 says that lost diversity precedes failure, but neither defines diversity "
        "nor compares measures.",
        experiment="temperature",
    ),
    _question(
        "Q4",
        "What do the KL term and the high clip do one at a time?",
        ("kl_low_clip", "kl_high_clip", "no_kl_low_clip", "no_kl_high_clip"),
        "Last-window pass@1, Distinct-4 and length in a 2x2 design: effect of removing the KL "
        "term (mean over both clips), of the high clip (mean over both KL settings), and "
        "their interaction (how much more the high clip does without KL).",
        [
            Contrast(measure, f"{measure.partition(' at ')[0]}, {told}", formula)
            for measure in ("pass@1 at the training length", "Distinct-4", "length")
            for told, formula in (
                (
                    "no KL minus KL",
                    "end(no_kl_low_clip, no_kl_high_clip) - end(kl_low_clip, kl_high_clip)",
                ),
                (
                    "high minus low clip",
                    "end(kl_high_clip, no_kl_high_clip) - end(kl_low_clip, no_kl_low_clip)",
                ),
                (
                    "interaction",
                    "end(no_kl_high_clip) - end(no_kl_low_clip) "
                    "- end(kl_high_clip) + end(kl_low_clip)",
                ),
            )
        ],
        source="§2.5 changes both at once.",
        experiment="kl_and_clip",
        section="kl",
    ),
    _question(
        "Q5",
        "On which difficulty does training on the harder set pay?",
        ("harder", "easier"),
        "Last-window pass@1 on easy, medium and hard held-out problems, trained on the harder "
        "minus on the easier set.",
        [
            Contrast(
                f"pass@1 on {level} problems",
                f"pass@1 on {level} problems, harder minus easier set",
                "end(harder) - end(easier)",
            )
            for level in LEVELS
        ],
        source="§3 shows the gain on all test problems together.",
        experiment="data_quality",
        section="data",
    ),
    _question(
        "Q6",
        "How many prompts lose their gradient to misjudged answers?",
        ("microcoder", "livecodebench"),
        "Share of prompts whose responses fare differently (only those carry a gradient), and "
        "of those with no passing response, mean over the run, our rules minus "
        "LiveCodeBench's.",
        [
            Contrast(
                "group/mixed", "prompts with a gradient", "area(microcoder) - area(livecodebench)"
            ),
            Contrast(
                "group/all_fail",
                "prompts without a passing response",
                "area(microcoder) - area(livecodebench)",
            ),
        ],
        source="§4 shows mean rewards, not what misjudgement does to the groups.",
        experiment="code_evaluator",
        section="evaluator",
    ),
    _question(
        "Q7",
        "Why is GRPO averaged per response ahead of GRPO+ at twice the training length here?",
        ("grpo_per_response", "grpo", "grpo_plus"),
        "Last-window pass@1 at the longest evaluated length, and response length in training: "
        "GRPO averaged per response minus GRPO+, divided into what the averaging of the loss "
        "does (over each response minus over all tokens) and what KL term and low clip do "
        "(both over all tokens).",
        [
            Contrast(measure, f"{what}, {told}", f"end({ours}) - end({other})")
            for measure, what in (
                ("pass@1 at the longest length", "pass@1 at the longest length"),
                ("length", "response length"),
            )
            for told, ours, other in (
                ("GRPO per response minus GRPO+", "grpo_per_response", "grpo_plus"),
                ("loss averaged per response minus over tokens", "grpo_per_response", "grpo"),
                ("KL and low clip minus neither, over tokens", "grpo", "grpo_plus"),
            )
        ],
        source="The paper's GRPO differs from GRPO+ in KL term and clip (section 5); that it "
        "is averaged as GRPO+ is, is our reading of Eq. 1. Round 1 compared GRPO as "
        "first published, averaged per response.",
        experiment="results",
    ),
    _question(
        "Q8",
        "How far off-policy do updates get as the batch grows?",
        ("small", "medium", "large"),
        "How far updates get from the policy that sampled: share of tokens clipped, mean over "
        "all updates and over the last update of each generation, and last-window entropy, "
        "from each batch size to the next.",
        code=in_code.off_policy,
        source="§7.1 argues with on-policyness but does not measure it.",
        experiment="batch_size",
        section="batch",
    ),
    _question(
        "Q9",
        "Does the conditional mask repair what a short limit costs?",
        ("short", "short_masked", "long"),
        "Last-window pass@1 (at the training length of the long arm), length and Distinct-4: "
        "what the conditional mask adds at half the limit, and what is then still lacking "
        "against the full limit.",
        [
            Contrast(measure, f"{measure.partition(' at ')[0]}, {told}", formula)
            for measure in ("pass@1 at the training length", "length", "Distinct-4")
            for told, formula in (
                ("mask minus no mask at half the limit", "end(short_masked) - end(short)"),
                ("full limit minus masked half", "end(long) - end(short_masked)"),
            )
        ],
        source="§2.3 and §7.2 treat mask and limit apart.",
        experiment="context_length",
        section="context",
    ),
    _dose(
        "Q10",
        "Does masking more pay, up to every wrong cut answer?",
        ("none", "rho_03", "rho_10"),
        "Last-window pass@1 at both lengths, response length and unique programs: rho 1 minus "
        "no mask, and minus rho 0.3.",
        [
            *ends("rho 1 minus no mask", "rho_10", "none"),
            *ends("rho 1 minus rho 0.3", "rho_10", "rho_03"),
        ],
        source="The paper stops at rho 0.3, which touches 3 to 10 % of the answers here.",
    ),
    _dose(
        "Q11",
        "What of masking all is the mask, and what the normaliser?",
        ("none", "rho_10", "cut_kept", "all"),
        "Last-window pass@1 at both lengths, response length and unique programs: every cut "
        "answer without its advantage, tokens kept, minus no mask (the mask); tokens dropped "
        "minus kept (the normaliser); every cut answer minus those that Eq. 2 names (its "
        "conditions).",
        [
            *ends("the mask", "cut_kept", "none"),
            *ends("the normaliser", "all", "cut_kept"),
            *ends("the conditions", "cut_kept", "rho_10"),
        ],
        source="Masking all also takes the cut answers' tokens out of the loss's denominator; "
        "the conditional mask keeps them, so that the paper compares two changes at "
        "once.",
    ),
    _dose(
        "Q12",
        "From which coefficient on does a KL term cost or keep anything?",
        ("none", "kl_0001", "kl_004", "kl_03"),
        "Last-window pass@1 at both lengths, response length and unique programs, at the high "
        "clip: each coefficient minus none.",
        [
            *ends("KL 0.001 minus none", "kl_0001", "none"),
            *ends("KL 0.04 minus none", "kl_004", "none"),
            *ends("KL 0.3 minus none", "kl_03", "none"),
        ],
        source="§2.5 has one coefficient, and does not say which.",
    ),
    _dose(
        "Q13",
        "Does the upper clip do anything?",
        ("none", "no_upper_clip"),
        "Last-window pass@1 at both lengths, response length and unique programs: without an "
        "upper clip minus with the high one.",
        ends("no upper clip minus high", "no_upper_clip", "none"),
        source="§2.5 raises it; nobody takes it away.",
    ),
    _question(
        "Q14",
        "Does sequence-level masking of the importance ratio remove long responses?",
        ("uncorrected", "token_truncate", "sequence_mask"),
        "Percent of its weight in the loss that a response keeps, mean over the run: of the "
        "longest (above three quarters of the limit) and of shorter ones (a quarter to half), "
        "masking by sequence minus truncation by token; and longest minus shorter in each. "
        "Last-window response length of each, and of truncation by token minus no correction.",
        [
            Contrast(
                LONGEST,
                "weight, longest responses, sequence minus token",
                "area(sequence_mask) - area(token_truncate)",
            ),
            Contrast(
                SHORTER,
                "weight, shorter responses, sequence minus token",
                "area(sequence_mask) - area(token_truncate)",
            ),
            Contrast(
                LONGEST,
                "weight, longest minus shorter, by sequence",
                f'area(sequence_mask) - area(sequence_mask, of="{SHORTER}")',
            ),
            Contrast(
                LONGEST,
                "weight, longest minus shorter, by token",
                f'area(token_truncate) - area(token_truncate, of="{SHORTER}")',
            ),
            Contrast(
                "length", "length, sequence minus token", "end(sequence_mask) - end(token_truncate)"
            ),
            Contrast(
                "length", "length, token minus none", "end(token_truncate) - end(uncorrected)"
            ),
        ],
        source="The paper does not say how it corrects for a sampler whose log-probabilities "
        "are not the policy's; TRL masks whole responses by the product of their "
        "tokens' ratios.",
        experiment="correction",
    ),
    _dose(
        "Q15",
        "Does it matter that loops are not spared?",
        ("rho_10", "rho_10_loops"),
        "Last-window pass@1 at both lengths, response length and unique programs: loops of "
        "any period not spared, minus the paper's rule, both at rho 1.",
        ends("any loop minus the paper's rule", "rho_10_loops", "rho_10"),
        source="Eq. 2 holds what repeats to its loss, but compares two windows, which finds a "
        "loop only if its period divides the window: on nano none, where a rule for any "
        "period finds them.",
    ),
    _question(
        "Q16",
        "Does punishing length softly end higher at DAPO's own weight?",
        ("none", "soft_overlong", "soft_overlong_half"),
        "Last-window pass@1 at both lengths, response length and unique programs: half the "
        "punishment minus none, and minus the whole.",
        [
            *ends("half the punishment minus none", "soft_overlong_half", "none"),
            *ends("half minus whole", "soft_overlong_half", "soft_overlong"),
        ],
        source="ours, written after a look at R4's runs: DAPO's punishment of up to 1 stands "
        "beside rewards of 1 and -1, R4's beside 1 and 0, where it weighs twice as "
        "much.",
        experiment="rivals",
    ),
)
