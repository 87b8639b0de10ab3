"""What training gained and what arms end apart by, evaluated at T = 1 and at T = 0.6.

    python benchmarks/temperatures.py            # compare the table of docs/results.md
    python benchmarks/temperatures.py --write    # write it there

Points of pass@1 on all held-out problems over the last quarter of the updates, twelve seeds, with
the protocol's 95 % intervals (seeds and problems).
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mcbench.claims.protocol import SEEDS
from mcbench.claims.statistics import LAST, paired_difference
from mcbench.experiments.study import studies
from mcbench.runs.records import read_records
from mcbench.runs.store import RunRecord

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- temperatures -->\n", "<!-- end of temperatures -->\n"
SMALL, LARGER = "nano-steady", "nano-steady-m"
ARMS = {
    "GRPO per response": ("results", "grpo_per_response", SMALL),
    "GRPO (over tokens)": ("results", "grpo", SMALL),
    "GRPO+ (no mask)": ("truncation_mask", "none", SMALL),
    "MicroCoder-GRPO (rho 0.2)": ("truncation_mask", "rho_02", SMALL),
    "mask all": ("truncation_mask", "all", SMALL),
    "rho 1": ("doses", "rho_10", SMALL),
    "rho 1, no loop spared": ("doses", "rho_10_loops", SMALL),
    "KL 0.04": ("doses", "kl_004", SMALL),
    "KL 0.3": ("doses", "kl_03", SMALL),
    "trained at T = 0.6": ("temperature", "t_06", SMALL),
    "trained at T = 1.2": ("temperature", "t_12", SMALL),
    "harder set": ("data_quality", "harder", SMALL),
    "easier set": ("data_quality", "easier", SMALL),
    "GRPO per response (nano-m)": ("results", "grpo_per_response", LARGER),
    "GRPO+ (nano-m)": ("results", "grpo_plus", LARGER),
    "MicroCoder-GRPO (nano-m)": ("results", "microcoder", LARGER),
}
PAIRS = (
    ("GRPO (over tokens)", "GRPO+ (no mask)"),
    ("MicroCoder-GRPO (rho 0.2)", "GRPO (over tokens)"),
    ("GRPO per response", "GRPO (over tokens)"),
    ("GRPO per response", "GRPO+ (no mask)"),
    ("GRPO per response", "MicroCoder-GRPO (rho 0.2)"),
    ("GRPO per response", "mask all"),
    ("mask all", "GRPO+ (no mask)"),
    ("rho 1", "GRPO+ (no mask)"),
    ("KL 0.04", "GRPO+ (no mask)"),
    ("KL 0.3", "GRPO+ (no mask)"),
    ("harder set", "easier set"),
    ("GRPO per response (nano-m)", "GRPO+ (nano-m)"),
    ("GRPO per response (nano-m)", "MicroCoder-GRPO (nano-m)"),
    ("MicroCoder-GRPO (nano-m)", "GRPO+ (nano-m)"),
)
VIEWS = tuple((length, temperature) for temperature in (1.0, 0.6) for length in (96, 192))


def rates(runs: Mapping[int, RunRecord], length: int, temperature: float) -> tuple[np.ndarray, ...]:
    """Pass rates in percent (S, P) before training, and over the last window."""
    before, after = [], []
    for seed in SEEDS:
        lines = [
            line
            for line in runs[seed].eval_lines
            if (line["max_completion_length"], line["temperature"]) == (length, temperature)
        ]
        whole = max(len(line["per_problem"]) for line in lines)
        found = {
            line["step"]: [100 * row["passes"] / row["attempts"] for row in line["per_problem"]]
            for line in lines
            if len(line["per_problem"]) == whole
        }
        begins = max(found) * (1 - LAST)
        before.append(found[0])
        after.append(np.mean([found[step] for step in found if step > begins], axis=0))
    return np.array(before), np.array(after)


def table() -> Iterator[str]:
    """Lines of the two tables."""
    records = list(read_records(ROOT / "reports" / "records"))
    known = {
        (name, one.profile): one
        for name in dict.fromkeys(name for name, _, _ in ARMS.values())
        for one in studies(name, records)
    }
    runs = {
        label: {run.seed: run for run in known[name, profile].arms[arm]}
        for label, (name, arm, profile) in ARMS.items()
    }
    found = {(label, view): rates(runs[label], *view) for label in ARMS for view in VIEWS}
    yield from _head("gained over the untrained model")
    for label in ARMS:
        yield _row(label, [(found[label, view][1], found[label, view][0]) for view in VIEWS])
    yield ""
    yield from _head("ends apart by")
    for ours, theirs in PAIRS:
        pairs = [(found[ours, view][1], found[theirs, view][1]) for view in VIEWS]
        yield _row(f"{ours} minus {theirs}", pairs)


def _head(what: str) -> Iterator[str]:
    yield f"| {what} | " + " | ".join(f"T = {t:g}, {n} tokens" for n, t in VIEWS) + " |"
    yield "|" + "---|" * (1 + len(VIEWS))


def _row(label: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
    cells = []
    for ours, theirs in pairs:
        one = paired_difference(ours, theirs)
        low, high = one.interval()
        cells.append(f"{one.value:+.1f} ({low:.1f} to {high:.1f})".replace("-", "−"))
    return f"| {label} | {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    made = f"{before}{BEGIN}{chr(10).join(table())}\n{END}{rest.split(END)[1]}"
    if write:
        PAGE.write_text(made)
    elif made != text:
        print(f"{PAGE} holds other numbers; run this with --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
