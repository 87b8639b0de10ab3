"""Tens of thousands of tests, some hostile, sandboxes killed at random: is every verdict right, and
is everything as before?

    python benchmarks/soak.py                            # 50,000 tests, then 20 repeats
    python benchmarks/soak.py --tests 2000 --repeats 0   # a quick look

First a soak through one evaluator: right and wrong programs with known verdicts, and attacks of the
labelled suite, while sandbox processes are killed. Processes, descriptors, temporary files and
memory are compared with those after the first thousand tests. Then determinism: the labelled suite
again and again while every core is busy. Exits with 1 if anything was wrong.
"""

import argparse
import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from evaluator_programs import Program, draw_programs

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.suite import ATTACKS, COMPARISONS, EXECUTIONS, ProgramCase
from mcbench.evaluator import CallTest, Evaluator, Result, Submission, outputs_match

FOLDERS = [Path(tempfile.gettempdir()), Path("/dev/shm")]
SETTLE_S = 5.0
GROWTH_MB = 8.0  # what allocators keep after a burst; a leak of 1 KiB a test shows as 50
WARM_UP_TESTS = 1000
NEAR = 0.2


@dataclass(frozen=True)
class Item:
    """A submission and its verdicts: one per test, or those allowed for the one that decides."""

    name: str
    submission: Submission
    verdicts: tuple[str, ...] | None = None
    case: ProgramCase | None = None

    def wrong(self, result: Result) -> str:
        """What is wrong with a result; empty if it is right."""
        if self.case is None:
            fits = tuple(result.verdicts) == self.verdicts
        else:
            decisive = next((v for v in result.verdicts if v != "AC"), "AC")
            fits = decisive in self.case.verdicts
            fits &= len(result.verdicts) == len(self.submission.tests)
        reason = next((test.message for test in result.tests if test.verdict != "AC"), "")
        return "" if fits else f"{self.name}: {result.verdicts} ({reason})"


# What is judged ----------------------------------------------------------------------------------


def honest_items(seed: int) -> list[Item]:
    """Right programs, and each with a wrong answer or a crash in its place now and then."""
    rng = random.Random(seed)
    items = []
    for number, program in enumerate(draw_programs(150, seed)):
        verdict = rng.choices(("AC", "WA", "RE"), (85, 8, 7))[0]
        submission = broken(program, verdict).submission
        items.append(Item(f"program {number}", submission, (verdict,) * len(program.cases)))
    return items


def broken(program: Program, verdict: str) -> Program:
    """The program changed so that every test gets the verdict."""
    if verdict == "AC":
        return program
    act = "1 / 0" if verdict == "RE" else "print('none', 'at', 'all')"
    if program.fn_name is None:
        return replace(program, code=f"{program.code}{act}\n")
    act = act if verdict == "RE" else "return 'none at all'"
    code = f"class Solution:\n    def {program.fn_name}(self, *args):\n        {act}\n"
    return replace(program, code=code)


def attack_items(seconds: float) -> list[Item]:
    """The attacks; those that may end with TLE under a smaller limit, to save time."""
    items = []
    for case in ATTACKS:
        if "TLE" in case.verdicts:
            case = replace(case, time_limit_s=min(case.time_limit_s, seconds))
        items.append(Item(f"attack {case.id}", case.submission, case=case))
    return items


def batches(options: argparse.Namespace) -> Iterator[list[Item]]:
    """Batches of about ``options.batch`` tests, endlessly; no program comes twice."""
    rng = random.Random(options.seed)
    honest, hostile = honest_items(options.seed), attack_items(options.hostile_seconds)
    serial = 0
    while True:
        batch: list[Item] = []
        tests = {False: 0, True: 0}
        while sum(tests.values()) < options.batch:
            is_hostile = tests[True] < options.hostile * (sum(tests.values()) + 1)
            item = rng.choice(hostile if is_hostile and hostile else honest)
            serial += 1
            code = f"{item.submission.code}\n# {serial}"
            batch.append(replace(item, submission=replace(item.submission, code=code)))
            tests[is_hostile] += len(item.submission.tests)
        rng.shuffle(batch)
        yield batch


# What the evaluator takes ------------------------------------------------------------------------


