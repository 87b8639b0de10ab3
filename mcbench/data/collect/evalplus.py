"""HumanEval+ and MBPP+ of EvalPlus, as the hub has them: tests like HumanEval's, or all in one
module. Its releases as JSON, which knows neither tuples nor sets, are not read.
"""

from __future__ import annotations

from mcbench.data.collect.adapter import Adapter
from mcbench.data.collect.functions import humaneval_row, mbpp_row

HUMANEVAL_PLUS, MBPP_PLUS = (
    Adapter(
        name=f"{base}plus",
        about=f"{title} of EvalPlus (https://huggingface.co/datasets/evalplus/{base}plus)",
        repo=f"evalplus/{base}plus",
        licence="Apache-2.0",
        time_limit_s=6.0,
        subsets={"test": ("data/test-*.parquet", f"{stem}*.jsonl.gz", f"{stem}*.jsonl")},
        needs=("task_id", "prompt", solution, "test"),
        columns={"id": "task_id"},
        reads=("canonical_solution", "entry_point", "test_list", "test_imports"),
        tests=tests,
    )
    for base, title, stem, solution, tests in (
        ("humaneval", "HumanEval+", "HumanEvalPlus", "entry_point", humaneval_row),
        ("mbpp", "MBPP+", "MbppPlus", "code", mbpp_row),
    )
)
