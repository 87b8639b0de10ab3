"""A finished run as one small file, for keeping in a repository.

A parquet table with two columns: ``table`` (``meta``, ``step`` or ``eval``) and ``row``, the JSON
line as the run recorded it. Reading back gives the same record, without the stored responses and
the model. Equal records give equal bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcbench.errors import UserError
from mcbench.lab.store import Run, RunRecord, read_run


def write_compact(run: Run | RunRecord | str | Path, path: str | Path) -> Path:
    """Write the compact form of a finished run to ``path``.

    ``path`` may be a folder: the file is then named after the run.

    Raises:
        UserError: the run is not finished.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(run, Run):
        run = run.path
    record = run if isinstance(run, RunRecord) else read_run(run)
    if record.state != "finished":
        raise UserError(f"run {record.run_id} is {record.state}; only finished runs are kept")
    rows = [("meta", record.meta)]
    rows += [("step", line) for line in record.step_lines]
    rows += [("eval", line) for line in record.eval_lines]
    path = Path(path)
    if path.is_dir():
        path = path / f"{record.run_id}.parquet"
    table = pa.table(
        {"table": [kind for kind, _ in rows], "row": [json.dumps(row) for _, row in rows]}
    )
    pq.write_table(table, path, compression="zstd", compression_level=19)
    return path


def read_compact(path: str | Path) -> RunRecord:
    """Read a compact file.

    Raises:
        UserError: no such file, or it is no compact record.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns: dict[str, list[str]] = pq.read_table(path).to_pydict()
        parsed = [
            (kind, json.loads(row))
            for kind, row in zip(columns["table"], columns["row"], strict=True)
        ]
        meta: dict[str, Any] = next(row for kind, row in parsed if kind == "meta")
    except FileNotFoundError:
        raise UserError(f"record {path} does not exist") from None
    except (pa.ArrowInvalid, KeyError, ValueError, StopIteration) as error:
        raise UserError(f"{path} is no compact run record: {error}") from error
    return RunRecord(
        meta=meta,
        step_lines=[row for kind, row in parsed if kind == "step"],
        eval_lines=[row for kind, row in parsed if kind == "eval"],
        path=Path(path),
    )


def read_record(path: str | Path) -> RunRecord:
    """A run directory or a compact file, whichever ``path`` is."""
    return read_run(path) if Path(path).is_dir() else read_compact(path)