def below(depth: int | None = None) -> list[psutil.Process]:
    """The living processes below this one, or those at most ``depth`` levels below."""
    found: list[psutil.Process] = []
    level = [psutil.Process()]
    while level and (depth is None or depth > 0):
        children: list[psutil.Process] = []
        for process in level:
            with contextlib.suppress(psutil.NoSuchProcess):
                children += process.children()
        level = [child for child in children if is_alive(child)]
        found += level
        depth = None if depth is None else depth - 1
    return found


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def depth_below() -> int:
    depth, count = 0, -1
    while (found := len(below(depth + 1))) > max(count, 0):
        depth, count = depth + 1, found
    return depth


@dataclass(frozen=True)
class Snapshot:
    """What is in use: processes and descriptors, temporary files, MiB of this process and of all
    below it (PSS, or RSS where the kernel does not show us that)."""

    processes: int
    descriptors: int
    files: frozenset[str]
    own_mb: float
    sandboxes_mb: float

    def __str__(self) -> str:
        return (
            f"{self.processes} processes, {self.descriptors} descriptors, {len(self.files)} "
            f"temporary files, {self.own_mb:.1f} MiB here, {self.sandboxes_mb:.1f} MiB in sandboxes"
        )


def snapshot() -> Snapshot:
    gc.collect()
    sandboxes, me = below(), psutil.Process()
    return Snapshot(
        processes=len(sandboxes),
        descriptors=sum(process.num_fds() for process in [me, *sandboxes]),
        files=temporary_files(),
        own_mb=memory_mb(me),
        sandboxes_mb=sum(map(memory_mb, sandboxes)),
    )


def memory_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss) / 2**20
    except psutil.AccessDenied:
        return float(process.memory_info().rss) / 2**20


def temporary_files() -> frozenset[str]:
    """Those of the evaluator: by their name, or because no other user of that number exists."""
    found = set()
    for folder in filter(Path.is_dir, FOLDERS):
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.name.startswith("mcbench") or path.lstat().st_uid >= 1_000_000:
                    found.add(str(path))
    return frozenset(found)


