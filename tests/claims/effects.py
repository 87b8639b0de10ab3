"""Runs of every claim's arms: its effect present (1), absent (0) or reversed (-1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from fake_runs import make_config, make_curves, make_record

from mcbench.claims import CLAIMS
from mcbench.claims.curves import (
    ALL_ENTROPY,
    CLIPPED,
    CUT,
    DIVERSITY,
    ENTROPY,
    GROUPS,
    HEAD_DIVERSITY,
    LENGTH,
    LONG_WEIGHT,
    REWARD,
    SHORT_WEIGHT,
    UNIQUE,
    WRONG_LENGTH,
    RunCurves,
)
from mcbench.runs.config import Config
from mcbench.runs.store import RunRecord

COLUMNS = {
    "reward": [REWARD],
    "length": [LENGTH],
    "diversity": [DIVERSITY, HEAD_DIVERSITY, UNIQUE],
    "entropy": [ENTROPY, ALL_ENTROPY],
    "clipped": [CLIPPED],
    "mixed": [GROUPS[0]],
    "long weight": [LONG_WEIGHT],
    "weight": [SHORT_WEIGHT],
    "cut": [CUT],
    "wrong": [WRONG_LENGTH],
}
ARM_SETTINGS: dict[str, dict[str, Any]] = {
    "small": {"train_batch_size": 8},
    "large": {"train_batch_size": 32},
    "older": {"profile": "nano-old"},
}
"""What arms differ in that shows in the number of their generations, or in their models."""

OWN_SEEDS = range(30, 60)
"""None of them the protocol's, which ask for all twelve."""
T = np.ndarray
Curves = dict[str, T | float]


def arch(t: T) -> T:
    """Rises to 1 at 0.4, falls to 0.3 at 0.7, then stays."""
    return np.interp(t, [0, 0.4, 0.7, 1], [0, 1, 0.3, 0.3])


def arch_or_rise(t: T, e: int, height: float) -> T:
    """The reverse of an arch: flat, then a rise that lasts to the end."""
    return 45 + height * {1: arch(t), 0: 0 * t, -1: np.maximum(0, (t - 0.6) / 0.4)}[e]


def bell(t: T, place: float, height: float) -> T:
    return 45 + height * np.exp(-(((t - place) / 0.12) ** 2))


def masking(arm: str) -> int:
    """Rank among the masked arms, -1.5 (little) to 1.5 (all)."""
    return ("rho_01", "rho_02", "rho_03", "all").index(arm) - 1.5


def rho(arm: str) -> float:
    return {"none": 0.0, "rho_01": 0.1, "rho_02": 0.2, "rho_03": 0.3, "all": 0.33}[arm] / 0.3


def share(arm: str) -> float:
    """-1 (short) to 1 (long)."""
    return {"short": -1, "middle": 0, "long": 1}[arm.partition("_")[0]]


def swing(t: T) -> T:
    return np.where(np.round(t * 20) % 2, 0.06, -0.06)


def t4(arm: str, t: T, e: int) -> Curves:
    if arm != "t_06":
        return {}
    return {"diversity": 0.35 - 0.1 * e * t, "accuracy": arch_or_rise(t, e, 18)}


def t6(arm: str, t: T, e: int) -> Curves:
    below = {1: 0, 0: 5, -1: 16}[e] if arm == "t_18" else 0
    return {"accuracy": 45 + 10 * t - below * (t > 0)}


def t7(arm: str, t: T, e: int) -> Curves:
    temperature = int(arm[2:]) / 10
    return {"diversity": 0.5 + 0.25 * (temperature - 1.15) * (1 - 0.8 * e * t)}


def t8(arm: str, t: T, e: int) -> Curves:
    restless = {1: "t_18", 0: "", -1: "t_of_d"}[e]
    worse = 10 * e * (arm == "t_06")
    return {"accuracy": 45 - worse * t, "diversity": 0.5 + (arm == restless) * swing(t)}


def t10(arm: str, t: T, e: int) -> Curves:
    moved = {1: "ramp_06_18", 0: "", -1: "step_06_18"}[e]
    return {"diversity": 0.5 - 0.2 * (arm == moved) * (t > 0.5)}


