"""The 34 insights of the paper as executable claims: ``INSIGHTS[id].assess(records)``.

Beside them :data:`QUESTIONS`, our own, which predict nothing: ``QUESTIONS[id].answer(records)``.
One module a section; :mod:`.verdict` holds how a claim is decided, :mod:`.measurements` what it
needs beside run records. :mod:`mcbench.experiments.arms` says which runs it compares.
"""

from mcbench.claims import batch, context, data, evaluator, kl, mask, temperature
from mcbench.claims.measurements import (
    grid_measurements,
    read_measurements,
    write_measurements,
)
from mcbench.claims.questions import QUESTIONS, Answer, Question, question_rows
from mcbench.claims.verdict import (
    STATES,
    Insight,
    Verdict,
    assess_all,
    count_states,
    summary_rows,
)
from mcbench.experiments.arms import ARMS

INSIGHTS: dict[str, Insight] = {
    insight.id: insight
    for section in (evaluator, temperature, data, context, mask, batch, kl)
    for insight in section.INSIGHTS
}

__all__ = [
    "ARMS",
    "INSIGHTS",
    "QUESTIONS",
    "STATES",
    "Answer",
    "Insight",
    "Question",
    "Verdict",
    "assess_all",
    "count_states",
    "grid_measurements",
    "question_rows",
    "read_measurements",
    "summary_rows",
    "write_measurements",
]