def settled(expected: Snapshot) -> Snapshot:
    """A snapshot, once processes and files are the expected ones, or after some seconds."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        if len(below()) == expected.processes and temporary_files() <= expected.files:
            break
        time.sleep(0.02)
    return snapshot()


def growth(before: Snapshot, after: Snapshot) -> list[str]:
    """Everything that is more than it was."""
    found = []
    for name in ("processes", "descriptors"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            found.append(f"{name}: {old} before, {new} after")
    if after.files - before.files:
        found.append(f"temporary files left: {sorted(after.files - before.files)[:5]}")
    for name in ("own_mb", "sandboxes_mb"):
        old, new = getattr(before, name), getattr(after, name)
        if new > old + GROWTH_MB:
            found.append(f"{name}: {old:.1f} MiB before, {new:.1f} MiB after")
    return found


class Killer:
    """Kills a process of the sandboxes every now and then; never a running program, whose death
    by a signal is its own verdict. Once in a batch at most: twice in one test would be an IE."""

    def __init__(self, every_s: float, seed: int) -> None:
        self.killed = 0
        self._every_s = every_s
        self._rng = random.Random(seed)
        self._depth = depth_below()  # nothing is being judged yet
        self._stop = threading.Event()
        self.new_batch = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(self._rng.uniform(0.5, 1.5) * self._every_s):
            if self.new_batch.is_set() and (targets := below(self._depth)):
                self.new_batch.clear()
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._rng.choice(targets).send_signal(signal.SIGKILL)
                    self.killed += 1

    def __enter__(self) -> "Killer":
        if self._every_s > 0:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


# The two parts -----------------------------------------------------------------------------------


def soak(options: argparse.Namespace) -> list[str]:
    """Returns what went wrong."""
    problems: list[str] = []
    empty = snapshot()
    stream = batches(options)
    with Evaluator(workers=options.workers) as evaluator:
        # Sandboxes with numpy, and those that compare, start where they are first wanted.
        code = "import numpy, time\ndef f(n): time.sleep(1); return {1.0, 2.0}"
        wanted = CallTest("f", [1], {1, 2})
        evaluator.evaluate([Submission(f"{code} # {i}", [wanted]) for i in range(options.workers)])
        warm_up = 0
        while warm_up < min(WARM_UP_TESTS, options.tests // 4):
            warm_up += judge(evaluator, next(stream), problems)
        before = snapshot()
        print(f"after {warm_up} tests: {before}", flush=True)
        with Killer(options.kill_every, options.seed) as killer:
            done, started = 0, time.monotonic()
            while done < options.tests:
                killer.new_batch.set()
                done += judge(evaluator, next(stream), problems)
                rate = done / (time.monotonic() - started)
                print(
                    f"{done:,}/{options.tests:,} tests, {rate:.0f}/s, {killer.killed} kills, "
                    f"{len(problems)} problems, {psutil.Process().num_fds()} descriptors here, "
                    f"{memory_mb(psutil.Process()):.0f} MiB",
                    flush=True,
                )
        judge(evaluator, next(stream), problems)  # replaces what was killed last
        after = settled(before)
        print(f"after {warm_up + done} tests and {killer.killed} kills: {after}", flush=True)
    problems += growth(before, after)
    closed = settled(empty)
    print(f"closed: {closed}", flush=True)
    found = growth(replace(empty, own_mb=after.own_mb), closed)
    return problems + [f"after close, {problem}" for problem in found]


def judge(evaluator: Evaluator, items: Sequence[Item], problems: list[str]) -> int:
    """Judge a batch, add what is wrong to ``problems``; returns the number of tests."""
    results = evaluator.evaluate([item.submission for item in items])
    for item, result in zip(items, results, strict=True):
        if wrong := item.wrong(result):
            problems.append(wrong)
            print(f"WRONG {wrong}", flush=True)
    return sum(len(item.submission.tests) for item in items)


def determinism(options: argparse.Namespace) -> list[str]:
    """The suite under full load, ``options.repeats`` times; returns where repeats disagree."""
    cases = [
        case
        for case in COMPARISONS
        if outputs_match(case.expected, case.actual, **case.options) != case.right
    ]
    problems = [f"comparison {case.id}: not {case.right}" for case in cases]
    items = attack_items(options.hostile_seconds)
    items += [Item(f"program {case.id}", case.submission, case=case) for case in EXECUTIONS]
    judged: list[list[Result]] = [[] for _ in items]
    with full_load(), Evaluator(workers=options.workers) as evaluator:
        for repeat in range(options.repeats):
            started = time.monotonic()
            results = evaluator.evaluate([item.submission for item in items])
            for seen, result in zip(judged, results, strict=True):
                seen.append(result)
            seconds = time.monotonic() - started
            print(f"repeat {repeat + 1}/{options.repeats}: {seconds:.1f} s", flush=True)
    excused = 0
    for item, results in zip(items, judged, strict=True):
        verdicts = {tuple(result.verdicts) for result in results}
        wrong = next(filter(None, map(item.wrong, results)), "")
        if len(verdicts) == 1 and not wrong:
            continue
        if near_a_limit(item.submission, results):
            excused += 1
        else:
            problems.append(wrong or f"{item.name}: {sorted(verdicts)}")
    tests = sum(len(item.submission.tests) for item in items)
    print(
        f"determinism: {len(items)} programs, {tests} tests, {options.repeats} repeats, "
        f"{excused} near a limit, {len(problems)} problems"
    )
    return problems


@contextlib.contextmanager
def full_load() -> Iterator[None]:
    """One endless loop per core."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def near_a_limit(submission: Submission, results: Sequence[Result]) -> bool:
    """Whether a test that ran to its end came within 20 % of the time or memory limit."""
    shares: list[float] = []
    for result in results:
        for test in result.tests:
            if test.verdict not in ("TLE", "MLE"):
                shares += [
                    test.time_s / submission.time_limit_s,
                    test.memory_mb / submission.memory_limit_mb,
                ]
    return any(abs(share - 1) <= NEAR for share in shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tests", type=int, default=50_000, help="tests of the soak (50,000)")
    parser.add_argument("--hostile", type=float, default=0.05, help="share of attacks (0.05)")
    parser.add_argument("--hostile-seconds", type=float, default=0.5, help="their time limit (0.5)")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds, 0 for never (5)")
    parser.add_argument("--repeats", type=int, default=20, help="of the labelled suite (20)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=500, help="tests per call (500)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()
    problems = soak(options) if options.tests else []
    problems += determinism(options) if options.repeats else []
    for problem in problems[:50]:
        print(f"PROBLEM {problem}")
    minutes = (time.monotonic() - started) / 60
    print(f"{len(problems)} problems, {minutes:.1f} minutes")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
