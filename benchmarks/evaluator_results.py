"""What a forged result costs the trusted process: CPU time and memory against the bytes received.

    python benchmarks/evaluator_results.py --output benchmarks/evaluator_results.json

Every family of forged results (tests/evaluator/forged.py) in sizes up to the output limit, against
tests whose expected value is small: with a plain comparison, in any order, values with a checker.
And against a large expected value, where the bound is a multiple of what the right answer costs.
What a sandbox is asked to compare or to decode costs that sandbox.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcbench.evaluator import CallTest, StdioTest
from mcbench.evaluator.encoding import dumps
from tests.evaluator.forged import BYTES, FAMILIES, MOST, SECONDS, TEXTS, cost, forged

SIZES = [1 << 12, 1 << 14, 1 << 16, 1 << 18, 370 << 10, 2 << 20, MOST]


def refuse(expected: Any, actual: Any) -> bool:
    return False


VALUES = {
    "plain": CallTest("f", [1], 7),
    "any order": CallTest("f", [1], [[1.5, 2], {3: "x"}] * 50, any_order=True),
    "set": CallTest("f", [1], set(range(300)), rtol=0.1),
    "checker": CallTest("f", [1], 7, checker=refuse),
}
PRINTED = {
    "plain": StdioTest("", "7"),
    "any order": StdioTest("", "a\nb " * 100, any_order=True),
    "tolerance": StdioTest("", "0.5 " * 100, rtol=0.1),
}


def measure() -> dict[str, Any]:
    """By kind of test and size: the dearest family, its milliseconds and MiB."""
    found: dict[str, Any] = {"values": {}, "texts": {}}
    for size in SIZES:
        made = {name: forged(name, size) for name in FAMILIES}
        printed = {name: piece * (size // len(piece)) for name, piece in TEXTS.items()}
        for kind, tests, all_data in (("values", VALUES, made), ("texts", PRINTED, printed)):
            for name, test in tests.items():
                costs = {family: cost(test, data, 3) for family, data in all_data.items()}
                found[kind].setdefault(name, []).append(dearest(size, costs))
    expected = [[i, i + 0.5] for i in range(5000)]
    large = CallTest("f", [], expected)
    right = cost(large, dumps(expected), 3)
    costs = {family: cost(large, forged(family, MOST), 3) for family in FAMILIES}
    found["large"] = {"right": in_units(*right), "forged": dearest(MOST, costs)}
    return found


def dearest(size: int, costs: dict[str, tuple[float, int]]) -> dict[str, Any]:
    family = max(costs, key=lambda name: costs[name][0])
    most = max(memory for _, memory in costs.values())
    return {"bytes": size, "family": family, **in_units(costs[family][0], most)}


def in_units(seconds: float, memory: int) -> dict[str, float]:
    return {"ms": round(1000 * seconds, 2), "mib": round(memory / 2**20, 2)}


def report(found: dict[str, Any]) -> None:
    for kind in ("values", "texts"):
        for name, rows in found[kind].items():
            print(f"\n{kind}, {name}: the dearest of the families")
            for row in rows:
                used = f"{row['ms']:7.2f} ms {row['mib']:7.2f} MiB"
                print(f"{row['bytes']:10d} bytes {used}  {row['family']}")
    right, worst = found["large"]["right"], found["large"]["forged"]
    print(f"\nlarge expected value: right answer {right}, forged {worst}\n")
    rows = [row for kind in ("values", "texts") for each in found[kind].values() for row in each]
    for what, most, limit in (
        ("ms", max(row["ms"] for row in rows), 1000 * SECONDS),
        ("mib", max(row["mib"] for row in rows), BYTES / 2**20),
    ):
        print("ok    " if most < limit else "MISSED", f"at most {most} {what} a test (< {limit:g})")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the result here as JSON")
    options = parser.parse_args()
    found = measure()
    report(found)
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
