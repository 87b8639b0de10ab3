"""The 34 claims of the paper, eleven of its rivals, sixteen questions of our own, and what
the systems of :mod:`mcbench.tasks` claim:
``assess(experiment, runs)``.

One module a section holds claims and their statistics, :mod:`.rivals` what other papers claim,
:mod:`.ours` the questions, which predict no direction, :mod:`.landscape` the last; :mod:`.rules`
the rules that decide, :mod:`.measurements` what claims need beside run records, :mod:`.margins`
what counts as no effect, :mod:`.protocol` which seeds count.
"""

# isort: off
# Importing a section registers its claims, so this is their order in CLAIMS.
from mcbench.claims import evaluator, temperature, data, context, mask, batch, kl  # noqa: F401
from mcbench.claims import rivals, ours, landscape, dense, feedback, recipes  # noqa: F401

# isort: on
from mcbench.claims.assess import Result, assess
from mcbench.claims.claim import CLAIMS, Claim, arms_elsewhere, claims_of
from mcbench.claims.measurements import add_measurements, grid_measurements, read_measurements
from mcbench.claims.rules import STATES

__all__ = [
    "CLAIMS",
    "STATES",
    "Claim",
    "Result",
    "add_measurements",
    "arms_elsewhere",
    "assess",
    "claims_of",
    "grid_measurements",
    "read_measurements",
]
