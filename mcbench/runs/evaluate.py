"""Accuracy of a model on a set of problems: pass@1 as the mean of several sampled attempts.

A response cut at L tokens is the first L tokens of the response cut at 2L, because sampling goes
from left to right. So each problem is sampled once at the longest length and judged at every one.

With a folder an evaluation is kept and resumed. The folder holds ``evaluation.json`` (what is
evaluated and how) and ``samples/00000.jsonl`` and so on: for every problem the responses, their
lengths and verdicts. A chunk of problems is one file, written in one step; what is there is not
sampled again. Each chunk has a seed of its own, so that an evaluation that was interrupted ends in
the same samples as one that was not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mcbench.data.benchmarks import BenchmarkSet
from mcbench.data.prompts import prompt_for
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator, extract_code
from mcbench.evaluator.reward import NO_CODE
from mcbench.files import make_writable, plain, read_lines, write_atomic, write_json
from mcbench.grpo.diversity import distinct_4_first, distinct_n, program_key, unique_share
from mcbench.runs.rollout import evaluation_episodes
from mcbench.runs.scores import EvalResult, mean_pass_at
from mcbench.worlds import TESTS, Judged, Task, means, task_of
from mcbench.worlds.multi_turn import Environment, Episode, episode_means

if TYPE_CHECKING:
    from mcbench.runs.sampling import Policy

CHUNK = 32  # problems sampled and judged together where they are kept in a folder
CHUNK_RESPONSES = 128  # or more problems, if so many responses are not reached: few are slow

Problems = Sequence[Problem] | BenchmarkSet
Verdicts = dict[tuple[str, str | None], str]
"""By problem id and program, such as "AC,WA"."""


@dataclass(frozen=True)
class Asked:
    """What a model is asked for each problem.

    Attributes:
        lengths: maximum response lengths in tokens; of each response all are judged.
        attempts: responses to a problem.
        prompt_style: as :func:`mcbench.data.prompts.prompt_for` has it.

    Raises:
        UserError: a temperature, length or number of attempts that is not greater than 0.
    """

    lengths: Sequence[int]
    attempts: int = 4
    temperature: float = 1.0
    prompt_style: str = "plain"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1:
            raise UserError(f"lengths must be whole numbers from 1, got {list(self.lengths)}")
        if self.attempts < 1:
            raise UserError(f"attempts must be at least 1, got {self.attempts}")
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise UserError(f"temperature must be greater than 0, got {self.temperature}")


def select_problems(problems: Sequence[Problem], limit: int | None) -> tuple[Problem, ...]:
    """``limit`` problems spread evenly over the set; all of them where None."""
    if limit is None or limit >= len(problems):
        return tuple(problems)
    return tuple(problems[i * len(problems) // limit] for i in range(limit))


def evaluate(
    model: Policy | Callable[[], Policy],
    problems: Problems,
    *,
    evaluator: Any = None,
    workers: int = 2,
    some: Collection[str] | None = None,
    folder: Path | None = None,
    about: Mapping[str, Any] | None = None,
    progress: bool = False,
    known: Verdicts | None = None,
    environment: Callable[[Any], Environment] | None = None,
    **asked: Any,
) -> list[EvalResult]:
    """Sample responses to each problem and judge them at every length.

    The model's training mode and the global random state are left as they were; the same seed gives
    the same responses.

    Args:
        model: what responds, see :mod:`mcbench.runs.sampling`, or what loads it where something is
            still to be sampled.
        evaluator: a :class:`mcbench.evaluator.Evaluator`; where None, one of its own with
            so many ``workers`` for what is still to be judged.
        some: ids of problems whose results alone come after those of all.
        folder: where samples and verdicts are kept, and an interrupted evaluation goes on.
        about: what else decides the result, such as hashes of model and problems, for the folder.
        known: verdicts of before, which are not found again; those found now are added.
        environment: makes what episodes of several turns are played in, given the evaluator; the
            model may write as many tokens as the longest of ``lengths``. None: one turn.
        asked: lengths, attempts, temperature, seed and style of prompts, see :class:`Asked`.

    Returns:
        One result per length, in the order given; then those of ``some``.

    Raises:
        UserError: as :class:`Asked`; there is no problem; the folder holds an evaluation with other
            settings, or cannot be written to.
    """
    how = Asked(**asked)
    check_any(problems)
    size = len(problems) if folder is None else max(CHUNK, -(-CHUNK_RESPONSES // how.attempts))
    if folder is not None:
        others = {} if size == CHUNK else {"chunk": size}
        _open(folder, {**(about or {}), **vars(how), **others})
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack, tqdm(total=len(problems), disable=not progress) as bar:
        for number, first in enumerate(range(0, len(problems), size)):
            file = None if folder is None else folder / "samples" / f"{number:05}.jsonl"
            if file is not None and file.exists():
                new = read_lines(file)
            else:
                model = model() if callable(model) else model
                evaluator = evaluator or stack.enter_context(Evaluator(workers=workers))
                # Far apart in a folder: samplers may count on from the seed, one a response.
                own = how.seed if file is None else how.seed * 1_000_003 + number * 65_537
                part = _part(problems, first, first + size)
                played = environment and environment(evaluator)
                tell = _within(bar, len(part)) if progress else None
                new = _rows(model, part, evaluator, known, played, replace(how, seed=own), tell)
                if file is not None:
                    write_atomic(file, "".join(json.dumps(plain(row)) + "\n" for row in new))
            rows += new
            _move(bar, len(rows))
    chosen = [rows] if some is None else [rows, [row for row in rows if row["id"] in some]]
    return [
        _result(those, length, how, _parts(rows, length))
        for those in chosen
        for length in how.lengths
    ]


def _within(bar: Any, count: int) -> Callable[[float], None]:
    """Moves the bar over the next ``count`` problems by the share of them that is sampled."""
    start = bar.n
    return lambda share: _move(bar, start + share * count)


def _move(bar: Any, to: float) -> None:
    bar.update(round(to, 1) - bar.n)


def _parts(rows: Sequence[Mapping[str, Any]], length: int) -> dict[str, float]:
    """The means of what a task told of the chunks of problems."""
    told = [row["parts"][str(length)] for row in rows if "parts" in row]
    names = dict.fromkeys(name for one in told for name in one)
    return {name: float(np.mean([one[name] for one in told if name in one])) for name in names}


def check_any(problems: Problems) -> None:
    """Refuse a set without problems, before anything is loaded."""
    if not len(problems):
        raise UserError("the problem set is empty; at least one problem is needed")


def _open(folder: Path, settings: dict[str, Any]) -> None:
    """Begin an evaluation in a folder, or see that it is the one that was begun there."""
    about = folder / "evaluation.json"
    wanted = json.loads(json.dumps(settings))
    if not about.exists():
        make_writable(folder / "samples", "folder")
        write_json(about, wanted)
        return
    found = json.loads(about.read_text())
    # What is usual is not written, so that a key may be on either side alone.
    changed = sorted(k for k in {*found, *wanted} if found.get(k) != wanted.get(k))
    if changed:
        raise UserError(
            f"{folder} holds an evaluation with another {changed[0]} "
            f"({found.get(changed[0])!r}, now {wanted.get(changed[0])!r}); name another folder"
        )


def sample(
    model: Policy,
    problems: Sequence[Problem],
    how: Asked,
    progress: Callable[[float], None] | None = None,
) -> list[list[int]]:
    """Responses to every problem, up to the longest length: token ids.

    Response i belongs to problem i // attempts.
    """
    prompts = [prompt_for(problem, how.prompt_style) for problem in problems]
    limit = max(how.lengths)
    return model.respond(prompts, how.attempts, limit, how.temperature, how.seed, progress)


def _rows(
    model: Policy,
    problems: Sequence[Problem],
    evaluator: Any,
    known: Verdicts | None,
    environment: Environment | None,
    how: Asked,
    progress: Callable[[float], None] | None,
) -> list[dict[str, Any]]:
    """What is kept of every problem: what it is, and its responses with their verdicts."""
    attempts = how.attempts
    if environment is not None:
        each = [problem for problem in problems for _ in range(attempts)]
        drawn = how.temperature, how.seed
        episodes = {
            n: evaluation_episodes(model, environment, each, n, *drawn) for n in how.lengths
        }
        return _played(model, problems, episodes, attempts)
    responses = sample(model, problems, how, progress)
    texts = {length: model.texts([ids[:length] for ids in responses]) for length in how.lengths}
    task = task_of(problems)
    parts: dict[int, list[dict[str, float]]] = {}
    if task.judge is None:
        verdicts = judge(evaluator, problems, texts, attempts, known)
    else:
        verdicts, parts = judge_task(task, evaluator, problems, texts, attempts)
    ended = [bool(one) and one[-1] in model.ends for one in responses]
    return _as_rows(problems, responses, ended, texts, verdicts, parts, attempts)


def _played(
    model: Policy,
    problems: Sequence[Problem],
    episodes: Mapping[int, Sequence[Episode]],
    attempts: int,
) -> list[dict[str, Any]]:
    """What is kept of episodes, by length: tokens are the model's own, those of the longest; the
    text has what it was told too.
    """
    longest = episodes[max(episodes)]
    own = [[t for t, o in zip(one.ids, one.own, strict=True) if o] for one in longest]
    ended = [not one.truncated for one in longest]
    texts = {n: model.texts([one.ids for one in found]) for n, found in episodes.items()}
    verdicts = {n: [one.verdicts for one in found] for n, found in episodes.items()}
    places = range(0, len(longest), attempts)
    parts = {
        n: [episode_means(found[i : i + attempts]) for i in places] for n, found in episodes.items()
    }
    return _as_rows(problems, own, ended, texts, verdicts, parts, attempts)


def _as_rows(
    problems: Sequence[Problem],
    responses: Sequence[Sequence[int]],
    ended: Sequence[bool],
    texts: Mapping[int, list[str]],
    verdicts: Mapping[int, list[str]],
    parts: Mapping[int, list[dict[str, float]]],
    attempts: int,
) -> list[dict[str, Any]]:
    lengths, longest = list(texts), texts[max(texts)]
    rows = []
    for index, problem in enumerate(problems):
        mine = range(index * attempts, (index + 1) * attempts)
        groups = {length: [[responses[i][:length] for i in mine]] for length in lengths}
        rows.append(
            {
                "id": problem.id,
                "form": problem.form,
                "difficulty": problem.difficulty,
                "kind": problem.kind,
                "attempts": [
                    {
                        "text": longest[i],
                        "tokens": len(responses[i]),
                        "ended": ended[i],
                        "verdicts": {str(length): verdicts[length][i] for length in lengths},
                    }
                    for i in mine
                ],
                "distinct_4": {str(n): distinct_n(group, (4,))[4] for n, group in groups.items()},
                "distinct_4_first": {str(n): distinct_4_first(g) for n, g in groups.items()},
                "unique_programs": {
                    str(n): unique_share([[program_key(extract_code(t[i])) for i in mine]])
                    for n, t in texts.items()
                },
                **({"parts": {str(n): told[index] for n, told in parts.items()}} if parts else {}),
            }
        )
    return rows


def judge_task(
    task: Task,
    evaluator: Any,
    problems: Sequence[Problem],
    texts: Mapping[int, list[str]],
    attempts: int,
) -> tuple[dict[int, list[str]], dict[int, list[dict[str, float]]]]:
    """As :func:`judge` for any other task; and by length what it tells of every problem, the first
    of which also has what it tells of all.
    """
    places = [(index, text) for rows in texts.values() for index, text in _placed(rows, attempts)]
    distinct = list(dict.fromkeys(places))
    assert task.judge is not None
    found = task.judge(
        [problems[index] for index, _ in distinct], [text for _, text in distinct], TESTS, evaluator
    )
    judged: dict[tuple[int, str], Judged] = dict(zip(distinct, found, strict=True))
    verdicts, told = {}, {}
    for length, rows in texts.items():
        mine = [judged[key] for key in _placed(rows, attempts)]
        verdicts[length] = [one.verdict for one in mine]
        groups = [mine[i : i + attempts] for i in range(0, len(mine), attempts)]
        told[length] = [dict(means(group)) for group in groups]
        if task.summary is not None:
            responses = [rows[i : i + attempts] for i in range(0, len(rows), attempts)]
            told[length][0] |= task.summary(problems, responses, evaluator)
    return verdicts, told


def _placed(rows: Sequence[str], attempts: int) -> list[tuple[int, str]]:
    """Of every response the place of its problem, and its text."""
    return [(i // attempts, text) for i, text in enumerate(rows)]


def judge(
    evaluator: Any,
    problems: Sequence[Problem],
    texts: Mapping[int, list[str]],
    attempts: int,
    known: Verdicts | None = None,
) -> dict[int, list[str]]:
    """Verdicts by length for every response, such as "AC,WA"; :func:`passed` reads them.

    Response i belongs to problem i // attempts. Equal programs for one problem run once, which also
    covers every response that ended before the shortest length, and those in ``known`` not at all.
    """
    known = {} if known is None else known
    keys = {
        length: [(i // attempts, extract_code(text)) for i, text in enumerate(rows)]
        for length, rows in texts.items()
    }
    programs = dict.fromkeys(key for rows in keys.values() for key in rows if key[1] is not None)
    found = {
        (index, code): known[problems[index].id, code]
        for index, code in programs
        if (problems[index].id, code) in known
    }
    new = [key for key in programs if key not in found]
    submissions = [problems[index].submission(code or "") for index, code in new]
    results = evaluator.evaluate(submissions, early_exit=True) if submissions else []
    for (index, code), result in zip(new, results, strict=True):
        found[index, code] = ",".join(result.verdicts)
        if "IE" not in result.verdicts:  # our own failure says nothing of the program
            known[problems[index].id, code] = found[index, code]
    return {length: [found.get(key, NO_CODE) for key in rows] for length, rows in keys.items()}


def passed(verdicts: str) -> bool | None:
    """Whether a response passed; None where our own infrastructure failed (IE)."""
    found = set(verdicts.split(","))
    return None if "IE" in found else found == {"AC"}


def _result(
    rows: Sequence[Mapping[str, Any]], length: int, how: Asked, parts: dict[str, float]
) -> EvalResult:
    """The scores at one length."""
    per_problem = []
    for row in rows:
        judged = [passed(attempt["verdicts"][str(length)]) for attempt in row["attempts"]]
        judged = [one for one in judged if one is not None]
        known = {name: row[name] for name in ("id", "form", "difficulty", "kind")}
        per_problem.append({**known, "passes": sum(map(bool, judged)), "attempts": len(judged)})
    every = [attempt for row in rows for attempt in row["attempts"]]
    return EvalResult(
        max_completion_length=length,
        temperature=how.temperature,
        attempts=how.attempts,
        pass_at_1=mean_pass_at(per_problem, 1),
        mean_length=float(np.mean([min(one["tokens"], length) for one in every])),
        truncated_share=float(
            np.mean([one["tokens"] > length or not one["ended"] for one in every])
        ),
        distinct_4=_mean(rows, "distinct_4", length),
        distinct_4_first=_mean(rows, "distinct_4_first", length),
        unique_programs=_mean(rows, "unique_programs", length),
        per_problem=tuple(per_problem),
        parts=parts,
    )


def _mean(rows: Sequence[Mapping[str, Any]], name: str, length: int) -> float:
    """Over problems, of those that have a value; older folders have fewer names."""
    found = [row.get(name, {}).get(str(length)) for row in rows]
    found = [value for value in found if value is not None and not math.isnan(value)]
    return float(np.mean(found)) if found else float("nan")


def _part(problems: Problems, first: int, last: int) -> Sequence[Problem]:
    """Some of the problems, with their tests."""
    if isinstance(problems, BenchmarkSet):
        return problems.problems(first, last)
    return problems[first:last]
