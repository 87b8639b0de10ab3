"""What a labelled case is. Labels come from the rules of contests and of Python, not from runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcbench.evaluator.submission import Submission, Test


@dataclass(frozen=True)
class ComparisonCase:
    """An expected and an actual output, and whether it is ``right``: a judge would call it a match.

    Text if both are str, values otherwise. ``options`` are the problem's own rules, as keyword
    arguments of `mcbench.evaluator.outputs_match`.
    """

    id: str
    group: str
    expected: Any
    actual: Any
    right: bool
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProgramCase:
    """A program with its tests and the verdicts that are right for it.

    ``verdicts`` are those allowed for the test that decides, the first that is not accepted:
    ("AC",) for a right program, which every test must accept.
    """

    id: str
    group: str
    code: str
    tests: tuple[Test, ...]
    verdicts: tuple[str, ...]
    time_limit_s: float = 2.0
    memory_limit_mb: float = 512

    @property
    def submission(self) -> Submission:
        """The program as the evaluator takes it."""
        return Submission(self.code, self.tests, self.time_limit_s, self.memory_limit_mb)

    @property
    def right(self) -> bool:
        """Whether the program solves its problem."""
        return self.verdicts == ("AC",)
