"""The paper's own numbers, for showing beside ours.

Source: :data:`PAPER`. Table 1: accuracy in percent, trained with 4K-token responses, tested at 4K
and at 8K. Columns are AtCoder, LeetCode and LiveCodeBench (v6), each Easy, Medium, Hard, All. The
values are copied as printed, the Δ rows too; in the source the 8K rows of the two 1.7B baselines
repeat the 4K rows. Curves are read by eye from its figures, a few points each.
"""

from __future__ import annotations

from dataclasses import dataclass

PAPER = {
    "title": "Breaking Training Bottlenecks: Effective Reinforcement Learning for Modern Coding "
    "Models",
    "authors": "Zongqian Li and others",
    "number": "2603.07777",
    "url": "https://arxiv.org/abs/2603.07777",
}
OTHERS = {
    "AceReason-Nemotron": "https://arxiv.org/abs/2506.13284",
    "CISPO": "https://arxiv.org/abs/2506.13585",
    "CWM": "https://arxiv.org/abs/2510.02387",
    "Clip-Cov": "https://arxiv.org/abs/2505.22617",
    "CodeRL": "https://arxiv.org/abs/2207.01780",
    "DAPO": "https://arxiv.org/abs/2503.14476",
    "DeepCoder": "https://github.com/agentica-project/rllm",
    "Dr. GRPO": "https://arxiv.org/abs/2503.20783",
    "GSPO": "https://arxiv.org/abs/2507.18071",
    "Improving Cursor Tab": "https://cursor.com/blog/tab-rl",
    "KL-Cov": "https://arxiv.org/abs/2505.22617",
    "Kimi-Dev": "https://arxiv.org/abs/2509.23045",
    "PPOCoder": "https://arxiv.org/abs/2301.13816",
    "Pass@k training": "https://arxiv.org/abs/2508.10751",
    "Polaris": "https://github.com/ChenxinAn-fdu/POLARIS",
    "RLEF": "https://arxiv.org/abs/2410.02089",
    "RLTF": "https://arxiv.org/abs/2307.04349",
    "SRPO": "https://arxiv.org/abs/2504.14286",
    "SWE-RL": "https://arxiv.org/abs/2502.18449",
    "SWE-grep": "https://cognition.ai/blog/swe-grep",
    "Self-play SWE-RL": "https://arxiv.org/abs/2512.18552",
    "SkyRL": "https://arxiv.org/abs/2511.16108",
    "Skywork-OR1": "https://arxiv.org/abs/2505.22312",
    "StepCoder": "https://arxiv.org/abs/2402.01391",
}
"""Where other papers are, by how a claim's source begins."""
SOURCES = ("AtCoder", "LeetCode", "LiveCodeBench")

Values = tuple[float, ...]

NOT_TRAINED: dict[tuple[str, str], Values] = {
    ("1.7B", "4K"): (69.2, 10.6, 1.3, 19.2, 33.8, 3.8, 0, 10.7, 55.2, 7.2, 0.9, 16.1),
    ("1.7B", "8K"): (69.2, 10.6, 1.3, 19.2, 33.8, 3.8, 0, 10.7, 55.2, 7.2, 0.9, 16.1),
    ("4B", "4K"): (95.2, 44.2, 9.2, 37.3, 73.5, 19.2, 2.5, 28.6, 86.6, 31.7, 7.5, 34.1),
    ("4B", "8K"): (95.2, 45.2, 10.0, 37.9, 76.5, 18.3, 2.5, 29.0, 87.8, 31.7, 8.1, 34.7),
}

TRAINED: dict[tuple[str, str], dict[str, Values]] = {
    ("1.7B", "4K"): {
        "grpo": (70.2, 20.2, 1.7, 21.9, 47.1, 4.8, 0, 14.7, 61.0, 12.5, 1.3, 19.3),
        "grpo_plus": (76.9, 15.4, 2.9, 23.0, 55.9, 1.9, 0, 15.9, 68.6, 8.7, 2.2, 20.4),
        "microcoder": (83.7, 24.0, 2.9, 26.6, 57.4, 4.8, 0, 17.5, 73.3, 14.4, 2.2, 23.3),
    },
    ("1.7B", "8K"): {
        "grpo": (70.2, 20.2, 1.7, 21.9, 47.1, 4.8, 0, 14.7, 61.0, 12.5, 1.3, 19.3),
        "grpo_plus": (76.9, 15.4, 2.9, 23.0, 55.9, 1.9, 0, 15.9, 68.6, 8.7, 2.2, 20.4),
        "microcoder": (82.7, 26.9, 3.7, 27.5, 52.9, 8.7, 0, 17.9, 70.9, 17.8, 2.8, 24.0),
    },
    ("4B", "4K"): {
        "grpo": (98.1, 46.2, 11.7, 39.7, 72.1, 21.2, 0, 28.2, 87.8, 33.7, 8.7, 35.6),
        "grpo_plus": (97.1, 49.0, 10.0, 39.3, 75.0, 22.1, 1.3, 29.8, 88.4, 35.6, 7.8, 35.9),
        "microcoder": (100.0, 49.0, 9.6, 39.7, 88.2, 22.1, 3.7, 34.1, 95.3, 35.6, 8.1, 37.7),
    },
    ("4B", "8K"): {
        "grpo": (100.0, 45.2, 12.9, 40.6, 72.1, 22.1, 0, 28.6, 89.0, 33.7, 9.7, 36.3),
        "grpo_plus": (100.0, 43.3, 11.3, 39.3, 76.5, 23.1, 2.5, 31.0, 90.7, 33.2, 9.1, 36.3),
        "microcoder": (100.0, 48.1, 12.9, 41.3, 83.8, 24.0, 5.0, 34.1, 93.6, 36.1, 10.9, 38.7),
    },
}

