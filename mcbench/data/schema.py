"""One programming problem, the form in which every part of mcbench passes it on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from mcbench.errors import UserError, unknown

FORMS = ("stdin", "call")
DIFFICULTIES = ("easy", "medium", "hard")

Form = Literal["stdin", "call"]
Difficulty = Literal["easy", "medium", "hard"]


@dataclass(frozen=True)
class Problem:
    """Statement, tests and metadata.

    ``form`` is ``stdin`` (a program reads standard input and prints, as on AtCoder) or ``call``
    (a method ``fn_name`` of ``class Solution``, as on LeetCode). A test has the keys ``stdin`` and
    ``expected``, or ``args`` and ``expected``; ``expected`` never leaves the trusted process.

    Raises:
        UserError: no tests, an unknown form or difficulty, a test that lacks a field.
    """

    id: str
    statement: str
    form: Form
    tests: tuple[dict[str, Any], ...]
    difficulty: Difficulty
    fn_name: str | None = None
    kind: str = ""
    source: str = ""
    reference: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise unknown("problem form", self.form, FORMS)
        if self.difficulty not in DIFFICULTIES:
            raise unknown("difficulty", self.difficulty, DIFFICULTIES)
        if not self.tests:
            raise UserError(f"problem {self.id!r} has no tests; at least one is needed to judge it")
        if self.form == "call" and not self.fn_name:
            raise UserError(f"problem {self.id!r} of form 'call' needs fn_name, the method to call")
        needed = {"stdin", "expected"} if self.form == "stdin" else {"args", "expected"}
        for number, test in enumerate(self.tests):
            if missing := needed - test.keys():
                raise UserError(f"test {number} of problem {self.id!r} lacks {sorted(missing)}")

    def to_row(self) -> dict[str, Any]:
        """A row of the dataset that TRL trains on; the tests travel as one JSON string."""
        return {
            "prompt": self.statement,
            "problem_id": self.id,
            "form": self.form,
            "fn_name": self.fn_name or "",
            "difficulty": self.difficulty,
            "kind": self.kind,
            "tests": json.dumps(list(self.tests)),
        }
