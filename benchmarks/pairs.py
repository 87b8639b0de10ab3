"""Random pairs of settings of the algorithm, each trained whole in the smallest run there is.

    python benchmarks/pairs.py [--minutes 10] [--seed 0] [--only NAME ...] [--both A B]

What `tests/grpo/test_pairs.py` plans is trained here: the profile `tiny` on problems whose rewards
say enough for every option, 4 updates. A setting leaves a trace where the run with both settings
has other weights or another log than the run with the other one alone. Prints every pair in which
one leaves none and nothing was said of it, that is refused after its first update or without naming
either, or that ends with something else than a sentence; ends with status 1 where there is one.
"""

import argparse
import itertools
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcbench.errors import UserError
from mcbench.files import digest, read_lines
from mcbench.runs.resolve import resolve
from mcbench.runs.store import RunStore
from mcbench.runs.train import train
from tests.grpo.test_pairs import OPTIONS, SAME, SAYS_SO

# Values that act within four updates, two a generation, where those of the tests need more.
SOONER = {
    "length_stages": [[0, 12], [2, 24]],
    "temperature_stages": [[0, 0.8], [2, 1.4]],
    "temperature_restore": [2],
    "imitate_from": 1,
}
BASE = {
    "train_set": "branches:train", "test_set": "branches:test", "model": "nano-branches",
    "reward": "outcomes", "train_limit": 6, "train_batch_size": 4, "num_generations": 4,
    "ppo_mini_batch_size": 2, "per_device_batch_size": 8, "max_completion_length": 24,
    "repeat_window": 4, "eval_lengths": [24], "eval_every": 4, "eval_attempts": 1, "test_limit": 1,
    "reward_workers": 1,
}  # fmt: skip
NEEDING = {  # other problems
    ("self_play", "idle"): {
        "train_set": "self-play:train", "test_set": "self-play:test", "reward": "tests",
        "model": "nano-self-play", "train_batch_size": 6, "num_generations": 2,
        "ppo_mini_batch_size": 3, "per_device_batch_size": 6, "train_limit": None,
    },
    ("token_credit", "feedback"): {
        "train_set": "turns:train", "test_set": "turns:test", "reward": "rlef",
        "model": "nano-turns", "feedback": "none", "max_completion_length": 64,
        "eval_lengths": [64],
    },
}  # fmt: skip
TIMES = ("elapsed_s", "time/", "step_time", "runtime", "per_second")


@dataclass
class Outcome:
    """Of one training: what it left, or why it did not; ``trained`` updates."""

    trace: str = ""
    run_id: str = ""
    refused: str = ""
    crashed: str = ""
    trained: int = 0
    said: str = ""


class Said(logging.Handler):
    """What is logged, as one text."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"


def run(settings: Mapping[str, Any], folder: Path) -> Outcome:
    """Trains settings."""
    found, said = Outcome(), Said()
    logging.getLogger("mcbench").addHandler(said)
    done = None
    try:
        config = resolve("tiny", "grpo_plus", settings)
        found.run_id = config.run_id
        store = RunStore(folder)
        done = store.run(config).path
        train(config, store, progress=lambda line: setattr(said, "text", said.text + line + "\n"))
        lines = read_lines(done / "steps.jsonl")
        kept = [{k: v for k, v in line.items() if not k.startswith(TIMES)} for line in lines]
        (weights,) = (done / "checkpoints").glob("final*/model.safetensors")
        found.trace = digest([json.dumps(kept, sort_keys=True), weights.read_bytes()])
    except UserError as error:
        found.refused = str(error)
    except Exception as error:
        found.crashed = f"{type(error).__name__}: {error}"
    finally:
        logging.getLogger("mcbench").removeHandler(said)
    if done is not None and (done / "steps.jsonl").exists():
        found.trained = len(read_lines(done / "steps.jsonl"))
    found.said = said.text
    return found


class Pairs:
    """Trains pairs, and each setting alone once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, Outcome] = {}

    def of(self, options: Sequence[tuple[str, Any]], base: Mapping[str, Any]) -> Outcome:
        settings = {**BASE, **base, **{name: SOONER.get(name, v) for name, v in options}}
        key = json.dumps(settings, sort_keys=True)
        if key not in self.known:
            self.known[key] = run(settings, self.folder / str(len(self.known)))
        return self.known[key]

    def judged(self, one: tuple[str, Any], other: tuple[str, Any]) -> tuple[str, str]:
        """What became of a pair, and what is wrong with it; empty: nothing."""
        base: dict[str, Any] = {}
        for option, needed in NEEDING.items():
            base |= needed if option in (one, other) else {}
        both, names = self.of([one, other], base), (one[0], other[0])
        if both.crashed:
            return "crashed", both.crashed
        if both.refused:
            wrong = f"refused after {both.trained} updates" if both.trained else ""
            if not any(name in both.refused for name in names):
                wrong = "names neither"
            return "refused", wrong and f"{wrong}: {both.refused}"
        silent = []
        for option, rest in ((one, other), (other, one)):
            alone = self.of([rest], base)
            said = both.said + self.of([option], base).said
            if alone.trace != both.trace or option[0] in said or option[0] in SAYS_SO:
                continue
            if alone.run_id == both.run_id and not alone.refused:
                continue  # described as the same
            silent.append(option[0])
        if set(names) == SAME:
            silent = []
        return "trained", f"no trace of {', '.join(silent)}" if silent else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of which pairs")
    parser.add_argument("--only", nargs="+", default=[], help="settings of which each pair has one")
    parser.add_argument("--both", nargs=2, help="the pair of these two")
    args = parser.parse_args()
    pairs = [p for p in itertools.combinations(OPTIONS, 2) if p[0][0] != p[1][0]]
    if args.only:
        pairs = [p for p in pairs if {p[0][0], p[1][0]} & {*args.only}]
    if args.both:
        pairs = [p for p in pairs if {p[0][0], p[1][0]} == {*args.both}]
    random.Random(args.seed).shuffle(pairs)
    counts: Counter[str] = Counter()
    until = time.monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory() as name:
        trained = Pairs(Path(name))
        for base in ({}, *NEEDING.values()):
            if why := (plain := trained.of([], base)).refused + plain.crashed:
                sys.exit(f"without settings: {why}")
        with suppress(KeyboardInterrupt):
            for one, other in pairs:
                if time.monotonic() > until:
                    break
                what, wrong = trained.judged(one, other)
                counts[what] += 1
                counts["wrong"] += bool(wrong)
                if wrong or args.both:
                    print(f"{one} {other}: {what}; {wrong}", flush=True)
    print(f"of {len(pairs)} pairs: {dict(counts)}")
    sys.exit(bool(counts["wrong"]))


if __name__ == "__main__":
    main()
