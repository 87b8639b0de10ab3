"""What the browser of responses shows (``assets/samples.js``), on a page and in the dashboard.

A response is a row, what the filters need to know of it, and its text. A page holds both, of a
bounded selection: that of compact records (:func:`mcbench.runs.compact.chosen_samples`), whole
groups of the first, a middle and the last generation, of one run per arm. All arms of one seed see
the same problems in the same order, so that their responses can be laid side by side. What a model
wrote is shown as text, whatever it wrote.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from mcbench.grpo.diversity import distinct_n, last_code_block, program_key
from mcbench.report.series import Arms, Record, seed_of
from mcbench.report.style import arm_styles
from mcbench.runs.compact import chosen_samples
from mcbench.runs.config import Config

# C0 control characters but tab and newline have pictures of their own in Unicode; bidirectional
# controls could reorder the text around them and are spelled out.
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
_PICTURES |= {127: "␡"}
_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES |= {code: f"⟨U+{code:04X}⟩" for code in _BIDI}
# Surrogates cannot be written to a file.
_PICTURES |= {code: f"⟨U+{code:04X}⟩" for code in range(0xD800, 0xE000)}
VERDICTS = {
    "AC": "accepted",
    "WA": "wrong answer",
    "RE": "runtime error",
    "TLE": "time limit exceeded",
    "MLE": "memory limit exceeded",
    "OLE": "output limit exceeded",
    "IE": "our own infrastructure failed",
    "no code": "no complete program in the response",
}
_WORD = re.compile(r"\w+|[^\w\s]")
MOST_COMPARED = 40_000  # characters of a response that its group's diversity is measured on
LEVELS = 16  # of a token's log-probability
PER_NAT = 3  # levels; the last one is from 5 nats (a probability below 0.7 %) on
UNMOVED, PER_RATIO_NAT = 8, 10  # level of a ratio of 1; levels a nat of its logarithm


def plain(text: str, limit: int | None = None) -> str:
    """Text from a model for display as text: control characters made visible, cut at ``limit``."""
    hidden = 0 if limit is None else max(0, len(text) - limit)
    more = f"\n… ({hidden} more characters)" if hidden else ""
    return text[:limit].translate(_PICTURES) + more


def shown_runs(arms: Arms) -> dict[str, Record]:
    """One run per arm that has stored responses: of the lowest seed that all such arms have, or
    where there is none, each arm's lowest.
    """
    stored = {
        arm: {seed_of(record): record for record in records if record.completion_steps()}
        for arm, records in arms.items()
    }
    stored = {arm: runs for arm, runs in stored.items() if runs}
    shared = set.intersection(*(set(runs) for runs in stored.values())) if stored else set()
    return {arm: runs[min(shared or runs)] for arm, runs in stored.items()}


def sample_data(arms: Arms) -> dict[str, Any] | None:
    """A page's data for the browser; None where no responses are stored.

    ``columns`` are the rows of :func:`row_of` with the texts of :func:`text_of`, null where a row
    lacks one. Prompts and the pieces of tokens are kept once: a row has their places. A text that
    its first pieces make up is their number.
    """
    prompts: dict[str, int] = {}
    pieces: dict[str, int] = {}
    rows = []
    styles = arm_styles(arms)
    runs = shown_runs(arms)
    for arm, record in runs.items():
        lines = chosen_samples(record)
        for line, linked in zip(lines, linked_rows(lines), strict=True):
            prompt = prompts.setdefault(plain(str(line["prompt"])), len(prompts))
            row = row_of(line, arm, line["step"])
            if line["masked"] and _leaves_loss(record.config):
                line = {**line, "log_ratios": None}  # scored as padding: no ratio of the policy's
            text = text_of(line, clip=clip_range(record.config))
            if "pieces" in text:
                text["text"] = _leading_pieces(text["text"], text["pieces"]) or text["text"]
                text["pieces"] = [pieces.setdefault(one, len(pieces)) for one in text["pieces"]]
            rows.append({"prompt": prompt, **row, **linked, **text})
    if not rows:
        return None
    named = {
        arm: {"label": styles[arm].label, "color": styles[arm].color, "seed": seed_of(record)}
        for arm, record in runs.items()
    }
    once = {"prompts": list(prompts), "pieces": list(pieces)}
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {"arms": named, **once, "columns": columns, "verdicts": VERDICTS}


def _leading_pieces(text: str, pieces: Sequence[str]) -> int | None:
    """How many of the first pieces make up the text; None where none do (a byte of a letter)."""
    ends = list(accumulate(map(len, pieces)))
    count = ends.index(len(text)) + 1 if len(text) in ends else 0
    return count if count and "".join(pieces[:count]) == text else None


def row_of(line: Mapping[str, Any], arm: str, step: int) -> dict[str, Any]:
    """What the filters need to know of a stored response, without its text."""
    second = {"second": plain(str(line["second"]))} if line.get("second") else {}
    return {
        **second,
        "arm": arm,
        "step": step,
        "group": int(line["group"]),
        "problem": plain(str(line.get("problem_id") or "")),
        "length": int(line["length"]),
        "cut": bool(line["truncated"]),
        "masked": bool(line["masked"]),
        "reward": _number(line["reward"]),
        "advantage": _number(line.get("advantage")),
        **({"weight": _number(line["weight"])} if "weight" in line else {}),
        "verdicts": plain(str(line.get("verdicts") or "not judged")),
    }


def linked_rows(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each response what links it to the others of its prompt's group.

    ``diversity`` is Distinct-4 of the group's words, the same for all of them, ``program`` numbers
    the distinct programs of a group from 1, the most frequent first (0: none), equal where their
    syntax trees are, and ``raw`` is the advantage before any mask, A = (r - mean) / (sd + 1e-4).
    """
    groups: dict[tuple[Any, Any], list[int]] = {}
    for place, line in enumerate(lines):
        groups.setdefault((line.get("step"), line["group"]), []).append(place)
    found: list[dict[str, Any]] = [{} for _ in lines]
    for places in groups.values():
        words: dict[str, int] = {}
        texts = [str(lines[place]["completion"])[:MOST_COMPARED] for place in places]
        tokens = [[words.setdefault(w, len(words)) for w in _WORD.findall(t)] for t in texts]
        keys = [program_key(last_code_block(text)) for text in texts]
        ranks = [key for key, _ in Counter(key for key in keys if key).most_common()]
        rewards = np.array([lines[place]["reward"] for place in places], dtype=float)
        spread = np.nanstd(rewards, ddof=1) if np.isfinite(rewards).sum() > 1 else np.nan
        weights = (rewards - rewards.mean()) / (spread + 1e-4)
        diversity = _number(distinct_n([tokens], (4,))[4])
        for place, key, weight in zip(places, keys, weights, strict=True):
            program = ranks.index(key) + 1 if key else 0
            found[place] = {"diversity": diversity, "program": program, "raw": _number(weight)}
    return found


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(float(value), 3)


