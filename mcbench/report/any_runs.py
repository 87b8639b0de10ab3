"""A comparison of any runs as a notebook that is already executed, for a page of its own.

It has what a notebook over these runs would have: the call, the first screen, every panel that
there is, the claims, responses, and where all of it comes from.
"""

from __future__ import annotations

from typing import Any

from mcbench.report.claims import claim_sections, our_sections
from mcbench.report.display import Output, cell_outputs, head_output, outputs_of
from mcbench.report.experiment import COVERAGE, block_of
from mcbench.report.head import head_of
from mcbench.report.page import slug
from mcbench.report.panels import PANELS, SECTIONS
from mcbench.report.provenance import provenance
from mcbench.report.samples import samples_of
from mcbench.report.sources import Sources
from mcbench.report.table import paper_table, results_table

HOW_TO_READ = (
    "Thin lines are seeds, the bold line is their mean, the band its 95 % t interval (from three "
    "seeds on); in per-step figures the bold line is a running mean, and the bar above sets its "
    "width."
)
TABLE = (
    "Δ is MicroCoder-GRPO minus the best other arm, cell by cell, as in the paper. The two tables "
    "have one shape so that they can be read side by side; their numbers are about different "
    "models and problems and are not comparable."
)


def notebook_of(sources: Sources, call: str) -> Any:
    """The executed notebook (nbformat).

    Args:
        sources: the comparison, one study a size of model.
        call: what made it, shown as it is.
    """
    from nbformat.v4 import new_notebook

    made = _Cells()
    made.prose("# A comparison of runs")
    made.code(call, [head_output(head_of(sources))])
    made.prose(HOW_TO_READ)
    if results := sources.results:
        made.prose("## Claims")
        told = [*claim_sections(results), *our_sections(results)]
        made.code("study.claims()", outputs_of(*told))
    for size, study in zip(sources.sizes, sources.studies, strict=True):
        several = f": {size}" if len(sources.studies) > 1 else ""
        for section in SECTIONS:
            _panels(made, f"{section}{several}", section, sources.at(study), slug(size))
    if scores := results_table(sources.sizes):
        made.prose(f"## Table 1\n\n{TABLE}")
        made.code("study.scores()\nshow(paper_table())", outputs_of(scores, paper_table()))
    found = [samples_of(size, slug(size), arms) for size, arms in sources.sizes.items()]
    if any(found):
        made.prose("## Responses")
        made.code("study.samples()", outputs_of(*filter(None, found)))
    made.prose("## Where this comes from")
    made.code("study.provenance()", outputs_of(provenance(sources.sizes)))
    return new_notebook(cells=made.cells)


class _Cells:
    """The cells so far."""

    def __init__(self) -> None:
        self.cells: list[Any] = []

    def prose(self, text: str) -> None:
        from nbformat.v4 import new_markdown_cell

        self.cells.append(new_markdown_cell(text, id=f"prose-{len(self.cells)}"))

    def code(self, source: str, outputs: list[Output]) -> None:
        from nbformat.v4 import new_code_cell

        count = len(self.cells)
        made = new_code_cell(source, outputs=cell_outputs(outputs), id=f"code-{count}")
        made.execution_count = count
        self.cells.append(made)


def _panels(made: _Cells, title: str, section: str, sources: Sources, prefix: str) -> None:
    """The shared panels of a section, those without anything to show in a sentence."""
    names = [name for name, kind in PANELS.items() if kind.section == section]
    names += [COVERAGE] if section == SECTIONS[0] else []
    blocks = {name: block_of(sources, name) for name in names}
    shown = {name: one for name, one in blocks.items() if not one.is_empty}
    if not shown:
        return
    made.prose(f"## {title}")
    if empty := [one.title for one in blocks.values() if one.is_empty]:
        made.prose(f"Not recorded in these runs: {', '.join(empty)}.")
    call = f"study.show({', '.join(map(repr, shown))})"
    made.code(call, outputs_of(*shown.values(), prefix=prefix))
