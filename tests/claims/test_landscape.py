"""The claims of the landscape on curves made by formula: effect present, absent, reversed."""

import numpy as np
import pytest

from mcbench.claims import CLAIMS, claims_of
from mcbench.claims.assess import decide, measure
from mcbench.claims.curves import PassRates, RunCurves
from mcbench.experiments.experiments import ARMS, EXPERIMENTS
from mcbench.report.claims import SYSTEMS, landscape_section

STEPS = np.arange(0, 161, 32.0)
KINDS = ("fix", "write")
EVERY = {"fix": 20, "write": 20}
LOGGED = (
    *(f"eval/{name}" for name in ("selected", "single", "frames")),
    *(f"eval/{name}" for name in ("switch", "regret_25", "regret_drifted", "f05")),
    *(f"task/{name}" for name in ("runtime_error", "ast_match", "data_flow_match", "passed")),
    *("task/critic_auroc", "task/posing_reward", "task/posed_valid", "entropy/all_responses"),
)
# By claim: what arms end at above the base, by kind; and what evaluations tell.
EFFECTS = {
    "S1": {"similarity": {"fix": 20}, "tests": {"fix": 12}},
    "S2": {"curriculum": {"fix": 20}},
    "S3": {"duo": {"write": 20, "fix": 12}, "tests": {"fix": 8}},
    "S4": {"duo": {"eval/selected": 20}},
    "X1": {"traced": {"fix": 20, "write": 20}},
    "F1": {"rlef": {"fix": 20, "write": 20}},
    "F2": {arm: {"fix": 20, "write": 20} for arm in ("stale_1", "stale_2", "stale_3", "stale_4")},
    "F3": {"search": {"eval/f05": 70}},
    "F4": {"search": EVERY},
    "A1": {"on_policy": {"eval/switch": -5}},
    "A2": {"threshold_45": {"eval/switch": 15}},
    "A3": {"off_policy": {"eval/regret_25": 20}},
    "A5": {"normalised": {"eval/switch": 15, "eval/regret_25": 20}},
    "A4": {"on_policy": {"eval/regret_drifted": 20}},
    "X2": {"frames": {"fix": 20, "write": 20, "eval/frames": 20}},
    "V1": {"coderl": EVERY},
    "V2": {"rltf": EVERY, "tests": {"task/runtime_error": 20}},
    "V3": {"ppocoder": {"fix": 12, "write": 12}},
    "V4": {
        "ppocoder": {"task/ast_match": 20, "task/data_flow_match": 20},
        "tests": {"task/passed": 20},
    },
    "V5": {"stepcoder": EVERY},
    "W1": {"deepcoder_whole": EVERY},
    "W2": {"polaris": EVERY},
    "W3": {"srpo": EVERY},
    "W4": {"dapo_whole": EVERY},
    "W5": {"microcoder": EVERY},
}
AGAIN = {
    "S5": "S2", "S6": "S3", "X3": "X1", "X4": "X2", "V6": "V1", "V7": "V2", "V8": "V3", "V9": "V4",
    "F5": "F1", "W6": "W1", "W7": "W2", "W8": "W3", "W9": "W4", "W10": "W5",
}  # fmt: skip
EFFECTS |= {new: EFFECTS[old] for new, old in AGAIN.items()}
EFFECTS |= {
    "F6": {"stale_mixed": EVERY},
    "S7": {"self_play": {"fix": 20}},
    "S8": {"self_play": {"task/posing_reward": 20, "task/posed_valid": 20}},
    "F7": {"sdpo": EVERY},
    "W11": {"dynamic": EVERY},
    "W12": {"clip_cov": {**EVERY, "entropy/all_responses": 20}},
}


def curves(rises, *seed):
    rng = np.random.default_rng(seed)
    done = STEPS / STEPS[-1]
    problems = tuple(f"p{i:03d}" for i in range(120))
    kinds = tuple(KINDS[i % 2] for i in range(120))
    chance = np.stack([30 + rises.get(kind, 0) * done for kind in kinds], axis=1) / 100
    values = 25.0 * rng.binomial(4, chance.clip(0, 1))
    rates = PassRates(STEPS, problems, values, ("easy",) * 120, kinds)
    logged = {
        name: (STEPS, (30 + rises.get(name, 0) * done) / 100 + rng.normal(0, 0.005, len(STEPS)))
        for name in LOGGED
    }
    return RunCurves(logged, {(64, 1.0): rates})


@pytest.mark.parametrize("effect", [1, 0, -1])
@pytest.mark.parametrize("name", EFFECTS)
def test_a_planted_effect_is_found_absent_or_reversed(name, effect):
    claim = CLAIMS[name]
    arms = {
        arm: {
            seed: curves(
                {kind: effect * rise for kind, rise in EFFECTS[name].get(arm, {}).items()},
                seed,
                place,
                ord(name[0]),  # one series' absences do not share their chance with another's
            )
            for seed in range(30, 39)
        }
        for place, arm in enumerate(claim.arms)
    }
    measured = measure(claim, arms, ())
    family = len(claims_of(claim.experiment))
    found = decide(measured, min(1.0, family * measured.p), family)
    wanted = {1: {"supported"}, 0: {"no effect", "inconclusive", "mixed"}, -1: {"contradicted"}}
    if name in ("S1", "S3", "S6", "A1", "A2") and effect == -1:
        wanted[-1].add("mixed")
    if name in (
        "V3",
        "V8",
        "F2",
        "F6",
    ):  # as high as the other, less the margin: which equal arms are
        wanted[0].add("supported")
    if name == "F3":  # the base is below what one search finds
        wanted[0] = {"mixed", "contradicted"}
    assert found.state in wanted[effect], found.note


def test_every_claim_has_a_system_and_every_arm_exists():
    named = [name for system in SYSTEMS for name in system.claims]
    assert set(named) == EFFECTS.keys()
    assert sorted(named) == sorted(n for n, one in CLAIMS.items() if one.whose == "landscape")
    for name in named:
        claim = CLAIMS[name]
        assert set(claim.arms) <= set(ARMS[claim.experiment])
        assert len(EXPERIMENTS[claim.experiment].seeds) >= claim.seeds
    (table,) = landscape_section({}).blocks
    assert list(table.frame["State"]) == ["not run"] * len(named)