DELTA: dict[tuple[str, str], Values] = {
    ("1.7B", "4K"): (6.8, 3.8, 0.0, 3.6, 1.5, 0.0, 0, 1.6, 4.7, 1.9, 0.0, 2.9),
    ("1.7B", "8K"): (5.8, 6.7, 0.8, 4.5, -3.0, 3.9, 0, 2.0, 2.3, 5.3, 0.6, 3.6),
    ("4B", "4K"): (1.9, 0.0, -2.1, 0.0, 13.2, 0.0, 2.4, 4.3, 6.9, 0.0, -0.6, 1.8),
    ("4B", "8K"): (0.0, 2.9, 0.0, 0.7, 7.3, 0.9, 2.5, 3.1, 2.9, 2.4, 1.2, 2.4),
}

MODELS = {"1.7B": "Qwen3-1.7B Instruct", "4B": "Qwen3-4B-Instruct-2507"}


@dataclass(frozen=True)
class Reference:
    """A curve of the paper, read by eye from its figure; ``measure`` is a column of ours."""

    source: str
    label: str
    measure: str
    x: tuple[float, ...]
    y: tuple[float, ...]


D_OF_T = Reference(
    "Fig. 3", "untrained 4B", "distinct_4", (0.0, 0.2, 1.0, 2.0), (0.34, 0.60, 0.71, 0.90)
)
_DIVERSITY = "diversity/distinct_4"
CURVES: dict[str, tuple[Reference, ...]] = {
    "temperature": (
        Reference("Fig. 3", "T = 0.6", _DIVERSITY, (0, 260), (0.57, 0.44)),
        Reference("Fig. 3", "T = 1.2", _DIVERSITY, (0, 260), (0.71, 0.70)),
        Reference("Fig. 3", "T = 1.8", _DIVERSITY, (0, 50, 260), (0.97, 0.60, 0.60)),
    ),
    "kl_and_clip": (
        Reference("Fig. 4", "with KL", _DIVERSITY, (0, 480), (0.67, 0.18)),
        Reference("Fig. 4", "no KL, clip high", _DIVERSITY, (0, 480), (0.67, 0.76)),
    ),
}
"""References over training by experiment; accuracy is left out, because pass@1 of other models on
other problems would only stretch the axis."""

NUMBERS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "cross_model": (
        ("older (Qwen 2.5)", "accuracy", "substantial gain on the mainstream set"),
        ("older (Qwen 2.5)", "response length", "stable or falling"),
        ("newer (Qwen 3)", "accuracy", "minimal gain on the same set"),
        ("newer (Qwen 3)", "response length", "pronounced growth"),
    ),
    "truncation_mask": (
        ("none", "accuracy", "stays at .34 to .36"),
        ("rho 0.1", "accuracy", ".389 at step 360"),
        ("rho 0.2", "accuracy", ".387 at steps 200 and 420"),
        ("all", "accuracy", "peak .37 at step 140, under .32 from step 220"),
        ("all", "response length", "at the limit of 4,096 from step 200"),
        ("all", "diversity", ".94 at step 260, then down to .12"),
    ),
    "temperature": (
        ("T = 0.6", "diversity", ".57 at the start, .44 at step 260"),
        ("T = 0.6", "accuracy", ".37, then .51, then .46"),
        ("T = 1.2", "diversity", ".71 at the start, .70 at the end"),
        ("T = 1.2", "accuracy", ".64"),
        ("T = 1.8", "diversity", ".97 at the start, .60 within 50 steps"),
        ("T = 1.8", "accuracy", ".62"),
        ("0.6 to 1.2 and 0.6 to 1.8 at step 140", "accuracy", "about .65"),
        ("untrained", "diversity by T", ".34 at 0, .60 at 0.2, .71 at 1.0, .90 at 2.0"),
    ),
    "kl_and_clip": (
        ("KL", "diversity", ".67 to .18 in 480 steps"),
        ("KL", "accuracy", ".359 to .28"),
        ("no KL, high clip", "diversity", ".67 to .76"),
        ("no KL, high clip", "response length", "3.2K to 6K tokens"),
        ("no KL, high clip", "accuracy", ".34 to .40"),
    ),
    "batch_size": (
        ("32, 64, 128 problems", "setting", "one mini batch; 64 is the default"),
        ("64", "accuracy", "best of the three"),
        ("32", "response length", "rises, then falls"),
    ),
    "context_length": (
        ("4K, 6K, 8K", "setting", "extended to 8K at about step 260 (early) or 520 (late)"),
        ("8K", "accuracy, length, diversity", "highest of the three"),
        ("4K to 8K, late", "length, diversity", "recovers least"),
    ),
}
"""What the paper reports by experiment: arm, measure, value; numbers are read by eye."""
