"""The browser of responses of a live page: of any run and step, beside another run's.

The page's script (``assets/samples.js``) has all controls. It is sent what the filters need of one
generation, and the texts of those responses that it shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcbench.errors import UserError
from mcbench.report.dashboard.follower import RunFollower
from mcbench.report.samples import VERDICTS, clip_range, linked_rows, plain, row_of, text_of
from mcbench.report.style import ArmStyle

MOST_CHARACTERS = 200_000  # of a response that are shown
LATEST = "latest"
KEPT = 4  # generations in memory
MOST_FOLLOWED = 1000  # of which one problem's responses are
NOTHING: dict[str, Any] = {
    "run": "",
    "beside": "",
    "step": LATEST,
    "words": "",
    "over": "",
    "colour": "",
    "need": [],
}

Named = Mapping[str, tuple[ArmStyle, RunFollower]]
"""Name of a run for people -> how its arm looks, and the run."""
Stored = list[tuple[dict[str, Any], dict[str, Any]]]
"""Stored responses, each with what links it to the others of its group (:func:`linked_rows`)."""


class Responses:
    """Answers what a browser of responses asks, of the runs as they are now."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str], tuple[int, Stored]] = {}

    def answer(
        self, asked: Mapping[str, Any], named: Named
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What can be chosen and the rows that match, and the texts that are needed of them.

        Args:
            asked: as :data:`NOTHING`, of which what is left out is taken.
            named: the runs to choose from.
        """
        asked = {**NOTHING, **asked}
        over, beside, at_step = str(asked["over"]), asked["beside"], str(asked["step"])
        runs = {run.run_id: run for _, run in named.values()}
        stored = {
            run_id: steps for run_id, run in runs.items() if (steps := run.completion_steps())
        }
        chosen = asked["run"] if asked["run"] in stored else next(iter(stored), None)
        found: dict[str, tuple[RunFollower, dict[str, Any], dict[str, Any]]] = {}
        at: dict[str, int] = {}
        for run_id in dict.fromkeys(i for i in (chosen, beside) if i in stored):
            steps = stored[run_id]
            wanted = int(at_step) if at_step.isdecimal() else steps[-1]
            # Another run's generation, of which the one chosen has none, is no choice.
            at[run_id] = wanted if run_id != chosen or wanted in steps else steps[-1]
            for step in steps if over else [at[run_id]]:
                for line, linked in self._responses(runs[run_id], step, over):
                    name = f"{run_id}/{step}/{line['place']}"
                    row = {"id": name, **row_of(line, run_id, step), **linked}
                    found[name] = runs[run_id], line, row
        message = ""
        if chosen is None:
            message = "No responses are stored yet; the first come with the first generation."
        elif not over and not any(run is runs[chosen] for run, _, _ in found.values()):
            message = f"No responses are stored for step {at[chosen]} of this run."
        elif not over and at_step.isdecimal() and int(at_step) != at[chosen]:
            message = (
                f"No responses are stored for step {at_step} of this run; these are of step "
                f"{at[chosen]}, its last."
            )
        lines = {name: line for name, (_, line, _) in found.items()}
        known = {column for line in lines.values() for column in line}
        data = {
            "arms": {
                run.run_id: {"label": name, "color": style.color, "stored": run.run_id in stored}
                for name, (style, run) in named.items()
            },
            "chosen": chosen,
            "beside": beside,
            "steps": stored.get(chosen or "", []),
            "rows": [row for _, _, row in found.values()],
            "hits": _hits(lines, asked["words"]),
            "probable": "logprobs" in known,
            "uncertain": "entropies" in known,
            "moved": "log_ratios" in known,
            "verdicts": VERDICTS,
            "message": message,
        }
        texts = {}
        for name in (name for name in asked["need"] if name in found):
            run, line, _ = found[name]
            prompt = plain(str(line["prompt"]), MOST_CHARACTERS)
            text = text_of(line, MOST_CHARACTERS, bool(asked["colour"]), clip_range(run.config))
            texts[name] = {"prompt": prompt, **text}
        return data, texts

    def _responses(self, run: RunFollower, step: int, over: str) -> Stored:
        """The responses of a generation, or those to one problem; none where there are none."""
        key, version = (run.run_id, step, over), run.version_of(step)
        kept = self._kept.get(key)
        if version is not None and (kept is None or kept[0] != version):
            try:
                table = run.completions(step).drop(columns="tokens", errors="ignore")
            except (OSError, UserError, ValueError):  # removed since the listing, or half there
                return []
            table = table.assign(place=range(len(table)))
            if over:
                table = table[table["problem_id"].astype(str) == over]
            while len(self._kept) >= (MOST_FOLLOWED if over else KEPT):
                del self._kept[next(iter(self._kept))]
            lines: list[Any] = table.to_dict("records")
            kept = version, list(zip(lines, linked_rows(lines), strict=True))
            self._kept[key] = kept
        return kept[1] if kept else []


def _hits(lines: Mapping[str, Mapping[str, Any]], words: str) -> list[str] | None:
    """The responses whose text or prompt holds the words; None where nothing is searched."""
    if not words:
        return None
    return [
        name
        for name, line in lines.items()
        if words in str(line["completion"]).lower() or words in str(line["prompt"]).lower()
    ]
