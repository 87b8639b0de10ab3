"""What other systems claim of their tasks and rewards, on tasks of :mod:`mcbench.tasks`.

Repair (S), traces (X), denser rewards (V), feedback (F), users (A) and whole recipes (W). They are
decided by the rules of all claims, on fresh seeds of their own; none is part of the protocol. A
part compares a system with the control that could beat it.
"""

from __future__ import annotations

from functools import partial

from mcbench.claims.claim import Claim
from mcbench.claims.contrast import Contrast, higher, no_lower
from mcbench.claims.margins import POINTS, REGRET

_landscape = partial(Claim, section="landscape", whose="landscape")
_repair = partial(_landscape, experiment="repair")
_traces = partial(_landscape, experiment="execution_traces")
_dense = partial(_landscape, experiment="dense_rewards")
_turns = partial(_landscape, experiment="multi_turn")
_search = partial(_landscape, experiment="retrieval")
_users = partial(_landscape, experiment="online_feedback")
_recipes = partial(_landscape, experiment="recipes")

TRAINING = "pass@1 at the training length"
GREP = "SWE-grep (Cognition 2025): reward and turns of its sub-agent"
NAMED_F05, DEFINITION_F05 = 0.4962, 0.8709
"""What all lines that hold the name asked for are worth, and the lines of its definition alone,
mean over ``search:test``."""
TAB = "Improving Cursor Tab with online RL (Cursor 2025)"


def _regret(name: str, column: str, ours: str, other: str) -> list[Contrast]:
    """Last-window regret, 100 times the reward a context: ours minus the other's. Beside it, what
    the margin of pass@1 makes of it, which these claims were first judged by.
    """
    by_points = f"{name}, by the margin of pass@1"
    return [
        Contrast(column, name, f"end({ours}) - end({other})", unit=REGRET),
        Contrast(column, by_points, f"end({ours}) - end({other})", unit=POINTS, beside=True),
    ]


