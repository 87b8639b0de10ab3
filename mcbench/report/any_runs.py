"""A comparison of any runs as a notebook that is already executed, for a page of its own.

It has what a notebook over these runs would have: the call, the first screen, every panel that
there is, the claims, responses, and where all of it comes from.
"""

from __future__ import annotations

from typing import Any

from mcbench.report.claims import claim_sections, our_sections
from mcbench.report.display import Output, cell_outputs, head_output, outputs_of
from mcbench.report.experiment import block_of
from mcbench.report.head import head_of
from mcbench.report.own_panels import TABLES
from mcbench.report.page import Panel, slug
from mcbench.report.panels import PANELS, SECTIONS
from mcbench.report.provenance import provenance
from mcbench.report.samples import samples_of
from mcbench.report.sources import Sources

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
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells: list[Any] = []

    def prose(text: str) -> None:
        cells.append(new_markdown_cell(text, id=f"prose-{len(cells)}"))

    def code(source: str, outputs: list[Output]) -> None:
        made = new_code_cell(source, outputs=cell_outputs(outputs), id=f"code-{len(cells)}")
        made.execution_count = len(cells)
        cells.append(made)

    prose("# A comparison of runs")
    code(call, [head_output(head_of(sources))])
    prose(HOW_TO_READ)
    results = sources.results
    if results:
        prose("## Claims")
        told = [*claim_sections(results), *our_sections(results)]
        code("study.claims()", outputs_of(*told))
    for size, study in zip(sources.sizes, sources.studies, strict=True):
        several = f": {size}" if len(sources.studies) > 1 else ""
        for section in SECTIONS:
            names = [name for name, kind in PANELS.items() if kind.section == section]
            names += ["coverage"] if section == SECTIONS[0] else []
            blocks = [block_of(sources.at(study), name) for name in names]
            shown = [one for one in blocks if not (isinstance(one, Panel) and one.is_empty)]
            absent = [one.title for one in blocks if isinstance(one, Panel) and one.is_empty]
            if not shown:
                continue
            prose(f"## {section}{several}")
            if absent:
                prose(f"Not recorded in these runs: {', '.join(absent)}.")
            source = f"study.show({', '.join(map(repr, names))})"
            code(source, outputs_of(*shown, prefix=slug(size)))
    prose(f"## Table 1\n\n{TABLE}")
    source = f"study.show({', '.join(map(repr, TABLES))})"
    code(source, outputs_of(*(block_of(sources, name) for name in TABLES)))
    found = [samples_of(size, slug(size), arms) for size, arms in sources.sizes.items()]
    if any(found):
        prose("## Responses")
        code("study.samples()", outputs_of(*filter(None, found)))
    prose("## Where this comes from")
    code("study.provenance()", outputs_of(provenance(sources.sizes)))
    return new_notebook(cells=cells)
