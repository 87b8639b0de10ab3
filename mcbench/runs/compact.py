"""A finished run as one small file, for keeping in a repository.

A parquet table with two columns, ``table`` and ``row``. Rows of the tables ``meta`` and ``eval``
are JSON lines as the run recorded them, reals with six digits. A row of ``column`` is what all
updates logged under one name, reals with the digits of :func:`_digits`: about half of what lines
would take. What only grows stands as differences; the hour of each update is left out, and so is
what no figure reads and what follows from other columns (:data:`_LEFT_OUT`). ``sample`` are a few
whole groups of the stored responses: the first :data:`SAMPLE_GROUPS` prompts of the first, a middle
and the last generation, chosen without a look at what they hold. Equal records give equal bytes.

``passes`` are those of all evaluations of the same problems, problem by problem: next to each other
they are more alike. What many records share stands once beside them, and they cannot be read
without it: what evaluations know of their problems, ``problems-DIGEST.json``, and what a run was
trained with, ``environment-DIGEST.json``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mcbench.errors import UserError
from mcbench.files import digest, plain, write_atomic
from mcbench.runs.store import Run, RunRecord, read_run

if TYPE_CHECKING:
    import pandas as pd

SAMPLE_GROUPS = 2
_GROWING = {"step": 0, "elapsed_s": 1}  # digits after the point
_NOISE = {"loss", "grad_norm", "clip_ratio/low_mean", "clip_ratio/high_mean"}
_LEFT_OUT = re.compile(
    r"time|time/update_s|num_tokens|reward_std|frac_reward_zero_std|clip_ratio/(low_min|high_max)"
    r"|completions/((min|max)_length|(mean|min|max)_terminated_length)"
    r"|mask/(eligible_any|truncated_incorrect)|rewards/.+/std"
)
_COUNTS = ("passes", "attempts")  # of a problem in one evaluation
_ENVIRONMENT = ("versions", "hardware", "processes", "sandbox")
OF_PROBLEM = {"id", "form", "difficulty", "kind"}  # what else is known of one
_OF_TOKENS = {"logprobs", "entropies", "log_ratios"}
SAMPLE_CHARACTERS = 4_000  # of a prompt or a response; what is cut is said in its place


def write_compact(run: Run | RunRecord, path: str | Path, samples: bool = True) -> Path:
    """Write the compact form of a finished run to ``path``, with or without its responses.

    ``path`` may be a folder: the file is then named after the run. What it shares with others and
    its folder lacks is written too.

    Raises:
        UserError: the run is not finished.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    record = read_run(run.path) if isinstance(run, Run) else run
    if record.state != "finished":
        raise UserError(f"run {record.run_id} is {record.state}; only finished runs are kept")
    shared: dict[str, str] = {}
    rows: list[tuple[str, Any]] = [("meta", _without_environment(record.meta, shared))]
    rows += [("column", one) for one in _columns(record.step_lines)]
    evals, passes = _without_problems(record.eval_lines, shared)
    rows += [("eval", _rounded(line)) for line in evals]
    rows += [("passes", one) for one in passes]
    if samples:
        rows += [("sample", line) for line in record.sample_lines or chosen_samples(record)]
    path = Path(path)
    if path.is_dir():
        path = path / f"{record.run_id}.parquet"
    texts = [json.dumps(row, separators=(",", ":")) for _, row in rows]
    table = pa.table({"table": [kind for kind, _ in rows], "row": texts})
    data = pa.BufferOutputStream()
    # A tenth smaller than by zstd. Statistics and dictionaries would hold the longest rows again.
    pq.write_table(
        table, data, compression="brotli", compression_level=11, write_statistics=False,
        use_dictionary=False, store_schema=False,
        column_encoding={"row": "DELTA_LENGTH_BYTE_ARRAY"},
    )  # fmt: skip
    for name, text in shared.items():
        if not (path.parent / name).exists():
            write_atomic(path.parent / name, text)
    write_atomic(path, data.getvalue().to_pybytes())
    return path


