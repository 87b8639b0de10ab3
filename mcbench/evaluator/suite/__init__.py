"""The labelled suite: what an evaluator must accept and what it must refuse."""

from mcbench.evaluator.suite.attacks import ATTACKS
from mcbench.evaluator.suite.cases import ComparisonCase, ProgramCase
from mcbench.evaluator.suite.comparison import COMPARISONS
from mcbench.evaluator.suite.execution import EXECUTIONS

__all__ = ["ATTACKS", "COMPARISONS", "EXECUTIONS", "ComparisonCase", "ProgramCase"]