LANDSCAPE: tuple[Claim, ...] = (
    _repair(
        "S1",
        "A reward of similarity, which runs nothing, repairs more bugs than the base, and no "
        "fewer than a reward of tests.",
        ("tests", "similarity"),
        "Share of held-out bugs whose patch passes the tests, by similarity: last window "
        "minus the base, and minus that of the reward of tests, plus the margin.",
        [
            Contrast(
                "bugs fixed",
                "bugs fixed, similarity at the end minus the base",
                "end(similarity) - base(similarity)",
            ),
            *no_lower("similarity", "tests", measure="bugs fixed"),
        ],
        source="SWE-RL (Wei et al. 2025), section 2.2; the reward of tests is our control",
    ),
    _repair(
        "S2",
        "Leaving out first what the base never solved, and letting it join later, fixes more bugs.",
        ("tests", "curriculum"),
        "Share of held-out bugs fixed, last window: with the curriculum minus without.",
        higher("curriculum", "tests", measure="bugs fixed"),
        source="Kimi-Dev (Yang et al. 2025), the curriculum of its reinforcement learning",
    ),
    _repair(
        "S3",
        "One model learns both roles: its tests show more bugs, and it fixes no fewer.",
        ("tests", "duo"),
        "At equal numbers of prompts, last window: share of written tests that show the bug, "
        "both roles minus the fixer alone; and share of bugs fixed, the same plus the margin.",
        [
            *higher("duo", "tests", measure="bugs shown by a test"),
            *no_lower("duo", "tests", measure="bugs fixed"),
        ],
        source="Kimi-Dev (Yang et al. 2025), BugFixer and TestWriter",
    ),
    _repair(
        "S4",
        "The patch that the model's own tests choose fixes more bugs than a single one.",
        ("duo",),
        "Share of held-out bugs fixed by the patch of four that the four written tests "
        "choose, minus by a patch at random, last window, of the arm with both roles.",
        [
            Contrast(
                "eval/selected",
                "bugs fixed at the end, chosen patch minus a random one",
                'end(duo) - end(duo, of="eval/single")',
            ),
        ],
        source="Kimi-Dev (Yang et al. 2025), self-play at test time",
    ),
    _traces(
        "X1",
        "A model trained on traces as well ends higher after reinforcement on programs, and "
        "gains more by it, at equal tokens.",
        ("traced", "untraced"),
        "Last-window pass@1 on programs, base trained on traces and programs minus base "
        "trained for as many tokens on programs alone; and the difference of what "
        "reinforcement gained.",
        [
            *higher("traced", "untraced", measure=TRAINING, what="pass@1"),
            Contrast(
                TRAINING,
                "gain of reinforcement, traced minus untraced",
                "end(traced) - base(traced) - end(untraced) + base(untraced)",
            ),
        ],
        source="CWM (Copet et al. 2025), mid-training on execution traces",
    ),
    _traces(
        "X2",
        "Reinforcement with 1 or -1 predicts more held-out traces exactly, frame by frame.",
        ("frames",),
        "Share of held-out traces of which every frame is right: last window minus the base; "
        "and the share of frames that are right place by place, the same.",
        [
            Contrast(
                TRAINING,
                "traces exactly right, frames at the end minus the base",
                "end(frames) - base(frames)",
            ),
            Contrast(
                "eval/frames",
                "frames right, at the end minus the base",
                "end(frames) - base(frames)",
            ),
        ],
        source="CWM (Copet et al. 2025), trace prediction, and the reward of its reinforcement",
    ),
    _dense(
        "V1",
        "Credit by a critic, against the greedy answer, ends higher than 1 or 0, and than the "
        "same outcomes without a critic.",
        ("tests", "outcomes", "coderl"),
        "Last-window pass@1: CodeRL minus the tests' 1 or 0, and minus the four outcomes. "
        "Beside them, how far the critic's AUROC is above a half on responses that it has not "
        "learned from.",
        [
            *higher("coderl", "tests", "outcomes"),
            Contrast(
                "task/critic_auroc",
                "AUROC of the critic minus 50 %",
                "end(coderl)",
                -50.0,
                beside=True,
            ),
        ],
        source="CodeRL (Le et al. 2022): its critic, and returns against the greedy answer",
    ),
    _dense(
        "V2",
        "Blame on the line that broke ends higher than 1 or 0, with fewer runtime errors.",
        ("tests", "rltf"),
        "Last-window pass@1, RLTF minus the tests' 1 or 0; and share of responses with a "
        "runtime error in training, 1 or 0 minus RLTF.",
        [
            *higher("rltf", "tests"),
            Contrast(
                "task/runtime_error",
                "runtime errors at the end, tests minus rltf",
                "end(tests) - end(rltf)",
            ),
        ],
        source="RLTF (Liu et al. 2023): fine-grained feedback",
    ),
    _dense(
        "V3",
        "Likeness to the reference, which runs nothing, ends as high as 1 or 0.",
        ("tests", "ppocoder"),
        "Last-window pass@1: PPOCoder minus the tests' 1 or 0, plus the margin.",
        no_lower("ppocoder", "tests"),
        source="PPOCoder (Shojaee et al. 2023): matches of syntax trees and of data flow",
    ),
    _dense(
        "V4",
        "A reward of likeness is pleased without the task being done: likeness rises, and the "
        "pass rate less than where tests reward.",
        ("tests", "ppocoder"),
        "Of PPOCoder in training, last window minus the first generation: likeness of syntax "
        "and of data flow; and the gain in passing responses where tests reward minus "
        "PPOCoder's.",
        [
            Contrast("task/ast_match", "ast match, gain", "end(ppocoder) - start(ppocoder)"),
            Contrast(
                "task/data_flow_match", "data flow match, gain", "end(ppocoder) - start(ppocoder)"
            ),
            Contrast(
                "task/passed",
                "gain in passing, tests minus ppocoder",
                "end(tests) - start(tests) - end(ppocoder) + start(ppocoder)",
            ),
        ],
        source="the gauge of hacking, ours",
    ),
    _dense(
        "V5",
        "Prefixes that shrink, and no gradient where no test came, end higher than the same "
        "outcomes without them.",
        ("outcomes", "stepcoder"),
        "Last-window pass@1: StepCoder minus the four outcomes, at equal numbers of updates.",
        higher("stepcoder", "outcomes"),
        source="StepCoder (Dou et al. 2024): curriculum of completion (CCCS), and FGO",
    ),
    _turns(
        "F1",
        "Three attempts that are told what failed solve more than three independent ones, and "
        "than three that are told of another problem's failure.",
        ("independent", "shuffled", "rlef"),
        "Last-window share of solved problems: feedback minus independent attempts, of which "
        "the first counts that passes the public tests; and minus shuffled feedback.",
        higher("rlef", "independent", "shuffled", measure=TRAINING, what="solved"),
        source="RLEF (Gehring et al. 2025): feedback in turns, and its control by random feedback",
    ),
    _turns(
        "F2",
        "Sampling from weights that are up to four generations old costs no accuracy.",
        ("rlef", "stale_1", "stale_2", "stale_3", "stale_4"),
        "Last-window share of solved problems: each staleness minus none, plus the margin.",
        [
            one
            for stale in ("stale_1", "stale_2", "stale_3", "stale_4")
            for one in no_lower(stale, "rlef", measure=TRAINING, what="solved")
        ],
        source="SkyRL-Agent (Cao et al. 2025): asynchronous rollouts, staleness at most 4",
    ),
    _search(
        "F3",
        "Rewarded with F0.5 a sub-agent finds more than it did, than one search for the name, "
        "and than the definition alone.",
        ("search",),
        "Last-window F0.5 of held-out answers, mean of files and lines, in percent: minus the "
        "base, minus that of every line that holds the name, and minus that of the "
        "definition's lines.",
        [
            Contrast("eval/f05", "F0.5, at the end minus the base", "end(search) - base(search)"),
            Contrast(
                "eval/f05",
                "F0.5 at the end minus one search",
                "end(search)",
                -100 * NAMED_F05,
                threshold=True,
            ),
            Contrast(
                "eval/f05",
                "F0.5 at the end minus the definition",
                "end(search)",
                -100 * DEFINITION_F05,
                threshold=True,
            ),
        ],
        source=GREP,
    ),
    _search(
        "F4",
        "F0.5 of what is found helps the solver more than a reward of the solver's success.",
        ("search", "search_solved"),
        "Last-window share of held-out queries that the solver solves with what it was shown.",
        higher("search", "search_solved", measure=TRAINING, what="solved"),
        source=f"{GREP}; the control is ours: it is rewarded with the very measure",
    ),
    _users(
        "A1",
        "With .75 and -.25 the policy learns to suggest from an acceptance of .25 on.",
        ("on_policy",),
        "Last-window acceptance at which half of the suggestions are shown, in percent: above "
        "20 and below 30, the shares of contexts beside 25.",
        [
            Contrast(
                "eval/switch",
                "switch at the end, minus 20 %",
                "end(on_policy)",
                -20.0,
                threshold=True,
            ),
            Contrast(
                "eval/switch",
                "30 % minus the switch at the end",
                "-end(on_policy)",
                30.0,
                threshold=True,
            ),
        ],
        source=TAB,
    ),
    _users(
        "A2",
        "With 1 - p and -p for another threshold p the policy suggests from there on.",
        ("threshold_45",),
        "The same for p = .45: above 40 and below 50.",
        [
            Contrast(
                "eval/switch",
                "switch at the end, minus 40 %",
                "end(threshold_45)",
                -40.0,
                threshold=True,
            ),
            Contrast(
                "eval/switch",
                "50 % minus the switch at the end",
                "-end(threshold_45)",
                50.0,
                threshold=True,
            ),
        ],
        source=f"{TAB}; p = .45 is ours",
    ),
    _users(
        "A3",
        "Data of the policy itself leave less regret than data that another policy collected.",
        ("on_policy", "off_policy"),
        "Last-window regret to the best policy, 100 times the reward a context: off-policy "
        "minus on-policy.",
        _regret(
            "regret at the end, off-policy minus on-policy",
            "eval/regret_25",
            "off_policy",
            "on_policy",
        ),
        source=TAB,
    ),
    _users(
        "A4",
        "On-policy training follows users who change: it ends with less regret to the new "
        "ones than a policy that met only the old ones.",
        ("on_policy", "drift"),
        "Last-window regret to users who accept half as often, 100 times the reward a "
        "context: trained on the old users minus trained on both.",
        _regret(
            "regret to the changed users at the end, without them minus with them",
            "eval/regret_drifted",
            "on_policy",
            "drift",
        ),
        source=f"{TAB}; that users change half-way is ours",
    ),
    _users(
        "A5",
        "Rewards divided by their deviation in a group, as GRPO's are, move the switch "
        "upwards from .25, and leave more regret.",
        ("on_policy", "normalised"),
        "Last-window switch, in percent, and regret, 100 times the reward a context: with the "
        "division minus without.",
        [
            Contrast(
                "eval/switch",
                "switch at the end, normalised minus on_policy",
                "end(normalised) - end(on_policy)",
            ),
            *_regret(
                "regret at the end, normalised minus on_policy",
                "eval/regret_25",
                "normalised",
                "on_policy",
            ),
        ],
        source="ours, written after a look at the first run (normalised, seed 30, which "
        "counts): where few responses of a group suggest, the division makes an "
        "acceptance and a rejection equally large",
    ),
    _recipes(
        "W1",
        "DeepCoder whole (cut answers masked, problems filtered beforehand, the limit doubled "
        "on the way) ends higher than its high clip alone.",
        ("none", "deepcoder_whole"),
        "Last-window pass@1 at both lengths: deepcoder_whole minus none.",
        higher("deepcoder_whole", "none"),
        source="DeepCoder (Luo et al. 2025), GRPO+ and iterative context lengthening",
    ),
    _recipes(
        "W2",
        "Polaris whole (temperature by measured diversity, solved prompts dropped, flat "
        "groups replaced) ends higher than its high clip alone.",
        ("none", "polaris"),
        "Last-window pass@1 at both lengths: polaris minus none.",
        higher("polaris", "none"),
        source="Polaris (An et al. 2025), its recipe and repository",
    ),
    _recipes(
        "W3",
        "SRPO whole (long searches first, then everything; solved prompts dropped between "
        "epochs) ends higher than everything at once.",
        ("none", "srpo"),
        "Last-window pass@1 at both lengths: srpo minus none.",
        higher("srpo", "none"),
        source="SRPO (Zhang et al. 2025), sections 3.2 and 3.3",
    ),
    _recipes(
        "W4",
        "DAPO whole (dynamic sampling, soft overlong punishment) ends higher than its high "
        "clip alone.",
        ("none", "dapo_whole"),
        "Last-window pass@1 at both lengths: dapo_whole minus none.",
        higher("dapo_whole", "none"),
        source="DAPO (Yu et al. 2025), Eq. 8 to 13, Table 1",
    ),
    _recipes(
        "W5",
        "MicroCoder-GRPO ends higher than every one of these recipes.",
        ("microcoder", "deepcoder_whole", "polaris", "srpo", "dapo_whole"),
        "Last-window pass@1 at both lengths: microcoder minus each whole recipe.",
        [
            one
            for other in ("deepcoder_whole", "polaris", "srpo", "dapo_whole")
            for one in higher("microcoder", other, measure="pass@1 at both lengths", what="pass@1")
        ],
        source="MicroCoder-GRPO against others, as in its Fig. 7",
    ),
)
