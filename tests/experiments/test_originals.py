"""Every arm that is registered since round 1 trains, and what it logs shows it."""

import pytest

from mcbench.experiments.experiments import EXPERIMENTS, REGISTERED, planned_runs
from mcbench.runs.store import read_run
from mcbench.runs.train import train

SMALL = {
    "train_batch_size": 8, "ppo_mini_batch_size": 4, "num_generations": 4, "steps": 4,
    "per_device_batch_size": 16, "eval_every": 4, "eval_attempts": 1, "test_limit": 2,
    "temperature_probe_prompts": 4, "small_eval_every": None, "eval_other_temperatures": (),
}  # fmt: skip
CHANGED = {"imitate_from": 2, "temperature_restore": [2], "readmit": [2, 2]}
# What shows that a function acts, by arm.
SHOWN = {
    "coderl": ("task/critic_auroc", "task/imitated"), "rltf": ("task/blamed", "task/imitated"),
    "imitated": ("task/imitated",), "ppocoder": ("task/kl_a_response", "task/ast_match"),
    "curriculum": ("task/imitated",), "duo": ("task/imitated",), "sdpo": ("task/told",),
    "polaris": ("task/flat", "task/distinct_4_words", "task/prompts_dropped"),
    "dapo_whole": ("dynamic/groups_sampled",), "dynamic": ("dynamic/groups_sampled",),
    "clip_cov": ("covariance/chosen",), "stale_mixed": ("clip_ratio/region_mean",),
    "frames": ("task/frames",), "self_play": ("task/posing_reward",),
    "unrewarded": ("task/posing_reward",), "fixed": ("task/posed_valid",),
    "mutants": ("task/posed_valid",),
}  # fmt: skip
NAMES = {arm: name for name in REGISTERED for arm in EXPERIMENTS[name].arms if arm in SHOWN}


def test_every_arm_that_is_not_a_control_is_shown():
    assert NAMES.keys() == SHOWN.keys()


@pytest.mark.slow
@pytest.mark.parametrize("arm", SHOWN)
def test_an_arm_of_the_originals_trains(arm, tmp_path):
    own = EXPERIMENTS[NAMES[arm]].arms[arm]
    arms = {arm: {**own, **{k: v for k, v in CHANGED.items() if k in own}}}
    if arm in ("dapo_whole", "dynamic"):
        arms[arm]["dynamic_sampling"] = 60  # so few responses seldom differ
    if "self_play" in own:
        arms[arm] |= {"train_batch_size": 10, "ppo_mini_batch_size": 5, "per_device_batch_size": 20}
    settings = {k: v for k, v in SMALL.items() if k not in arms[arm]}
    planned = planned_runs(NAMES[arm], None, [0], None, arms, settings, cells=({},))[0]
    found = read_run(train(planned.config, tmp_path, lambda line: None).path)
    for name in SHOWN[arm]:
        assert any(line.get(name) is not None for line in found.step_lines), name
