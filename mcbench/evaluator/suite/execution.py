"""Right and wrong programs in every legal style, with the verdicts a contest judge gives."""

from __future__ import annotations

from mcbench.evaluator.suite.cases import ProgramCase

EXECUTIONS: tuple[ProgramCase, ...] = ()
