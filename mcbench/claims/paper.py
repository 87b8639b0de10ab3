"""The paper's 34 claims, by section: evaluator, temperature, data, context, mask, batch, KL."""

from __future__ import annotations

from functools import partial

from mcbench.claims import in_code
from mcbench.claims.claim import Claim
from mcbench.claims.contrast import Contrast, higher

_evaluator = partial(Claim, section="evaluator", experiment="code_evaluator", source="§4, Fig. 6")
_temperature = partial(Claim, experiment="temperature", source="§2.4, Fig. 3")
_data = partial(Claim, section="data", experiment="data_quality", source="§3, Fig. 5")
_context = partial(Claim, section="context", experiment="context_length", source="§7.2, Fig. 9")
_mask = partial(Claim, section="mask", experiment="truncation_mask", source="§2.3, Fig. 2", seeds=5)
_batch = partial(Claim, section="batch", experiment="batch_size", source="§7.1, Fig. 8")
_kl = partial(Claim, section="kl", experiment="kl_and_clip", source="§2.5, Fig. 4")

RULES = ("microcoder", "livecodebench")
CONSTANT = ("t_06", "t_10", "t_12", "t_18")
BY_T = "t_06=0.6, t_10=1.0, t_12=1.2, t_18=1.8"
SETS = ("harder", "easier")
LIMITS = ("short", "middle", "long")
STEPS = (("short", "middle"), ("middle", "long"))
MASKED = "rho_01, rho_02, rho_03, all"
IN_ORDER = "rho_01=1, rho_02=2, rho_03=3, all=4"  # from little to complete masking
BY_RHO = "none=0.0, rho_01=0.1, rho_02=0.2, rho_03=0.3"


def _both(name: str, formula: str) -> list[Contrast]:
    """A statement on length and the same on diversity; ``name`` has a place for which."""
    return [Contrast(one, name.format(one), formula) for one in ("length", "diversity")]


