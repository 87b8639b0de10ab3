"""Pass rates of a model on a problem set, for the difficulty stage of a build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcbench.files import make_writable, write_atomic
from mcbench.runs.evaluate_command import evaluate_request


def calibrate(problems: str, model: str, out: Path, **options: Any) -> str:
    """Sample and judge as ``mcbench evaluate`` does, and write JSON lines {"id", "pass_rate"}.

    What was sampled is kept, so that an interrupted measurement goes on. A problem of which every
    attempt ended with our own infrastructure's failure has no rate.

    Returns:
        What was measured, and how a build uses it.

    Raises:
        UserError: as :func:`mcbench.runs.evaluate_command.evaluate_request`.
    """
    make_writable(out.parent, "the folder of --out,")
    (result,) = evaluate_request(model, problems, **options)
    rows = [row for row in result.per_problem if row["attempts"]]
    lines = ({"id": row["id"], "pass_rate": row["passes"] / row["attempts"]} for row in rows)
    write_atomic(out, "".join(json.dumps(line) + "\n" for line in lines))
    always = sum(row["passes"] == row["attempts"] for row in rows)
    never = sum(row["passes"] == 0 for row in rows)
    return (
        f"{len(rows)} problems measured, {always} always and {never} never solved; "
        f"written to {out}\n"
        f"in a build's configuration: difficulty: {{pass_rates: {out}}}"
    )