def _leaves_loss(config: Config) -> bool:
    """Whether the tokens of a masked response are in no term of the loss."""
    return config.truncation_mask == "all" or config.masked_lose == "loss"


_CLIPPING = (None, "grpo", "dapo", "bnpo", "dr_grpo")  # losses of Eq. 1


def clip_range(config: Config) -> tuple[float, float] | None:
    """Between which ratios a token has a gradient whatever its advantage (Eq. 1); None where the
    loss clips something else than each token's ratio.
    """
    if config.importance_sampling_level == "sequence" or config.loss_type not in _CLIPPING:
        return None
    low = 0.2 if config.epsilon is None else config.epsilon  # TRL's default
    return 1 - low, 1 + (low if config.epsilon_high is None else config.epsilon_high)


def text_of(
    line: Mapping[str, Any],
    limit: int | None = None,
    colour: bool = True,
    clip: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """A stored response's text, cut at ``limit``, turn by turn where it has several (``turns``:
    action, verdict, observation); with ``colour`` also its tokens (``pieces``), how improbable and
    how uncertain they were (``levels``, ``entropy``), how far the policy had moved when it was
    trained on them (``ratio``) and which were clipped then (``clipped``, 0 or 1), where that was
    recorded.
    """
    shown: dict[str, Any] = {"text": plain(str(line["completion"]), limit)}
    if line.get("turns"):
        shown["turns"] = [
            {name: plain(text, limit) for name, text in turn.items()}
            for turn in json.loads(line["turns"])
        ]
    log_probs = line.get("logprobs")
    if colour and log_probs is not None and len(log_probs):
        shown["pieces"] = [plain(str(piece)) for piece in line["pieces"]]
        shown["levels"] = "".join(map(_level, log_probs))
        if (entropies := line.get("entropies")) is not None and len(entropies):
            shown["entropy"] = "".join(_level(-value) for value in entropies)
        if (moved := line.get("log_ratios")) is not None and len(moved):
            moved = np.asarray(moved, dtype=float)
            levels = np.clip(np.round(UNMOVED + PER_RATIO_NAT * moved), 0, LEVELS - 1)
            shown["ratio"] = "".join(f"{level:x}" for level in levels.astype(int))
            if clip is not None:
                advantage = line.get("advantage") or 0.0
                low, high = (np.exp(moved) < clip[0]), (np.exp(moved) > clip[1])
                cut = high if advantage > 0 else low & (advantage < 0)
                shown["clipped"] = "".join(str(int(one)) for one in cut)
    return shown


def _level(log_prob: float | None) -> str:
    """A hexadecimal digit: 0 for a sure token, f for one of 5 nats and more."""
    nats = -log_prob if log_prob is not None and log_prob < 0 else 0.0  # not a number: not known
    return f"{min(LEVELS - 1, int(nats * PER_NAT)):x}"


@dataclass(frozen=True)
class Samples:
    """Responses for the sample browser of a page, under an id; ``data`` as :func:`sample_data`."""

    id: str
    title: str
    prose: str
    data: Mapping[str, Any]


def samples_of(size: str, prefix: str, arms: Arms) -> Samples | None:
    """The responses that a page shows; None where none are stored."""
    data = sample_data(arms)
    if data is None:
        return None
    seeds = sorted({named["seed"] for named in data["arms"].values()})
    return Samples(
        f"{prefix}-samples",
        f"Responses: {size}",
        f"Training samples of seed {', '.join(map(str, seeds))}: the first prompts of the first, a "
        "middle and the last generation, chosen without a look at their responses. Each prompt was "
        "answered several times by each arm.",
        data,
    )