def _rounded(value: Any, digits: int = 6) -> Any:
    """Reals with so many digits."""
    if isinstance(value, dict):
        return {name: _rounded(one, digits) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one, digits) for one in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _columns(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By name what the lines hold, and which lines where not all do."""
    found: list[dict[str, Any]] = []
    names = dict.fromkeys(name for line in lines for name in line if not _LEFT_OUT.fullmatch(name))
    if "time/step_s" in names:
        names.pop("step_time", None)
    for name in names:
        if name.startswith("rewards/") and all(x.get(name) == x.get("reward") for x in lines):
            continue  # the only reward function
        at = [i for i, line in enumerate(lines) if name in line]
        values = [lines[i][name] for i in at]
        if name in _GROWING:
            values = [round(value, _GROWING[name]) for value in values]
            steps = [round(b - a, _GROWING[name]) for a, b in pairwise(values)]
            values = [*values[:1], *steps]
        else:
            values = _rounded(values, _digits(name))
        column = {"name": name, "values": values}
        found.append(column if len(at) == len(lines) else {**column, "at": at})
    return found


def _digits(name: str) -> int:
    """Fewer where it is noise, which figures draw and no claim reads."""
    if name.startswith("time/") or name == "step_time":
        return 2
    return 3 if name in _NOISE else 4


def _lines(columns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What :func:`_columns` was made from, but for the digits and the hours."""
    count = max((len(one["values"]) for one in columns if "at" not in one), default=0)
    lines: list[dict[str, Any]] = [{} for _ in range(count)]
    for one in columns:
        name, values = one["name"], one["values"]
        if name in _GROWING:
            values = [round(value, _GROWING[name]) for value in accumulate(values)]
        for i, value in zip(one.get("at", range(count)), values, strict=True):
            lines[i][name] = value
    return lines


def _share(kind: str, what: Any, shared: dict[str, str]) -> str:
    """The name of the file beside records that holds it, which is put into ``shared``."""
    text = json.dumps(what)
    name = f"{kind}-{digest([text])}.json"
    shared[name] = text
    return name


def _without_environment(meta: dict[str, Any], shared: dict[str, str]) -> dict[str, Any]:
    """What is known of a run, with the name of its environment's file in place of that."""
    own = {name: value for name, value in meta.items() if name not in _ENVIRONMENT}
    environment = {name: meta[name] for name in _ENVIRONMENT if name in meta}
    return {**own, "environment": _share("environment", environment, shared)}


def _without_problems(
    lines: Sequence[dict[str, Any]], shared: dict[str, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Evaluation lines with the attempts and the name of their problems' file alone; for each file
    the passes of its lines, a row a problem.
    """
    passes: dict[str, list[list[Any]]] = defaultdict(list)
    short = []
    for line in lines:
        if "per_problem" not in line:
            short.append(line)
            continue
        rows = line["per_problem"]
        known = [{k: v for k, v in row.items() if k not in _COUNTS} for row in rows]
        file = _share("problems", known, shared)
        passes[file].append([row["passes"] for row in rows])
        attempts = [row["attempts"] for row in rows]
        short.append({**line, "per_problem": {"problems": file, "attempts": attempts}})
    turned = [{"problems": file, "passes": [*zip(*of, strict=True)]} for file, of in passes.items()]
    return short, turned


class Problems(Sequence[dict[str, Any]]):
    """The problems of an evaluation: rows are made as they are asked for, as records have millions.

    Raises:
        ValueError: another number of problems than of counts.
    """

    def __init__(
        self, known: Sequence[dict[str, Any]], passes: list[Any], attempts: list[Any]
    ) -> None:
        if not len(known) == len(passes) == len(attempts):
            raise ValueError("not as many counts as problems")
        self._known, self.passes, self.attempts = known, passes, attempts

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        return {**self._known[at], "passes": self.passes[at], "attempts": self.attempts[at]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]


def _with_problems(
    line: dict[str, Any], folder: str, passes: Mapping[str, Iterator[tuple[Any, ...]]]
) -> dict[str, Any]:
    """A line as it was recorded; it takes its passes."""
    if "per_problem" not in line:
        return line
    found = line["per_problem"]
    name = found["problems"]
    known, counts = _problems(folder, name), list(next(passes[name], ()))
    return {**line, "per_problem": Problems(known, counts, found["attempts"])}


@cache
def _problems(folder: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _beside(folder, name)
    try:
        if not all(row.keys() >= OF_PROBLEM for row in found):
            raise ValueError(f"a problem lacks one of {', '.join(sorted(OF_PROBLEM))}")
    except (AttributeError, TypeError, ValueError) as error:
        raise _needs(Path(folder, name), error) from None
    return found


@cache
def _beside(folder: str, name: str) -> Any:
    """What records share, from its file."""
    path = Path(folder, name)
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise _needs(path, error) from None


def _needs(path: Path, error: Exception) -> UserError:
    return UserError(
        f"the records of {path.parent} need {path.name}, which is not there or damaged "
        f"({error}); copy it from where they were written"
    )


class Stored(Protocol):
    """What responses are read from."""

    def completion_steps(self) -> list[int]: ...
    def completions(self, step: int) -> pd.DataFrame: ...


def chosen_samples(record: Stored) -> list[dict[str, Any]]:
    """The responses that the compact form keeps, one line each; none where none are stored."""
    steps = record.completion_steps()
    kept = sorted({steps[0], steps[len(steps) // 2], steps[-1]}) if steps else []
    lines = []
    for step in kept:
        table = record.completions(step)
        for row in table[table["group"] < SAMPLE_GROUPS].to_dict("records"):
            columns = {str(name): value for name, value in row.items() if name != "tokens"}
            lines.append(plain({"step": step, **_cut(columns)}))
    return lines


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    """A response of bounded length; one that is cut has no token columns, which would not fit."""
    found = dict(row)
    for name in ("prompt", "completion"):
        text = str(row[name])
        if len(text) > SAMPLE_CHARACTERS:
            kept = SAMPLE_CHARACTERS - 40  # room for the remark: what was cut is not cut again
            found[name] = f"{text[:kept]}\n… ({len(text) - kept} more characters)"
            if name == "completion":
                found = {
                    k: v for k, v in found.items() if k not in ("pieces", "turns", *_OF_TOKENS)
                }
    for name in _OF_TOKENS & found.keys():  # of a ratio it is told whether it was clipped
        digits = 3 if name == "log_ratios" else 2
        found[name] = [round(float(value), digits) for value in found[name]]
    return found


def read_compact(path: str | Path) -> RunRecord:
    """Read a compact file.

    Raises:
        UserError: no such file, or it is no compact record.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns: dict[str, list[str]] = pq.read_table(path).to_pydict()
        rows: dict[str, list[Any]] = defaultdict(list)
        for kind, row in zip(columns["table"], columns["row"], strict=True):
            rows[kind].append(json.loads(row))
        (meta,) = rows["meta"]
        folder = str(Path(path).parent)
        meta |= _beside(folder, meta.pop("environment"))
        steps = _lines(rows["column"])
        passes = {one["problems"]: zip(*one["passes"], strict=True) for one in rows["passes"]}
        evals = [_with_problems(row, folder, passes) for row in rows["eval"]]
        known = all(isinstance(one, dict) for one in (meta, *rows["sample"]))
    except UserError:  # a file beside it
        raise
    except FileNotFoundError:
        raise UserError(f"record {path} does not exist") from None
    except (
        *(pa.ArrowException, OSError, AttributeError, RecursionError),
        *(LookupError, TypeError, ValueError),
    ) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is no compact run record: {reason}") from error
    if not known:
        raise UserError(f"{path} is no compact run record: it maps no names to values")
    return RunRecord(
        meta=meta,
        step_lines=steps,
        eval_lines=evals,
        path=Path(path),
        sample_lines=rows["sample"],
    )