def d4(arm: str, t: T, e: int) -> Curves:
    return {"length": 50 + 20 * e * t * (arm == "harder")}


def c6(arm: str, t: T, e: int) -> Curves:
    lacking = e * arm.endswith("late") * (t > 0.55)
    return {"length": 50 - 12 * lacking, "diversity": 0.5 - 0.1 * lacking}


def m3(arm: str, t: T, e: int) -> Curves:
    return {"accuracy": bell(t, 0.45 - 0.17 * e * masking(arm), 25)}


def m4(arm: str, t: T, e: int) -> Curves:
    less = -e * masking(arm)
    return {"accuracy": bell(t, 0.45 + 0.15 * less, 18 + 5 * less)}


def m5(arm: str, t: T, e: int) -> Curves:
    if arm != "all":
        return {"diversity": 0.5 - 0.2 * e * rho(arm) * t}
    lifted = np.interp(t, [0, 0.4, 0.8, 1], [0, 0.2, -0.2, -0.2])
    return {"diversity": 0.5 + {1: lifted, 0: 0 * t, -1: 0.2 * t}[e]}


def m6(arm: str, t: T, e: int) -> Curves:
    falls = {1: ("none", "all"), 0: (), -1: ("rho_01", "rho_02", "rho_03")}[e]
    return {"accuracy": 45 + 20 * (arch(t) if arm in falls else np.minimum(1, t / 0.4))}


def b1(arm: str, t: T, e: int) -> Curves:
    bend = 0.45 - 0.25 * e * (1 if arm == "small" else -1)
    length = {1: 25 * arch(t), 0: 0 * t, -1: 25 * t}[e]
    return {"diversity": 0.6 - 0.2 * np.minimum(1, t / bend), "length": 50 + length}


def k1(arm: str, t: T, e: int) -> Curves:
    if arm == "no_kl_high_clip":
        return {"accuracy": 45 + 15 * e * t, "length": 50 + 15 * e * t, "diversity": 0.5}
    return {"accuracy": arch_or_rise(t, e, 18), "diversity": 0.5 - 0.15 * e * t}


def k2(arm: str, t: T, e: int) -> Curves:
    return {"accuracy": arch_or_rise(t, e, 18), "diversity": 0.6 - 0.2 * e * t}


def ours(arm: str, *names: str) -> int:
    return int(arm in names)


EFFECTS: dict[str, Callable[[str, T, int], Curves]] = {
    "E2": lambda arm, t, e: {"reward": 0.45 + 0.12 * e * ours(arm, "microcoder")},
    "E3": lambda arm, t, e: {"accuracy": 45 + 12 * e * ours(arm, "microcoder") * (t > 0)},
    "E4": lambda arm, t, e: {"accuracy": 45 + 18 * e * ours(arm, "microcoder") * (1 - t) * (t > 0)},
    "T3": lambda arm, t, e: {"diversity": 0.6 - 0.2 * e * t},
    "T4": t4,
    "T5": lambda arm, t, e: {"accuracy": arch_or_rise(t, e, 20)},
    "T6": t6,
    "T7": t7,
    "T8": t8,
    "T9": lambda arm, t, e: {"accuracy": 45 + 12 * e * arm.startswith("step") * (t > 0.5)},
    "T10": t10,
    "D1": lambda arm, t, e: {"accuracy": 45 + 18 * e * ours(arm, "harder") * t},
    "D2": lambda arm, t, e: {"reward": 0.45 + 0.12 * e * ours(arm, "easier")},
    "D3": lambda arm, t, e: {
        "reward": 0.40 + 0.18 * t,
        "accuracy": 45 + 18 * e * ours(arm, "harder") * t,
    },
    "D4": d4,
    "C1": lambda arm, t, e: {"accuracy": 45 + 8 * e * share(arm) * t},
    "C2": lambda arm, t, e: {"length": 50 + 12 * e * share(arm) * t},
    "C3": lambda arm, t, e: {"diversity": 0.5 + 0.1 * e * share(arm) * t},
    "C4": lambda arm, t, e: {
        "length": 50 + 12 * e * ours(arm, "long"),
        "diversity": 0.5 + 0.1 * e * ours(arm, "long"),
    },
    "C5": lambda arm, t, e: {
        "length": 50 + 12 * e * arm.startswith("middle"),
        "diversity": 0.5 + 0.1 * e * arm.startswith("middle"),
    },
    "C6": c6,
    "M1": lambda arm, t, e: {"accuracy": arch_or_rise(t, e, 20)},
    "M2": lambda arm, t, e: {"length": 50 + 30 * e * rho(arm) * t},
    "M3": m3,
    "M4": m4,
    "M5": m5,
    "M6": m6,
    "B1": b1,
    "B2": lambda arm, t, e: {"accuracy": 45 + 12 * e * ours(arm, "medium") * (t > 0)},
    "K1": k1,
    "K2": k2,
}


