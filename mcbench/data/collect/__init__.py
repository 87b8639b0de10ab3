"""Collect: published sets of problems, read as they are published.

An adapter knows where a set lies, which columns it has and how a row becomes a `Problem`.
Files are read one row at a time, from a folder or from the hub; nothing that they hold is executed,
not even unpickled. What cannot be used costs itself and no more: a test, a row or the rest of a
source, each with one line that says why.

`read_source` gives records one at a time; `shards.collect` writes them to the pipeline's cache and
goes on where it was killed. To add a set, write its row in `sources.toml` and, where no function
that another row names reads its tests, one that does.
"""

from mcbench.data.collect.decode import Unusable
from mcbench.data.collect.source import (
    ADAPTERS,
    Item,
    OpenSource,
    Source,
    load_sources,
    read_source,
)

__all__ = ["ADAPTERS", "Item", "OpenSource", "Source", "Unusable", "load_sources", "read_source"]
