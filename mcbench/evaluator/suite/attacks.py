"""Programs that try to be accepted without solving the problem, or to harm the judge."""

from __future__ import annotations

from mcbench.evaluator.suite.cases import ProgramCase

ATTACKS: tuple[ProgramCase, ...] = ()
