"""What would be in another state on other features: parts, claims and headline differences.

    python benchmarks/by_feature.py            # print the tables
    python benchmarks/by_feature.py --write    # put them between the marks of docs/results.md

Held-out induced problems ask for one of a few expressions, so that problems resampled one by one
leave these as they are; whole features resampled do not (``mcbench.claims.evidence.Evidence``).
Shown are deciding parts and claims, the questions' and the rivals' among them, at the protocol's
seeds, and the differences of ``temperatures.py``, which are corrected for nothing.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from temperatures import ARMS, PAIRS, VIEWS, rates

from mcbench.claims import Result, read_measurements
from mcbench.claims.assess import digits_of
from mcbench.claims.curves import features_of
from mcbench.claims.evidence import Part
from mcbench.claims.margins import MARGINS, POINTS
from mcbench.claims.protocol import ELSEWHERE, PROTOCOL, SEEDS
from mcbench.claims.rules import HIGHER, LOWER, part_state
from mcbench.claims.statistics import Estimate, paired_difference
from mcbench.experiments.experiments import EXPERIMENTS
from mcbench.experiments.study import Study, results_of, studies
from mcbench.report.style import spoken
from mcbench.runs.records import read_records
from mcbench.runs.store import RunRecord

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "reports" / "records"
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- by feature -->\n", "<!-- end of by feature -->\n"
COLUMNS = ("estimate", "by problem", "by feature", "state", "on other features")


def table() -> Iterator[str]:
    """Lines of the two tables."""
    records, measurements = list(read_records(RECORDS)), read_measurements(RECORDS)
    known = {name: studies(name, records, measurements) for name in EXPERIMENTS}
    yield from _head("id", "part")
    for found in known.values():
        for name, one in results_of(found).items():
            if one.basis.startswith((PROTOCOL, ELSEWHERE)):
                yield from _rows(name, one)
    yield ""
    yield from _head("ends apart by", "evaluated at")
    yield from _pairs({label: _runs(known, label) for label in ARMS})


def _rows(name: str, one: Result) -> Iterator[str]:
    """The claim and its deciding parts, where they are in another state on other features."""
    if one.elsewhere and one.by_feature:
        part, there = one.decisive, one.on_other_features(one.decisive)
        states = (f"{each.state} (p = {each.p:.3f})" for each in (one, one.by_feature))
        yield _row(name, f"**the claim**, by {spoken(part.name)}", part, there.estimate, *states)
    for part in one.parts:
        if not part.beside and (there := one.moved(part)):
            yield _row(name, spoken(part.name), part, there.estimate, part.state, there.state)


def _runs(known: Mapping[str, Sequence[Study]], label: str) -> dict[int, RunRecord]:
    """The runs of an arm of ``temperatures.py``, by seed; none where they are not recorded."""
    name, arm, profile = ARMS[label]
    studied = (one.arms.get(arm, ()) for one in known[name] if one.profile == profile)
    return {run.seed: run for runs in studied for run in runs}


def _pairs(runs: Mapping[str, Mapping[int, RunRecord]]) -> Iterator[str]:
    """Differences of two arms over the last window that are in another state on other features."""
    for ours, other in PAIRS:
        if not (runs[ours] and runs[other]):
            continue
        clusters = _clusters(runs[ours][SEEDS[0]])
        for length, temperature in VIEWS:
            a, b = (rates(runs[arm], length, temperature)[1] for arm in (ours, other))
            here, there = paired_difference(a, b), paired_difference(a, b, clusters)
            states = [
                part_state(one, MARGINS[POINTS].value, HIGHER, LOWER) for one in (here, there)
            ]
            if states[0] != states[1]:
                at = f"T = {temperature:g}, {length} tokens"
                yield _row(f"{ours} minus {other}", at, Part("", here, POINTS), there, *states)


def _clusters(run: RunRecord) -> tuple[str, ...]:
    """The features of a run's held-out problems, or their ids, in the order of its evaluations."""
    features = features_of(run.config.test_set)
    problems = max((line["per_problem"] for line in run.eval_lines), key=len)
    return tuple(features.get(one["id"], one["id"]) for one in problems)


def _head(*what: str) -> Iterator[str]:
    yield "| " + " | ".join((*what, *COLUMNS)) + " |"
    yield "|" + "---|" * (len(what) + len(COLUMNS))


def _row(name: str, what: str, part: Part, there: Estimate, *states: str) -> str:
    found, digits = part.estimate, digits_of(part.unit)
    numbers = [
        f"{found.value:+.{digits}f} {part.unit}".rstrip(),
        *(f"{one.low:.{digits}f} to {one.high:.{digits}f}" for one in (found, there)),
    ]
    cells = [name, what, *(one.replace("-", "−") for one in numbers), *states]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    write = parser.parse_args().write
    made = "".join(f"{line}\n" for line in table())
    if not write:
        print(made, end="")
        return 0
    text = PAGE.read_text()
    if BEGIN not in text or END not in text:
        print(f"{PAGE} has no {BEGIN.strip()} and {END.strip()}", file=sys.stderr)
        return 1
    before, rest = text.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{made}{END}{rest.split(END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
