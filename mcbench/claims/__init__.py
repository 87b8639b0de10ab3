"""The 34 claims of the paper, eleven of its rivals, sixteen questions of our own, and what
the systems of :mod:`mcbench.worlds` claim:
``assess(experiment, runs)``.

A claim is a row (``paper.toml``, ``rivals.toml``, ``questions.toml``, ``landscape.toml``; read by
:mod:`.table`) of contrasts, which are formulas over arms (:mod:`.contrast`); :mod:`.in_code` is
what no formula says. :mod:`.rules` decides, :mod:`.margins` is what counts as no effect,
:mod:`.protocol` which seeds count, :mod:`.measurements` what claims need beside run records.
:mod:`.round_2` is the second, registered family.
"""

from mcbench.claims.assess import Result, assess
from mcbench.claims.claim import Claim
from mcbench.claims.contrast import Contrast
from mcbench.claims.measurements import add_measurements, read_measurements
from mcbench.claims.rules import STATES
from mcbench.claims.table import CLAIMS, arms_elsewhere, claims_of, read_claims

__all__ = [
    "CLAIMS",
    "STATES",
    "Claim",
    "Contrast",
    "Result",
    "add_measurements",
    "arms_elsewhere",
    "assess",
    "claims_of",
    "read_claims",
    "read_measurements",
]
