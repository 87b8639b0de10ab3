"""Labelled comparison cases."""

from __future__ import annotations

from mcbench.evaluator.suite.cases import ComparisonCase

COMPARISONS: tuple[ComparisonCase, ...] = ()
