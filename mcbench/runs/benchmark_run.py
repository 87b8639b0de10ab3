"""Evaluating a model on a benchmark: sampled once, kept, resumable.

A folder holds ``evaluation.json`` (what is evaluated and how) and ``samples/00000.jsonl`` and so
on: for every problem the responses, their lengths and verdicts. A chunk of problems is one file,
written in one step; what is there is not sampled again. Each chunk has a seed of its own, so an
interrupted evaluation ends in the same samples as an uninterrupted one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mcbench.data.benchmarks import BenchmarkSet
from mcbench.data.judge import submission
from mcbench.data.prompts import prompt_for
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.files import digest, make_writable, read_lines, write_atomic, write_json
from mcbench.runs.evaluate import EvalResult, mean_pass_at
from mcbench.runs.sampling import Sampler, prompt_ids

CHUNK = 32  # problems sampled and judged together
NO_CODE = "no code"  # stands in for verdicts where a response holds no complete program


@dataclass(frozen=True)
class EvaluationSettings:
    """Everything that decides what an evaluation gives.

    ``problems`` and ``model_digest`` are content hashes. A response is sampled up to the longest of
    ``lengths`` (tokens) and judged cut at each of them.

    Raises:
        UserError: no length, attempt or temperature, or one that is not greater than 0.
    """

    benchmark: str
    problems: str
    model: str
    model_digest: str
    lengths: tuple[int, ...]
    attempts: int = 4
    temperature: float = 1.0
    seed: int = 0
    prompt_style: str = "chat"
    early_exit: bool = True

    @property
    def id(self) -> str:
        """Hash of the settings, with the benchmark's name before it."""
        content = json.dumps(asdict(self), sort_keys=True)
        return f"{self.benchmark.replace(':', '-')}-{digest([content])[:12]}"

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1:
            raise UserError(f"lengths must be whole numbers from 1, got {list(self.lengths)}")
        if self.attempts < 1:
            raise UserError(f"attempts must be at least 1, got {self.attempts}")
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"temperature must be greater than 0, got {self.temperature}")


