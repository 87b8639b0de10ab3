"""MicroCoder-Evaluator: run programs safely, compare their answers, reward a model for them."""

from mcbench.evaluator.audit import AuditedCodeReward
from mcbench.evaluator.evaluator import Evaluator
from mcbench.evaluator.extract import extract_code
from mcbench.evaluator.reward import AsyncCodeReward, CodeReward
from mcbench.evaluator.rule_sets import outputs_match
from mcbench.evaluator.submission import (
    AssertTest,
    CallTest,
    CheckerProgram,
    Result,
    StdioTest,
    Submission,
    TestResult,
)

__all__ = [
    "AssertTest",
    "AsyncCodeReward",
    "AuditedCodeReward",
    "CallTest",
    "CheckerProgram",
    "CodeReward",
    "Evaluator",
    "Result",
    "StdioTest",
    "Submission",
    "TestResult",
    "extract_code",
    "outputs_match",
]
