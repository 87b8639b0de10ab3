"""The adapters by name."""

from __future__ import annotations

from mcbench.data.collect.adapter import Adapter
from mcbench.data.collect.deepcoder import DEEPCODER
from mcbench.data.collect.functions import HUMANEVAL, KODCODE, MBPP
from mcbench.data.collect.livecodebench import LIVECODEBENCH
from mcbench.data.collect.open_r1 import CODEFORCES, VERIFIABLE
from mcbench.data.collect.problem_package import PROBLEM_PACKAGE
from mcbench.data.collect.taco import TACO

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        DEEPCODER,
        TACO,
        CODEFORCES,
        VERIFIABLE,
        LIVECODEBENCH,
        KODCODE,
        HUMANEVAL,
        MBPP,
        PROBLEM_PACKAGE,
    )
}
