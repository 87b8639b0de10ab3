"""One step of GRPO on a real batch, taken apart: verdicts, rewards, advantages, masks."""

from __future__ import annotations

import numpy as np
import pandas as pd
from IPython.display import HTML

from mcbench.report.rendering import render
from mcbench.runs.one_generation import Generation

ADVANTAGE_EPSILON = 1e-4  # TRL's, added to the group's standard deviation
LONGEST = 4000  # characters of a response that are shown


def raw_advantages(generation: Generation) -> np.ndarray:
    """Advantages before the mask, (B,): the reward's distance from its group's mean.

    Divided by the group's standard deviation where the recipe does so (Shao et al. 2024, §4.1.2).
    """
    rewards = pd.Series(generation.batch.rewards)
    groups = rewards.groupby(generation.batch.group)
    centred = rewards - groups.transform("mean")
    if generation.arguments.scale_rewards == "group":
        centred = centred / (groups.transform("std") + ADVANTAGE_EPSILON)
    elif generation.arguments.scale_rewards == "batch":
        centred = centred / (rewards.std() + ADVANTAGE_EPSILON)
    return centred.fillna(0.0).to_numpy()


def reason(generation: Generation, index: int) -> str:
    """Why response ``index`` was masked or not, condition by condition in the order of Eq. 2."""
    batch, arguments = generation.batch, generation.arguments
    if arguments.truncation_mask == "none":
        return "kept: this recipe has no mask"
    if not batch.truncated[index]:
        return "kept: it ended by itself"
    if arguments.truncation_mask == "all":
        return "masked: it was cut at the limit"
    if batch.repeating[index]:
        return "kept: cut, but repeating itself"
    if not batch.eligible[arguments.mask_when][index]:
        return f"kept: cut, but not {arguments.mask_when.replace('_', '-')}"
    draw, rho = generation.draws[index], arguments.mask_ratio
    if batch.masked[index]:
        return f"masked: cut, {arguments.mask_when}, not repeating, draw {draw:.2f} < rho {rho:g}"
    return f"kept: cut and {arguments.mask_when}, but draw {draw:.2f} ≥ rho {rho:g}"


def responses(generation: Generation, group: int) -> pd.DataFrame:
    """The G responses of one prompt, one row each.

    Raises:
        UserError: there is no such group.
    """
    batch, rows = generation.batch, generation.rows(group)
    verdicts = batch.columns.get("verdicts", [""] * len(batch.masked))
    table = weighed(generation, rows)
    table.insert(1, "verdicts", [verdicts[i] for i in rows])
    return table.set_index(pd.Index(range(1, len(rows) + 1), name="response"))


def weighed(generation: Generation, rows: np.ndarray) -> pd.DataFrame:
    """What some responses weigh in the update before and after the mask, and why; one row each."""
    batch = generation.batch
    return pd.DataFrame(
        {
            "tokens": batch.lengths[rows],
            "reward": batch.rewards[rows],
            "advantage": raw_advantages(generation)[rows].round(3),
            "after mask": batch.advantages[rows].round(3),
            "mask": [reason(generation, i) for i in rows],
        }
    )


def group_summary(generation: Generation) -> pd.DataFrame:
    """One row per prompt: how its responses did."""
    batch = generation.batch
    frame = pd.DataFrame(
        {
            "right": batch.rewards >= generation.arguments.correct_threshold,
            "mean tokens": batch.lengths,
            "cut": batch.truncated,
            "masked": batch.masked,
        }
    )
    how = {"right": "sum", "mean tokens": "mean", "cut": "sum", "masked": "sum"}
    table = frame.groupby(batch.group).agg(how)
    size = len(batch.masked) // len(table)
    mixed = (table["right"] > 0) & (table["right"] < size)
    table["gradient"] = mixed.map({True: "yes: mixed", False: "none: all alike"})
    table.index.name = "prompt"
    return table.round(1)


def telling_group(generation: Generation) -> int:
    """A prompt worth looking at: masked responses and right ones if there are, else mixed."""
    table = group_summary(generation)
    mixed, masked = table["gradient"] == "yes: mixed", table["masked"] > 0
    return int((4 * (mixed & masked) + 2 * mixed + masked).to_numpy().argmax())


def show_prompt(generation: Generation, group: int) -> HTML:
    """The prompt of one group, escaped."""
    prompt = generation.batch.prompts[generation.rows(group)[0]]
    text = prompt if isinstance(prompt, str) else "\n\n".join(m["content"] for m in prompt)
    return HTML(render("responses.html", prompt=text, responses=()))


def show_responses(generation: Generation, group: int) -> HTML:
    """The responses of one group (their first :data:`LONGEST` characters), escaped."""
    shown = []
    lines = responses(generation, group).to_dict("records")
    for number, (index, line) in enumerate(zip(generation.rows(group), lines, strict=True), 1):
        text = generation.batch.completions[index]
        more = f" … ({len(text)} characters)" if len(text) > LONGEST else ""
        head = f"{number} · {line['verdicts']} · {line['tokens']} tokens · {line['mask']}"
        right = line["reward"] >= generation.arguments.correct_threshold
        shown.append({"head": head, "text": text[:LONGEST] + more, "right": right})
    return HTML(render("responses.html", prompt="", responses=shown))
