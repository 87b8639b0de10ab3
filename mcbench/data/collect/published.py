"""The published sets: ``sources.toml``, and the functions that add the tests of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcbench.data.collect import functions, listed, livecodebench, problem_package
from mcbench.data.collect.adapter import Adapter, RowReader
from mcbench.files import rows_beside

ROWS: dict[str, Callable[[dict[str, Any], RowReader], dict[str, Any]]] = {
    "codeforces": listed.codeforces_row,
    "contests": listed.contests_row,
    "deepcoder": listed.deepcoder_row,
    "humaneval": functions.humaneval_row,
    "kodcode": functions.kodcode_row,
    "leetcode": functions.leetcode_row,
    "lists": listed.lists_row,
    "livecodebench": livecodebench.livecodebench_row,
    "mbpp": functions.mbpp_row,
    "package": problem_package.package_row,
    "verifiable": listed.verifiable_row,
}
_BELONGS = {"mbpp": functions.in_mbpp_split}


def _adapter(name: str, about: dict[str, Any]) -> Adapter:
    rows, subsets = about.pop("rows"), about.pop("subsets")
    given: dict[str, Any] = {
        key: tuple(one) if isinstance(one, list) else one for key, one in about.items()
    }
    return Adapter(
        name=name,
        tests=ROWS[rows],
        subsets={subset: tuple(files) for subset, files in subsets.items()},
        belongs=_BELONGS.get(name),
        **given,
    )


ADAPTERS: dict[str, Adapter] = {
    name: _adapter(name, about) for name, about in rows_beside(__file__, "sources.toml").items()
}
PROBLEM_PACKAGE = ADAPTERS["problem-package"]