def no_rule(arm: str, t: T, e: int) -> Curves:
    """Reversed, both rules gain: what gains as much as the margin does not decide."""
    gained = {1: -6.0, 0: 2.0, -1: 15.0}[e] if arm != "none" else 0.0
    return {"accuracy": 45 + gained * (t > 0)}


def better(*arms: str) -> Callable[[str, T, int], Curves]:
    return lambda arm, t, e: {"accuracy": 45 + 12 * e * ours(arm, *arms) * (t > 0)}


def explores(better_arm: str) -> Callable[[str, T, int], Curves]:
    return lambda arm, t, e: {
        "accuracy": 45 + 12 * e * ours(arm, better_arm) * (t > 0),
        "entropy": 0.4 + 0.1 * e * ours(arm, better_arm),
    }


def done_right(arm: str, t: T, e: int) -> Curves:
    other = ours(arm, "dr_grpo")
    return {"wrong": 50 - 10 * e * other, "accuracy": 45 + (12 * e - 2 * (e == 0)) * other + 0 * t}


EFFECTS |= {
    "R1": no_rule,
    "R2": lambda arm, t, e: {
        "cut": 0.2 + 0.1 * e * ours(arm, "before"),
        "reward": 0.45 - 0.12 * e * ours(arm, "before"),
    },
    "R3": better("entropy_03"),
    "R4": better("soft_overlong"),
    "R5": better("dynamic"),
    "R6": done_right,
    "R7": better("gspo"),
    "R8": better("cispo"),
    "R9": explores("clip_cov"),
    "R10": explores("kl_cov"),
    "R11": lambda arm, t, e: {
        "accuracy": 45 + (15 * e - 2 * (e == 0)) * ours(arm, "pass_at_k") * (t > 0)
    },
}


def q3(arm: str, t: T, e: int) -> Curves:
    """The more an arm's entropy is lost (absent: in no order), the further its accuracy falls."""
    rank = CLAIMS["Q3"].arms.index(arm) / 10
    lost = rank if e > 0 else 1 - rank if e < 0 else 0.5
    return {"entropy": 0.4 - 0.2 * lost * t, "accuracy": 45 + 20 * np.minimum(1, t / 0.5)
            - 20 * rank * np.maximum(0, t - 0.5)}  # fmt: skip


EFFECTS |= {
    "Q1": lambda arm, t, e: {"length": 50 + 15 * e * t * ours(arm, "newer")},
    "Q2": lambda arm, t, e: {"length": 50 + 15 * e * t * ours(arm, "rho_02")},
    "Q3": q3,
    "Q4": lambda arm, t, e: {"diversity": 0.5 + 0.1 * e * t * arm.startswith("no_kl")},
    "Q5": lambda arm, t, e: {"accuracy": 45 + 20 * e * t * ours(arm, "harder")},
    "Q6": lambda arm, t, e: {"mixed": 0.5 + 0.1 * e * ours(arm, "microcoder")},
    "Q7": lambda arm, t, e: {"longer": 15 * e * t * ours(arm, "grpo_per_response")},
    "Q17": lambda arm, t, e: {"accuracy": 45 + 15 * e * t * ours(arm, "microcoder")},
    "Q18": lambda arm, t, e: {"accuracy": 45 + 20 * e * t},
    "Q19": lambda arm, t, e: {"accuracy": 45 + 15 * e * t * ours(arm, "token_rho_10")},
    "Q20": lambda arm, t, e: {
        "cut": 0.2 + 0.1 * e * t * ours(arm, "token_rho_10"),
        "diversity": 0.5 + 0 * t,
    },
    "Q8": lambda arm, t, e: {
        "clipped": 0.01 * (1 + 0.4 * e * (("small", "medium", "large").index(arm) - 1)) + 0 * t
    },
    "Q10": lambda arm, t, e: {"accuracy": 45 + 15 * e * t * ours(arm, "rho_10")},
    "Q11": lambda arm, t, e: {"accuracy": 45 + 15 * e * t * ours(arm, "all")},
    "Q12": lambda arm, t, e: {"length": 50 + 15 * e * t * ours(arm, "kl_03")},
    "Q15": lambda arm, t, e: {"diversity": 0.5 + 0.1 * e * t * ours(arm, "rho_10_loops")},
    "Q13": lambda arm, t, e: {"diversity": 0.5 + 0.1 * e * t * ours(arm, "no_upper_clip")},
    "Q14": lambda arm, t, e: {
        "length": 50 + e * ours(arm, "uncorrected"),
        "long weight": 0.5 + 0.4 * e * ours(arm, "sequence_mask"),
        "weight": 0.5,
    },
    "Q16": lambda arm, t, e: {"length": 50 + 15 * e * t * ours(arm, "soft_overlong_half")},
    "Q9": lambda arm, t, e: {"accuracy": 45 + 15 * e * t * ours(arm, "short_masked")},
}


