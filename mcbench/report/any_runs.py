"""A comparison of any runs as a notebook that is already executed, for a page of its own.

It has what a notebook over these runs would have: the call, the first screen, every panel that
there is, the claims, responses, and where all of it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcbench.report.claims import claim_sections, our_sections
from mcbench.report.display import Output, cell_outputs, head_output, outputs_of
from mcbench.report.head import head_of
from mcbench.report.page import slug
from mcbench.report.panels import COVERAGE, PANELS, SECTIONS
from mcbench.report.provenance import provenance
from mcbench.report.samples import samples_of
from mcbench.report.sources import Sources, block_of
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
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells = []
    for number, (text, outputs) in enumerate(_cells(sources, call)):
        if outputs is None:
            cells.append(new_markdown_cell(text, id=f"prose-{number}"))
        else:
            ran = {"outputs": cell_outputs(outputs), "execution_count": number}
            cells.append(new_code_cell(text, id=f"code-{number}", **ran))
    return new_notebook(cells=cells)


_Cell = tuple[str, list[Output] | None]
"""Prose, or code with what it showed."""


def _cells(sources: Sources, call: str) -> Iterator[_Cell]:
    yield "# A comparison of runs", None
    yield call, [head_output(head_of(sources))]
    yield HOW_TO_READ, None
    if results := sources.results:
        yield "## Claims", None
        yield "study.claims()", outputs_of(*claim_sections(results), *our_sections(results))
    for size, study in zip(sources.sizes, sources.studies, strict=True):
        several = f": {size}" if len(sources.studies) > 1 else ""
        for section in SECTIONS:
            yield from _panels(f"{section}{several}", section, sources.at(study), slug(size))
    if scores := results_table(sources.sizes):
        yield f"## Table 1\n\n{TABLE}", None
        yield "study.scores()\nshow(paper_table())", outputs_of(scores, paper_table())
    found = [samples_of(size, slug(size), arms) for size, arms in sources.sizes.items()]
    if any(found):
        yield "## Responses", None
        yield "study.samples()", outputs_of(*filter(None, found))
    yield "## Where this comes from", None
    yield "study.provenance()", outputs_of(provenance(sources.sizes))


def _panels(title: str, section: str, sources: Sources, prefix: str) -> Iterator[_Cell]:
    """The shared panels of a section, those without anything to show in a sentence."""
    names = [name for name, kind in PANELS.items() if kind.section == section]
    names += [COVERAGE] if section == SECTIONS[0] else []
    blocks = {name: block_of(sources, name) for name in names}
    shown = {name: one for name, one in blocks.items() if not one.is_empty}
    if not shown:
        return
    yield f"## {title}", None
    if empty := [one.title for one in blocks.values() if one.is_empty]:
        yield f"Not recorded in these runs: {', '.join(empty)}.", None
    call = f"study.show({', '.join(map(repr, shown))})"
    yield call, outputs_of(*shown.values(), prefix=prefix)
