"""The labelled suite: what an evaluator must accept and what it must refuse."""

from benchmarks.suite.attacks import ATTACKS
from benchmarks.suite.cases import ComparisonCase, ProgramCase
from benchmarks.suite.comparison import COMPARISONS
from benchmarks.suite.execution import EXECUTIONS

__all__ = ["ATTACKS", "COMPARISONS", "EXECUTIONS", "ComparisonCase", "ProgramCase"]