@lru_cache
def config_of(arm: str, seed: int) -> Config:
    """Of a run of an arm."""
    return make_config(seed=seed, **ARM_SETTINGS.get(arm, {}))


def arm_curves(name: str, arm: str, effect: int, seed: int, draw: int = 0) -> RunCurves:
    """The curves of a run with or without a claim's effect; ``draw`` numbers repetitions."""

    def curve(key: str) -> Callable[[T], T | float]:
        return lambda t: EFFECTS[name](arm, t, effect)[key]

    made = EFFECTS[name](arm, np.zeros(1), effect)
    rng = np.random.default_rng([draw, seed, sum(map(ord, name + arm)), effect + 1])
    return make_curves(
        config_of(arm, seed),
        rng,
        {
            column: curve(key)
            for key, columns in COLUMNS.items()
            if key in made
            for column in columns
        },
        **{key: curve(key) for key in ("accuracy", "longer") if key in made},
    )


def make_runs(name: str, effect: int, seeds: int = 5) -> dict[str, dict[int, RunRecord]]:
    """The runs of a claim's arms, by arm and seed."""
    return {
        arm: {
            seed: make_record(arm_curves(name, arm, effect, seed), config_of(arm, seed))
            for seed in OWN_SEEDS[:seeds]
        }
        for arm in CLAIMS[name].arms
    }


def make_measurements(effect: int, seeds: int = 5) -> list[dict[str, Any]]:
    """The temperature grid (T1, T2) and the judged solutions (E1)."""
    rng = np.random.default_rng(effect + 1)
    rows: list[dict[str, Any]] = []
    for seed in OWN_SEEDS[:seeds]:
        for step in (0, 80, 160):
            holds = 1.2 + 0.4 * effect * (step - 80) / 80 + rng.normal(0, 0.04)
            for temperature in (0.4, 0.8, 1.2, 1.6, 2.0):
                accuracy = 0.45 - 0.5 * max(0.0, temperature - holds)
                rows.append(
                    {
                        "kind": "temperature_grid",
                        "experiment": "temperature",
                        "run_id": f"run-{seed}",
                        "seed": seed,
                        "step": step,
                        "temperature": temperature,
                        "distinct_4": 0.5 + 0.1 * effect * temperature + rng.normal(0, 0.01),
                        "accuracy": accuracy + rng.normal(0, 0.01),
                    }
                )
    better, worse = {1: (0.95, 0.75), 0: (0.85, 0.85), -1: (0.75, 0.95)}[effect]
    for case in range(300):
        right = case % 2 == 0
        for rules, share_right in (("microcoder", better), ("livecodebench", worse)):
            chance = share_right if right else 0.03
            rows.append(
                {
                    "kind": "labelled_solution",
                    "experiment": "code_evaluator",
                    "rules": rules,
                    "case": f"case-{case}",
                    "group": "any",
                    "right": right,
                    "accepted": bool(rng.random() < chance),
                }
            )
    return rows
