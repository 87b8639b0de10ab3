"""What if? Eq. 2 applied again to recorded batches, and claims under other margins, by sliders.

Nothing is trained: the responses, their rewards and their tokens stay as they were recorded; only
which of them lose their advantage is asked again. How training would have gone on is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from html import escape
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import ipywidgets as widgets
import numpy as np
import pandas as pd

from mcbench.experiments.study import Study
from mcbench.grpo.generation import GenerationBatch
from mcbench.report.explain import raw_advantages, weighed
from mcbench.report.style import arm_styles, spoken
from mcbench.runs.one_generation import Generation
from mcbench.worlds import TASK_SETS, TASKS
from mcbench.worlds.nano import MODEL_NAMES, model_path

BANDS = 5  # of the length, in the table of what survives
READINGS = ("incorrect", "correct", "non_incorrect", "any")


def under(
    recorded: Generation, mask_ratio: float, repeat_window: int, mask_when: str, seed: int
) -> Generation:
    """The same batch under the conditional mask of Eq. 2 with other settings and another draw."""
    import torch

    from mcbench.grpo import masking

    batch, given = recorded.batch, recorded.arguments
    lengths = torch.tensor(batch.lengths)
    ids = torch.zeros(len(lengths), int(lengths.max()), dtype=torch.int64)
    for row, tokens in zip(ids, batch.completion_ids, strict=True):
        row[: len(tokens)] = torch.as_tensor(tokens)
    truncated = torch.tensor(batch.truncated)
    repeating = truncated & masking.repeats(ids, lengths, repeat_window, given.repeat_rule)
    right = masking.correctness(
        torch.tensor(batch.rewards), given.correct_threshold, given.incorrect_threshold
    )
    able = masking.eligible(truncated, right.candidates(mask_when), repeating)
    draws = masking.uniform_draws((seed, batch.step, 0), len(lengths))
    masked = masking.conditional_mask(able, draws, mask_ratio)
    raw = torch.tensor(raw_advantages(recorded))
    other: Any = copy(given)
    other.truncation_mask, other.mask_ratio, other.mask_when = "conditional", mask_ratio, mask_when
    changed = replace(
        batch,
        repeating=repeating.numpy(),
        eligible={mask_when: able.numpy()},
        masked=masked.numpy(),
        advantages=masking.masked_advantages(raw, masked).numpy(),
    )
    return replace(recorded, arguments=other, batch=changed, draws=draws.numpy())


def survival(generation: Generation) -> pd.DataFrame:
    """By length: responses, those cut and masked, and percent of the gradient's weight, |A| times
    tokens, that the mask leaves.
    """
    batch = generation.batch
    raw = np.abs(raw_advantages(generation)) * batch.lengths
    longest = max(1, int(batch.lengths.max()))
    edges = np.unique(np.ceil(np.linspace(0, longest, BANDS + 1)).astype(int))
    names = [f"{low + 1} to {high}" for low, high in pairwise(edges)]
    band = np.clip(np.searchsorted(edges, batch.lengths) - 1, 0, len(names) - 1)
    frame = pd.DataFrame(
        {"tokens": band, "responses": 1, "cut": batch.truncated, "masked": batch.masked,
         "raw": raw, "left": raw * ~batch.masked}
    )  # fmt: skip
    table = frame.groupby("tokens").sum()
    table.loc[len(names)] = table.sum()
    table.index = pd.Index([*(names[int(i)] for i in table.index[:-1]), "all"], name="tokens")
    share = 100 * table["left"] / table["raw"].where(table["raw"] > 0)
    counts = table[["responses", "cut", "masked"]].astype(int)
    return counts.assign(**{"weight left (%)": share.round(1)})


def recorded_batches(study: Study) -> Iterator[tuple[str, Callable[[], Generation]]]:
    """The batches that the runs of a study stored with their tokens: name, and how to read it."""
    styles = arm_styles(study.arms)
    for arm, runs in study.arms.items():
        for run in runs[:1]:
            steps = run.completion_steps()
            if steps and _tokens(run, run.completions(steps[0])) is not None:
                for step in steps:
                    name = f"{styles[arm].label}, seed {run.seed}, step {step}"
                    yield name, partial(_stored, run, step)


def _tokens(run: Any, frame: pd.DataFrame) -> list[Any] | None:
    """The tokens of stored responses, as ids or texts. Where a record kept none, those of a nano
    model's tokenizer, if they are as many as the responses had; else None.
    """
    for column in ("tokens", "pieces"):
        if column in frame.columns:
            return list(frame[column])
    if run.config.model not in MODEL_NAMES:
        return None
    from transformers import AutoTokenizer  # takes seconds to load

    tokenizer = AutoTokenizer.from_pretrained(model_path(run.config.model))
    rows = [tokenizer.encode(text, add_special_tokens=False) for text in frame["completion"]]
    missing = [int(length) - len(row) for length, row in zip(frame["length"], rows, strict=True)]
    if not set(missing) <= {0, 1}:  # its end is no text
        return None
    return [[*row, *(["end"] * lacks)] for row, lacks in zip(rows, missing, strict=True)]


def thresholds_of(run: Any) -> tuple[float, float]:
    """From which reward on a run's responses are right, and up to which wrong. Its training set may
    be gone, where that is a file: then they are those of programs.
    """
    return TASK_SETS.get(run.config.train_set, TASKS["code"]).thresholds_of(run.config.reward)


def _stored(run: Any, step: int) -> Generation:
    frame = run.completions(step)
    known: dict[Any, int] = {}
    tokens = _tokens(run, frame)
    assert tokens is not None
    ids = [np.array([known.setdefault(t, len(known)) for t in row], dtype=int) for row in tokens]
    off = np.zeros(len(frame), dtype=bool)
    batch = GenerationBatch(
        step=step - 1,
        prompts=list(frame["prompt"]),
        completions=list(frame["completion"]),
        completion_ids=ids,
        lengths=np.array([len(row) for row in ids]),
        truncated=frame["truncated"].to_numpy(dtype=bool),
        repeating=off,
        eligible={},
        masked=frame["masked"].to_numpy(dtype=bool),
        rewards=frame["reward"].to_numpy(dtype=float),
        advantages=frame["advantage"].to_numpy(dtype=float),
        group=frame["group"].to_numpy(dtype=int),
        temperature=float("nan"),
        max_completion_length=run.config.max_completion_length,
        columns={"verdicts": list(frame["verdicts"])},
    )
    algorithm = {"scale_rewards": "group", "repeat_rule": "window", "mask_ratio": 0.2}
    algorithm |= {"mask_when": "incorrect"}
    own = {name: getattr(run.config, name, None) for name in algorithm}
    given: Any = SimpleNamespace(**{n: own[n] if own[n] is not None else algorithm[n] for n in own})
    given.correct_threshold, given.incorrect_threshold = thresholds_of(run)
    return Generation(run.config, given, batch, np.zeros(len(frame)), pd.DataFrame())


_WIDE = {"description_width": "150px"}


def slider(kind: Any, value: float, description: str, **more: Any) -> Any:
    """A slider of ipywidgets in the look that all have here; ``more`` are its own options."""
    layout = widgets.Layout(width="460px")
    return kind(value, description=description, style=_WIDE, layout=layout, **more)


def view(controls: Sequence[Any], told: Callable[[], str]) -> widgets.VBox:
    """The controls, and below them what is told of their values as HTML, anew at every change."""
    shown = widgets.HTML()

    def draw(change: Any = None) -> None:
        shown.value = told()

    for control in controls:
        control.observe(draw, "value")
    draw()
    return widgets.VBox([*controls, shown])


def nothing(text: str) -> widgets.VBox:
    """A sentence in place of controls."""
    return widgets.VBox([widgets.HTML(text)])


def what_if(what: Generation | Study) -> widgets.VBox:
    """Sliders for rho, window, reading and seed over recorded batches: which responses the mask
    would have spared, their advantages, and what would be left of the gradient's weight; a sentence
    where no batch was stored with its tokens.
    """
    batches = (
        {"this batch": lambda: what}
        if isinstance(what, Generation)
        else {name: cache(read) for name, read in recorded_batches(what)}
    )
    if not batches:
        return nothing("No run here stored a batch with its tokens.")
    batch = widgets.Dropdown(options=list(batches), description="batch", style=_WIDE)
    rho = slider(widgets.FloatSlider, 0.2, "rho (mask_ratio)", min=0, max=1, step=0.05)
    window = slider(widgets.IntSlider, 16, "repeat_window", min=1, max=128)
    reading = widgets.Dropdown(options=READINGS, description="reading (mask_when)", style=_WIDE)
    seed = slider(widgets.IntSlider, 0, "seed of the draw", min=0, max=20)

    def told() -> str:
        found = batches[batch.value]()
        window.max = max(1, int(found.batch.lengths.max()) // 2)
        return _told(under(found, rho.value, window.value, reading.value, seed.value))

    only = [batch] if len(batches) > 1 else []
    return view([*only, rho, window, reading, seed], told)


MOST_ROWS = 16  # cut responses that are listed


def _told(generation: Generation) -> str:
    batch = generation.batch
    cut = np.flatnonzero(batch.truncated)
    table = survival(generation)
    share = table["weight left (%)"].iloc[-1]
    rows = weighed(generation, cut[:MOST_ROWS])
    rows.insert(0, "prompt", batch.group[cut[:MOST_ROWS]])
    left = "nothing to weigh" if np.isnan(share) else f"{share:.1f} % of the gradient's weight left"
    more = f"; the first {MOST_ROWS} of them" if len(cut) > MOST_ROWS else ""
    return (
        f"<p><b>What if:</b> {int(batch.masked.sum())} of {len(cut)} cut responses spared, "
        f"{escape(left)}. Of this batch alone: no training follows from it.</p>"
        f"{table.to_html(na_rep='–')}<p>Cut responses{more}:</p>"
        f"{rows.to_html(index=False)}"
    )


def verdicts_if(study: Study) -> widgets.VBox:
    """The claims of a study under other margins and from fewer seeds, beside their verdicts."""
    all_seeds = sorted(
        {seed for runs in study.claimed.values() for of in runs.values() for seed in of}
    )
    margins = slider(
        widgets.FloatSlider, 1.0, "margins, times", min=0.25, max=4, step=0.25,
        continuous_update=False,
    )  # fmt: skip
    seeds = widgets.SelectMultiple(
        options=all_seeds, value=tuple(all_seeds), description="seeds used", style=_WIDE,
        rows=min(6, max(1, len(all_seeds))),
    )  # fmt: skip

    def told() -> str:
        found = study.results_if(seeds.value, margins.value)
        rows = pd.DataFrame(
            {
                "claim": f"{name}: {one.claim.claim}",
                "verdict": study.results[name].state,
                "what if": one.state if one.claim.directed else one.part_states or one.state,
                "effect": spoken(one.decisive.name),
                "why not decided": spoken(one.reason),
            }
            for name, one in found.items()
            if name in study.results
        )
        changed = sum(one.state != study.results[name].state for name, one in found.items())
        return (
            f"<p><b>What if, not the verdict:</b> {changed} of {len(rows)} states would be others. "
            f"Margins and seeds were fixed before the runs.</p>{rows.to_html(index=False)}"
        )

    return view([margins, seeds], told)
