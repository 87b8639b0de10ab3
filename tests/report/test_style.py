"""Arms stay apart under the common colour-vision deficiencies, by simulation."""

from itertools import combinations

import numpy as np
import pytest

from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import Study
from mcbench.report import style
from mcbench.report.sources import arms_of
from mcbench.report.style import ArmStyle, arm_styles

from .synthetic import make_record

# Machado, Oliveira and Fernandes 2009, severity 1.0: matrices on linear RGB.
MACHADO = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
APART = 12.0  # CIE 1976 colour difference; about 2 is just noticeable
GROUNDS = {"white": "#ffffff", "light page": "#fbfaf7", "dark page": "#14171b"}


def linear(color: str) -> np.ndarray:
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def seen(color: str, deficiency: str) -> np.ndarray:
    return lab(MACHADO[deficiency] @ linear(color))


@pytest.mark.parametrize("deficiency", MACHADO)
def test_arms_differ_in_colour_or_else_in_dash(deficiency: str) -> None:
    for one, other in combinations(arm_styles(["grpo", "grpo_plus", "microcoder"]).values(), 2):
        distance = np.linalg.norm(seen(one.color, deficiency) - seen(other.color, deficiency))
        assert distance > APART, (one.label, other.label)
        assert one.dash != other.dash


@pytest.mark.parametrize("deficiency", MACHADO)
def test_any_two_arms_of_a_page_differ_in_colour_or_dash(deficiency: str) -> None:
    for one, other in combinations(arm_styles(f"arm {i}" for i in range(7)).values(), 2):
        distance = np.linalg.norm(seen(one.color, deficiency) - seen(other.color, deficiency))
        assert distance > APART or one.dash != other.dash, (one, other)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_no_two_arms_of_an_experiment_look_alike(experiment: str) -> None:
    styles = arm_styles(EXPERIMENTS[experiment].arms)
    for one, other in combinations(styles.values(), 2):
        distances = [
            np.linalg.norm(seen(one.color, name) - seen(other.color, name)) for name in MACHADO
        ]
        assert min(distances) > APART or one.dash != other.dash, (one, other)


def contrast(color: str, ground: str) -> float:
    """WCAG 2: relative luminances."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    high, low = sorted((weights @ linear(color), weights @ linear(ground)), reverse=True)
    return float((high + 0.05) / (low + 0.05))


@pytest.mark.parametrize("ground", GROUNDS)
def test_arms_stand_out_from_the_ground(ground: str) -> None:
    for color in style._SPARE_COLORS:
        assert contrast(color, GROUNDS[ground]) > 2


def test_styles_of_unknown_arms_are_all_different() -> None:
    styles = list(arm_styles(f"arm {i}" for i in range(7)).values())
    assert len({(one.color, one.dash) for one in styles}) == 7
    assert ArmStyle("a", "#000000", "dot").fill(0.5) == "rgba(0,0,0,0.5)"


def test_an_arm_of_ones_own_is_not_called_what_an_experiment_s_is() -> None:
    record = make_record("grpo_plus", 0, steps=20)
    own = Study("comparison", "nano", {"small": [record], "grpo": [record]})
    assert [one.label for one in arm_styles(arms_of(own)).values()] == ["small", "GRPO"]
    theirs = Study("batch_size", "nano", {"small": [record], "mine": [record]})
    assert [one.label for one in arm_styles(arms_of(theirs)).values()] == ["half the batch", "mine"]
    (mine, taken) = arm_styles(["mine", "rho_01"]).values()
    assert mine.color != taken.color


def test_an_arm_of_ones_own_has_a_colour_that_no_arm_beside_it_has() -> None:
    arms = ["none", "all", "rho_01", "rho_02", "rho_03", "rho_10", "cut_kept", "mine", "other"]
    styles = arm_styles(arms)
    others = [one.color for arm, one in styles.items() if arm not in ("mine", "other")]
    assert not {styles["mine"].color, styles["other"].color} & set(others)
    assert styles["mine"].color != styles["other"].color
