"""Labelled comparisons of printed output and returned values, from ``comparisons.txt``."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.suite.cases import ComparisonCase
from benchmarks.suite.reader import blocks, values

_LABELS = {"match": True, "differ": False}


def _comparisons() -> Iterator[ComparisonCase]:
    for group, lines in blocks("comparisons"):
        name = group.replace(",", "").replace(" ", "-")
        for number, line in enumerate(filter(None, lines.split("\n")), start=1):
            label, _, case = line.partition(" ")
            expected, actual, *options = values(case)
            yield ComparisonCase(
                f"{name}-{number}", group, expected, actual, _LABELS[label], *options
            )


COMPARISONS: tuple[ComparisonCase, ...] = tuple(_comparisons())