class BenchmarkRun:
    """One evaluation in a folder of its own.

    Raises:
        UserError: the folder holds an evaluation with other settings, or cannot be written to.
    """

    def __init__(self, folder: Path, problems: BenchmarkSet, settings: EvaluationSettings) -> None:
        self.folder = folder
        self.problems = problems
        self.settings = settings
        about = folder / "evaluation.json"
        wanted = json.loads(json.dumps(asdict(settings)))
        if about.exists():
            found = json.loads(about.read_text())
            changed = sorted(key for key in wanted if found.get(key) != wanted[key])
            if changed:
                raise UserError(
                    f"{folder} holds an evaluation with another {changed[0]} "
                    f"({found.get(changed[0])!r}, now {wanted[changed[0]]!r}); name another folder"
                )
        else:
            make_writable(folder / "samples", "folder")
            write_json(about, wanted)

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-len(self.problems) // CHUNK)

    def _file(self, chunk: int) -> Path:
        return self.folder / "samples" / f"{chunk:05}.jsonl"

    @property
    def done(self) -> int:
        """How many problems are sampled and judged."""
        finished = [n for n in range(self.chunks) if self._file(n).exists()]
        return sum(min(CHUNK, len(self.problems) - n * CHUNK) for n in finished)

    def run(
        self,
        sample: Sampler,
        tokenizer: Any,
        ends: Iterable[int],
        evaluator: Any,
        *,
        progress: bool = False,
    ) -> list[EvalResult]:
        """Sample and judge what is missing.

        Args:
            ends: ids that end a response (:func:`mcbench.runs.sampling.end_tokens`).
            evaluator: a :class:`mcbench.evaluator.Evaluator`.

        Returns:
            One result for each of the settings' lengths.
        """
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        name, total = self.problems.benchmark.name, len(self.problems)
        with tqdm(desc=name, total=total, initial=self.done, disable=not progress) as bar:
            for chunk in range(self.chunks):
                if self._file(chunk).exists():
                    continue
                records = self.problems.problems(chunk * CHUNK, (chunk + 1) * CHUNK)
                rows = self._chunk(chunk, records, sample, tokenizer, set(ends), evaluator)
                write_atomic(self._file(chunk), "".join(json.dumps(row) + "\n" for row in rows))
                bar.update(len(records))
        return self.results()

    def _chunk(
        self,
        chunk: int,
        records: Sequence[Problem],
        sample: Sampler,
        tokenizer: Any,
        ends: set[int],
        evaluator: Any,
    ) -> list[dict[str, Any]]:
        settings = self.settings
        prompts = prompt_ids(tokenizer, [prompt_for(r, settings.prompt_style) for r in records])
        repeated = [ids for ids in prompts for _ in range(settings.attempts)]
        # Far apart: samplers may count on from the seed, one a response.
        seed = settings.seed * 1_000_003 + chunk * 65_537
        responses = sample(repeated, max(settings.lengths), settings.temperature, seed)
        if len(responses) != len(repeated):
            raise RuntimeError(f"{len(repeated)} prompts got {len(responses)} responses")
        texts = {
            n: tokenizer.batch_decode([r[:n] for r in responses], skip_special_tokens=True)
            for n in settings.lengths
        }
        verdicts = self._judge(records, texts, evaluator)
        longest = texts[max(settings.lengths)]
        rows = []
        for index, record in enumerate(records):
            mine = range(index * settings.attempts, (index + 1) * settings.attempts)
            attempts = [
                {
                    "text": longest[i],
                    "tokens": len(responses[i]),
                    "ended": bool(responses[i]) and responses[i][-1] in ends,
                    "verdicts": {str(n): verdicts[n][i] for n in settings.lengths},
                }
                for i in mine
            ]
            diversity = self._diversity([responses[i] for i in mine])
            rows.append({"id": record.id, "attempts": attempts, "distinct_4": diversity})
        return rows

    def _diversity(self, responses: list[list[int]]) -> dict[str, float]:
        """Distinct-4 of one problem's responses, by length."""
        from mcbench.grpo.diversity import distinct_n

        cut = {n: [[response[:n] for response in responses]] for n in self.settings.lengths}
        return {str(n): distinct_n(group, (4,))[4] for n, group in cut.items()}

    def _judge(
        self, records: Sequence[Problem], texts: Mapping[int, list[str]], evaluator: Any
    ) -> dict[int, list[str]]:
        """Verdicts by length for every response, such as "AC,WA".

        Equal programs for one problem run once, which also covers every response that ended before
        the shortest length.
        """
        from mcbench.evaluator import extract_code

        attempts = self.settings.attempts
        keys = {
            n: [(i // attempts, extract_code(text)) for i, text in enumerate(rows)]
            for n, rows in texts.items()
        }
        programs = list(
            dict.fromkeys(key for rows in keys.values() for key in rows if key[1] is not None)
        )
        known = self.problems.benchmark
        submissions = [
            submission(records[index], code or "", known.time_limit_s, known.memory_limit_mb)
            for index, code in programs
        ]
        results = evaluator.evaluate(submissions, early_exit=self.settings.early_exit)
        found = {
            key: ",".join(result.verdicts) for key, result in zip(programs, results, strict=True)
        }
        return {n: [found.get(key, NO_CODE) for key in rows] for n, rows in keys.items()}

    # Results -------------------------------------------------------------------------------------

    def samples(self) -> list[dict[str, Any]]:
        """What was sampled so far, a dict a problem in the order of the set."""
        return [row for chunk in range(self.chunks) for row in read_lines(self._file(chunk))]

    def results(self) -> list[EvalResult]:
        """The scores of what was sampled so far, one result a length.

        Raises:
            UserError: nothing was sampled yet.
        """
        rows = self.samples()
        if not rows:
            raise UserError(f"{self.folder} holds no samples yet")
        entries = {entry.id: entry for entry in self.problems.entries}
        return [
            self._result(length, [(entries[row["id"]], row) for row in rows])
            for length in self.settings.lengths
        ]

    def _result(self, length: int, rows: list[tuple[Any, dict[str, Any]]]) -> EvalResult:
        per_problem = []
        for entry, row in rows:
            judged = [a["verdicts"][str(length)] for a in row["attempts"]]
            judged = [v for v in judged if "IE" not in v.split(",")]
            per_problem.append(
                {
                    "id": entry.id,
                    "form": entry.form,
                    "difficulty": entry.difficulty,
                    "kind": entry.kind,
                    "passes": sum(map(passed, judged)),
                    "attempts": len(judged),
                }
            )
        attempts = [a for _, row in rows for a in row["attempts"]]
        cut = [a["tokens"] > length or not a["ended"] for a in attempts]
        return EvalResult(
            max_completion_length=length,
            temperature=self.settings.temperature,
            attempts=self.settings.attempts,
            pass_at_1=mean_pass_at(per_problem, 1),
            mean_length=float(np.mean([min(a["tokens"], length) for a in attempts])),
            truncated_share=float(np.mean(cut)),
            distinct_4=float(np.mean([row["distinct_4"][str(length)] for _, row in rows])),
            per_problem=tuple(per_problem),
        )


def passed(verdicts: str) -> bool:
    """Whether a response passed, by its verdicts ("AC,AC")."""
    return set(verdicts.split(",")) == {"AC"}
