"""docs/evaluator.md: what it names as showing a guarantee is there."""

import re
from fnmatch import filter as matching
from pathlib import Path

from benchmarks.suite import ATTACKS

HERE = Path(__file__).parent


def test_every_guarantee_names_tests_that_exist():
    text = (HERE.parents[1] / "docs" / "evaluator.md").read_text()
    table = text.partition("| guaranteed | by | shown by |\n")[2].partition("\n\n")[0]
    rows = table.splitlines()[1:]
    assert len(rows) > 12
    for row in rows:
        names = re.findall(r"`([^`]+)`", row.split("|")[3])
        assert names, row
        file = None
        for name in names:
            if ".py" not in name and "::" not in name:
                assert matching([case.id for case in ATTACKS], name), name
                continue
            path, _, test = name.partition("::")
            file = HERE / path if path else file
            assert f"def {test or 'test_'}" in file.read_text(), name