PAPER: tuple[Claim, ...] = (
    _evaluator(
        "E1",
        "On solutions known to be right, the multi-strategy evaluator measures higher "
        "accuracy than the LiveCodeBench rules, without accepting wrong ones in return (here "
        "on the suite that it was debugged on).",
        (),
        "Accepted share of right solutions, ours minus theirs; and, so that accepting "
        "everything is no gain, the same for accepted right minus accepted wrong solutions. "
        "Paired by solution: judging one is no matter of chance, which ones there are is, so "
        "solutions stand where seeds do.",
        code=in_code.labelled_set,
        seeds=0,
    ),
    _evaluator(
        "E2",
        "Training reward is higher under the multi-strategy evaluator.",
        RULES,
        "Mean reward over the run, ours minus theirs, paired by seed.",
        [Contrast("reward", "reward", "area(microcoder) - area(livecodebench)")],
    ),
    _evaluator(
        "E3",
        "Under the multi-strategy evaluator test accuracy rises faster and ends higher.",
        RULES,
        'Area under the pass@1 curve ("faster") and last-window pass@1 ("higher"), ours minus '
        "theirs, paired by seed and problem.",
        [
            Contrast("pass@1", "mean pass@1", "area(microcoder) - area(livecodebench)"),
            Contrast("pass@1", "pass@1 at the end", "end(microcoder) - end(livecodebench)"),
        ],
    ),
    _evaluator(
        "E4",
        "The accuracy gap between the two evaluators is largest early in training.",
        RULES,
        "The gap in pass@1, ours minus theirs: in the first third of training, and how much "
        "larger it is there than in the last third.",
        [
            Contrast(
                "pass@1",
                "gap in the first third",
                "first_third(microcoder) - first_third(livecodebench)",
            ),
            Contrast(
                "pass@1",
                "gap in the first third minus the last",
                "first_third(microcoder) - first_third(livecodebench) "
                "+ last_third(livecodebench) - last_third(microcoder)",
            ),
        ],
    ),
    _temperature(
        "T1",
        "The highest temperature at which accuracy holds grows during training.",
        (),
        "The highest temperature at which a checkpoint keeps 90 % of its best accuracy over "
        "the grid: growth over the checkpoints by the slope, one value a seed.",
        code=in_code.stable_bound,
    ),
    _temperature(
        "T2",
        "Higher temperature gives higher output diversity.",
        (),
        "Slope of Distinct-4 over temperature, above 0 on every checkpoint.",
        code=in_code.diversity_slope,
    ),
    _temperature(
        "T3",
        "At a fixed temperature diversity falls as training goes on.",
        CONSTANT,
        "Fall of diversity over the run by the slope, in every constant arm.",
        [Contrast("diversity", f"fall at {arm}", f"-growth({arm})") for arm in CONSTANT],
    ),
    _temperature(
        "T4",
        "When initial diversity is below the value it converges to elsewhere, it keeps "
        "falling and training fails.",
        CONSTANT,
        "Arms whose first-window Distinct-4 is below D*, the mean last-window value of the "
        "other constant arms (both means over seeds): on average over these arms diversity "
        "falls further, and pass@1 falls from its peak, whose place is found on the other "
        "seeds.",
        code=in_code.low_start_fails,
    ),
    _temperature(
        "T5",
        "The conventional T = 0.6 fails.",
        ("t_06",),
        "Fall of pass@1 at T = 0.6 from its peak, whose place is found on the other seeds.",
        [Contrast("pass@1", "pass@1 fall at T = 0.6", "fall(t_06)")],
    ),
    _temperature(
        "T6",
        "T = 1.8 trains stably with little effect on the final value.",
        ("t_12", "t_18"),
        "At T = 1.8 pass@1 falls less than 5 points from its peak (place found on the other "
        "seeds), and its last window is within 5 points of that at T = 1.2, both ways.",
        [
            Contrast(
                "pass@1", "fall from the peak stays under 5 by", "-fall(t_18)", 5.0, threshold=True
            ),
            Contrast(
                "pass@1",
                "T = 1.8 above T = 1.2 less 5, at the end",
                "end(t_18) - end(t_12)",
                5.0,
                threshold=True,
            ),
            Contrast(
                "pass@1",
                "T = 1.8 under T = 1.2 plus 5, at the end",
                "end(t_12) - end(t_18)",
                5.0,
                threshold=True,
            ),
        ],
    ),
    _temperature(
        "T7",
        "Diversity converges to similar values at different temperatures.",
        CONSTANT,
        "Spread of Distinct-4 over the constant arms as the rise from T = 0.6 to 1.8 by the "
        "straight line: the first window's is larger than the last window's, and than the "
        "last window's reversed.",
        [
            Contrast("Distinct-4", "first spread minus last", f"start({BY_T}) - end({BY_T})"),
            Contrast(
                "Distinct-4",
                "first spread plus last",
                f"start({BY_T}) + end({BY_T})",
                threshold=True,
            ),
        ],
    ),
    _temperature(
        "T8",
        "Choosing T from measured diversity avoids both failures.",
        ("t_06", "t_18", "t_of_d"),
        "The arm with T(D) against the two ends of the grid: last-window pass@1 above that at "
        "T = 0.6 (the failure of too low a temperature), Distinct-4 fluctuating less from one "
        "generation to the next than at T = 1.8 (that of too high a one).",
        [
            Contrast("pass@1", "pass@1 at the end, T(D) minus T = 0.6", "end(t_of_d) - end(t_06)"),
            Contrast(
                "Distinct-4",
                "fluctuation of diversity, T = 1.8 minus T(D)",
                "fluctuation(t_18) - fluctuation(t_of_d)",
            ),
        ],
    ),
    _temperature(
        "T9",
        "Low-then-high staging beats high from the start.",
        ("t_12", "t_18", "step_06_12", "step_06_18"),
        "Last-window pass@1: mean of the arms that jump from 0.6 to 1.2 and to 1.8 minus mean "
        "of the arms at 1.2 and at 1.8 from the start.",
        [
            Contrast(
                "pass@1",
                "pass@1 at the end, staged minus constant",
                "end(step_06_12, step_06_18) - end(t_12, t_18)",
            ),
        ],
    ),
    _temperature(
        "T10",
        "Continuous, uniform temperature change destabilises diversity; staged steps do not.",
        ("t_18", "step_06_18", "ramp_06_18"),
        "Lasting change of diversity: how far last-window Distinct-4 is from that of T = 1.8 "
        "all along, after the linear ramp to 1.8 minus after the jump to 1.8; one distance a "
        "seed.",
        code=in_code.ramps_destabilise,
    ),
    _data(
        "D1",
        "The harder set drives clear accuracy gains, the easier set almost none.",
        SETS,
        "Last-window pass@1 minus the untrained model's: above 0 on the harder set, and more "
        "than twice the easier set's (\"almost none\" there; the paper's ratio is about three).",
        [
            Contrast("pass@1", "gain on the harder set", "end(harder) - start(harder)"),
            Contrast(
                "pass@1",
                "gain on the harder set minus twice the easier's",
                "end(harder) - start(harder) - 2 * end(easier) + 2 * start(easier)",
                threshold=True,
            ),
        ],
    ),
    _data(
        "D2",
        "The harder set yields lower training reward.",
        SETS,
        "Mean reward over the run, easier minus harder set.",
        [Contrast("reward", "reward, easier minus harder set", "area(easier) - area(harder)")],
    ),
    _data(
        "D3",
        "Reward grows alike on both sets, test accuracy only on the harder one.",
        SETS,
        'Growth by the slope over the run. "Alike": the reward on either set grows more than '
        'half as much as on the other. "Only": pass@1 grows on the harder set, by more than '
        "twice the easier's.",
        [
            Contrast(
                "reward",
                "reward growth, harder minus half the easier's",
                "growth(harder) - 0.5 * growth(easier)",
                threshold=True,
            ),
            Contrast(
                "reward",
                "reward growth, easier minus half the harder's",
                "growth(easier) - 0.5 * growth(harder)",
                threshold=True,
            ),
            Contrast("pass@1", "pass@1 growth on the harder set", "growth(harder)"),
            Contrast(
                "pass@1",
                "pass@1 growth, harder minus twice the easier's",
                "growth(harder) - 2 * growth(easier)",
                threshold=True,
            ),
        ],
    ),
    _data(
        "D4",
        "Harder problems make responses grow faster and end longer, though they start similar "
        "or shorter.",
        SETS,
        "Growth by the slope and last-window length, harder minus easier set, above 0; at the "
        'start the harder set\'s responses are at most a fifth longer ("similar or shorter").',
        [
            Contrast("length", "length growth", "growth(harder) - growth(easier)"),
            Contrast("length", "length at the end", "end(harder) - end(easier)"),
            Contrast(
                "length",
                "room below 1.2 times the easier set's first length",
                "1.2 * start(easier) - start(harder)",
                threshold=True,
            ),
        ],
    ),
    _context(
        "C1",
        "A longer maximum output gives higher final accuracy.",
        LIMITS,
        "Last-window pass@1: rise from the shortest to the middle arm, and from there to the "
        "longest. The three points of a straight line would give the middle arm no weight.",
        [
            Contrast("pass@1", f"pass@1 at the end, {a} to {b}", f"end({b}) - end({a})")
            for a, b in STEPS
        ],
    ),
    _context(
        "C2",
        "A longer maximum output gives faster growth and greater final length of responses.",
        LIMITS,
        "Growth by the slope, and last-window length: rise from each arm to the next longer one.",
        [
            Contrast("length", f"{name}, {a} to {b}", f"{statistic}({b}) - {statistic}({a})")
            for name, statistic in (("length growth", "growth"), ("length at the end", "end"))
            for a, b in STEPS
        ],
    ),
    _context(
        "C3",
        "A longer maximum output goes with higher diversity.",
        LIMITS,
        "Last-window diversity: rise from each arm to the next longer one.",
        [
            Contrast("diversity", f"diversity at the end, {a} to {b}", f"end({b}) - end({a})")
            for a, b in STEPS
        ],
    ),
    _context(
        "C4",
        "A small initial maximum lowers length and diversity, and the deficit outlasts the "
        "extension.",
        ("long", "short_early", "short_late"),
        "Last-window length and diversity: the arm that was always long minus the mean of the "
        "two that began short and were extended.",
        _both("{} lacking at the end", "end(long) - end(short_early, short_late)"),
    ),
    _context(
        "C5",
        "The smaller the initial maximum, the larger the deficit after the extension.",
        ("short_early", "short_late", "middle_early", "middle_late"),
        "Last-window length and diversity: mean of the two arms extended from middle minus "
        "mean of the two extended from short, so the larger deficit of the latter.",
        _both(
            "{} lacking, from short minus from middle",
            "end(middle_early, middle_late) - end(short_early, short_late)",
        ),
    ),
    _context(
        "C6",
        "The longer a model was trained short, the less it recovers after the extension.",
        ("long", "short_early", "short_late", "middle_early", "middle_late"),
        "Length and diversity lacking against the arm that was always long, equally long "
        "after the extension: late minus early extension, averaged over the two initial "
        "limits.",
        _both(
            "{} lacking, late minus early extension",
            "after_late(long) - after_late(short_late, middle_late) "
            "- after_early(long) + after_early(short_early, middle_early)",
        ),
    ),
    _mask(
        "M1",
        "With masking, accuracy rises fast, falls back, then settles.",
        ("rho_01", "rho_02", "rho_03", "all"),
        "Mean over the four masked arms, with the peak's place found on the other seeds: "
        "pass@1 rises to it, has fallen by the last window, and within that window loses less "
        "than half as much again.",
        [
            Contrast("pass@1", "rise to the peak", f"rise({MASKED})"),
            Contrast("pass@1", "fall from the peak", f"fall({MASKED})"),
            Contrast(
                "pass@1",
                "half the fall minus what the last window still loses",
                f"0.5 * fall({MASKED}) - late_fall({MASKED})",
                threshold=True,
            ),
        ],
    ),
    _mask(
        "M2",
        "Higher rho grows length faster and closer to the limit; 30 % grows about as fast as "
        "masking all.",
        ("none", "rho_01", "rho_02", "rho_03", "all"),
        "Length growth by the slope, and last-window length: rise from rho 0 to 0.3. And "
        '"about as fast as masking all": the growth at rho 0.3 lies within half of the way '
        "from none to all of that of all.",
        [
            Contrast("length", "length growth, rho 0 to 0.3", f"growth({BY_RHO})"),
            Contrast("length", "length at the end, rho 0 to 0.3", f"end({BY_RHO})"),
            Contrast(
                "length",
                "growth at rho 0.3 above the middle of none and all",
                "growth(rho_03) - 0.5 * growth(none) - 0.5 * growth(all)",
                threshold=True,
            ),
            Contrast(
                "length",
                "growth at rho 0.3 below all by as much above",
                "1.5 * growth(all) - 0.5 * growth(none) - growth(rho_03)",
                threshold=True,
            ),
        ],
    ),
    _mask(
        "M3",
        "More masking reaches the first peak sooner.",
        ("rho_01", "rho_02", "rho_03", "all"),
        "Step of the first maximum of pass@1 that stands out by half of the curve's range: "
        "how much earlier from rho 0.1 to masking all, by the straight line over the four "
        "masked arms in order.",
        [Contrast("pass@1", "first peak sooner", f"-first_peak_step({IN_ORDER})")],
    ),
    _mask(
        "M4",
        "Less masking reaches a higher peak later.",
        ("rho_01", "rho_02", "rho_03", "all"),
        "Height and step of the highest smoothed pass@1, from masking all down to rho 0.1, by "
        "the straight line over the four masked arms in order.",
        [
            Contrast("pass@1", "higher peak", f"-peak({IN_ORDER})"),
            Contrast("pass@1", "later peak", f"-peak_step({IN_ORDER})"),
        ],
    ),
    _mask(
        "M5",
        "More masking lowers diversity faster and to a lower level; masking all first lifts "
        "it, then collapses.",
        ("none", "rho_01", "rho_02", "rho_03", "all"),
        "Diversity: fall by the slope and low last window from rho 0 to 0.3; under masking "
        "all a rise above the start and then a fall, with the peak's place found on the other "
        "seeds.",
        [
            Contrast("diversity", "faster fall, rho 0 to 0.3", f"-growth({BY_RHO})"),
            Contrast("diversity", "lower end, rho 0 to 0.3", f"-end({BY_RHO})"),
            Contrast("diversity", "masking all: rise to the peak", "rise(all)"),
            Contrast("diversity", "masking all: fall from the peak", "fall(all)"),
        ],
    ),
    _mask(
        "M6",
        "Conditional masking is more stable than none and than all: higher last-window "
        "accuracy, smaller drop from the peak.",
        ("none", "rho_01", "rho_02", "rho_03", "all"),
        "Mean of the three conditional arms against none and against all: last-window pass@1 "
        "higher, and the drop from each run's own smoothed peak smaller.",
        [
            one
            for arm in ("none", "all")
            for one in (
                Contrast(
                    "pass@1",
                    f"pass@1 at the end, conditional minus {arm}",
                    f"-end({arm}) + end(rho_01, rho_02, rho_03)",
                ),
                Contrast(
                    "pass@1",
                    f"drop from the peak, {arm} minus conditional",
                    f"drop({arm}) - drop(rho_01, rho_02, rho_03)",
                ),
            )
        ],
    ),
    _batch(
        "B1",
        "More on-policy (a small batch) is less stable: diversity converges sooner, length "
        "rises then falls.",
        ("small", "medium", "large"),
        '"Converges sooner": the change point of Distinct-4 comes earlier in the small arm '
        'than on average in the other two. "Rises then falls": the small arm\'s length rises '
        "to its peak and falls from it, the peak's place found on the other seeds.",
        [
            Contrast(
                "Distinct-4",
                "diversity settles sooner",
                "change_point(medium, large) - change_point(small)",
            ),
            Contrast("length", "length rises", "rise(small)"),
            Contrast("length", "length falls", "fall(small)"),
        ],
    ),
    _batch(
        "B2",
        "The intermediate batch size performs best.",
        ("small", "medium", "large"),
        "Last-window pass@1: medium minus small, and medium minus large.",
        higher("medium", "small", "large"),
    ),
    _kl(
        "K1",
        "No KL with high clip keeps diversity and length up and accuracy rising; KL without "
        "high clip lowers diversity and gains little before declining.",
        ("kl_low_clip", "no_kl_high_clip"),
        "No KL with high clip: last-window diversity and length above the other arm's, pass@1 "
        "grows. KL with low clip: diversity falls from first to last window, and pass@1 falls "
        "from its peak, whose place is found on the other seeds.",
        [
            Contrast(
                "diversity",
                "diversity at the end, no KL minus KL",
                "end(no_kl_high_clip) - end(kl_low_clip)",
            ),
            Contrast(
                "length",
                "length at the end, no KL minus KL",
                "end(no_kl_high_clip) - end(kl_low_clip)",
            ),
            Contrast("pass@1", "pass@1 growth, no KL", "growth(no_kl_high_clip)"),
            Contrast("diversity", "diversity lost, KL", "start(kl_low_clip) - end(kl_low_clip)"),
            Contrast("pass@1", "pass@1 fall, KL", "fall(kl_low_clip)"),
        ],
    ),
    _kl(
        "K2",
        "Continued loss of diversity precedes the fall of accuracy, which first rises, then falls.",
        ("kl_low_clip",),
        "KL with low clip: pass@1 rises to its peak and falls from it, the peak's place found "
        'on the other seeds; Distinct-4 has fallen by that place ("precedes") and falls on '
        '("continued").',
        [
            Contrast("pass@1", "pass@1 rise", "rise(kl_low_clip)"),
            Contrast("pass@1", "pass@1 fall", "fall(kl_low_clip)"),
        ],
        code=in_code.loss_before_fall,
    ),
)
