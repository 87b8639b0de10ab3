"""Throughput, CPU time, start-up and memory of the evaluator, against the usual ways.

    python benchmarks/evaluator.py --output benchmarks/evaluator.json
    python benchmarks/evaluator.py --livecodebench PATH    # a checkout, to run the original too
    python benchmarks/evaluator.py --against PATH          # a checkout of another version, alone
    python benchmarks/evaluator.py --quick                 # does it work? a few seconds

All judge the same right programs (benchmarks/evaluator_programs.py), two at a time, each method in
a process of its own, in turn, round after round; nothing else should run meanwhile. The first
round warms up. Memory and start-up are those of the evaluator. The bare probe
(benchmarks/bare_probe.py) forks, runs and waits, and judges nothing: no evaluator with a fresh
process per test can be faster than about that.
"""

import argparse
import contextlib
import datetime
import json
import multiprocessing
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from evaluator_programs import Program, draw_programs

sys.path.insert(0, str(Path(__file__).parents[1]))
import mcbench.evaluator
from mcbench.evaluator import Evaluator, StdioTest, Submission

WORKERS = 2
FOLDER = Path(__file__).resolve().parent
PRELUDE = Path(mcbench.evaluator.__file__).with_name("leetcode.py")
# What the evaluator is held to: other's time over ours (at least), or ours over the probe's (at
# most); seconds; MiB.
AT_LEAST = {"process per sample": 10.0, "LiveCodeBench": 10.0, "python per test": 5.0}
AT_MOST_PROBE, AT_MOST_START_S, AT_MOST_MB = 1.6, 0.5, 60.0
AT_MOST_OTHER = 1.03

# A round judges the programs and returns its wall time in seconds; wrong verdicts raise.
Round = Callable[[Sequence[Program]], float]


# The methods: each is entered in its own process -------------------------------------------------


@contextlib.contextmanager
def ours(_: str) -> Iterator[Round]:
    with Evaluator(workers=WORKERS) as evaluator:
        yield lambda programs: _timed_evaluate(evaluator, programs)


@contextlib.contextmanager
def process_per_sample(_: str) -> Iterator[Round]:
    # Here, as another version that is measured against has other names than this method uses.
    from benchmarks.published import ProcessPerSample

    with ProcessPerSample(workers=WORKERS) as evaluator:
        yield lambda programs: _timed_evaluate(evaluator, programs)


@contextlib.contextmanager
def process_per_sample_with_torch(_: str) -> Iterator[Round]:
    """The same in a process that has loaded what a trainer loads: everything forked copies it."""
    import transformers
    import trl

    _insist(bool(trl.GRPOTrainer and transformers.Qwen3ForCausalLM))  # what loads lazily, too
    with process_per_sample("") as one_round:
        yield one_round


def _timed_evaluate(evaluator: Any, programs: Sequence[Program]) -> float:
    submissions = [program.submission for program in programs]
    started = time.perf_counter()
    results = evaluator.evaluate(submissions)
    elapsed = time.perf_counter() - started
    _insist(all(result.passed for result in results))
    return elapsed


@contextlib.contextmanager
def livecodebench(checkout: str) -> Iterator[Round]:
    sys.path.insert(0, checkout)
    from lcb_runner.evaluation.compute_code_generation_metrics import evaluate_generations

    def one_round(programs: Sequence[Program]) -> float:
        samples = []
        for program in programs:
            inputs, outputs = zip(*program.cases, strict=True)
            if program.fn_name is not None:
                inputs = ["\n".join(map(json.dumps, args)) for args in inputs]
                outputs = [json.dumps(value) for value in outputs]
            sample = {"inputs": inputs, "outputs": outputs, "fn_name": program.fn_name}
            samples.append({"input_output": json.dumps(sample)})
        codes = [[program.code] for program in programs]
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
            started = time.perf_counter()
            results, _ = evaluate_generations(samples, codes, num_process_evaluate=WORKERS)
            elapsed = time.perf_counter() - started
        _insist(all(verdict is True for index in results for verdict in results[index][0]))
        return elapsed

    yield one_round


@contextlib.contextmanager
def python_per_test(_: str) -> Iterator[Round]:
    """A new ``sys.executable program.py`` for every test."""

    def run(job: tuple[Path, str]) -> str:
        command = [sys.executable, str(job[0])]
        return subprocess.run(command, input=job[1], capture_output=True, text=True).stdout

    def one_round(programs: Sequence[Program]) -> float:
        jobs, wanted = [], []
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as threads:
            for number, program in enumerate(programs):
                path = Path(folder) / f"program{number}.py"
                path.write_text(program.script)
                jobs += [(path, text) for text, _ in program.texts]
                wanted += [output.split() for _, output in program.texts]
            started = time.perf_counter()
            printed = list(threads.map(run, jobs))
            elapsed = time.perf_counter() - started
        _insist([text.split() for text in printed] == wanted)
        return elapsed

    yield one_round


@contextlib.contextmanager
def bare_probe(kind: str) -> Iterator[Round]:
    """Fork, run, wait; ``kind`` "compiled" leaves out compiling the program as well."""
    tokens, tokens_write = os.pipe()
    command = [sys.executable, "-s", "-P", "-B", str(FOLDER / "bare_probe.py"), str(PRELUDE)]
    probes = [
        subprocess.Popen(
            [*command, str(tokens)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            pass_fds=[tokens],
        )
        for _ in range(WORKERS)
    ]

    def ask(line: str) -> list[Any]:
        for probe in probes:
            print(line, file=probe.stdin, flush=True)
        return [probe.stdout.readline().strip() for probe in probes if probe.stdout]

    def one_round(programs: Sequence[Program]) -> float:
        tests = [(i, text) for i, program in enumerate(programs) for text, _ in program.texts]
        scripts = [program.script for program in programs]
        job = {"programs": scripts, "tests": tests, "compiled": kind == "compiled"}
        _insist(set(ask(json.dumps(job))) == {"ready"})
        numbers = [*range(len(tests)), *[0xFFFFFFFF] * WORKERS]
        _insist(len(numbers) <= 16384)  # what a pipe holds
        os.write(tokens_write, struct.pack(f"{len(numbers)}I", *numbers))
        started = time.perf_counter()
        failed = ask("go")
        elapsed = time.perf_counter() - started
        _insist(failed == ["0"] * WORKERS)
        return elapsed

    for probe in probes:
        assert probe.stdout is not None
        json.loads(probe.stdout.readline())
    try:
        yield one_round
    finally:
        for probe in probes:
            probe.communicate()
        os.close(tokens)
        os.close(tokens_write)


def _insist(condition: bool) -> None:
    if not condition:
        raise RuntimeError("a right program was not accepted: this measurement means nothing")


# One process per method --------------------------------------------------------------------------


def cpu_seconds(children_only: bool = False) -> float:
    """CPU time of this process and everything below it, ended processes included."""
    me = psutil.Process()
    total = sum(me.cpu_times()[2:4])
    if not children_only:
        total += sum(me.cpu_times()[:2])
    for process in me.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def memory_per_worker() -> dict[str, float]:
    """MiB of the processes below this one, over the workers: the kernel's shares of pages (PSS),
    where it lets us see them, and all resident pages (RSS)."""
    below = psutil.Process().children(recursive=True)
    found = {"rss": sum(process.memory_info().rss for process in below)}
    with contextlib.suppress(psutil.AccessDenied):
        found["pss"] = sum(process.memory_full_info().pss for process in below)
    return {name: value / 2**20 / WORKERS for name, value in found.items()}


def start_up() -> tuple[float, float]:
    """Seconds until an evaluator is there, and until it has judged a test on every worker."""
    tests = [StdioTest("", "1")]
    started = time.perf_counter()
    with Evaluator(workers=WORKERS) as evaluator:
        there = time.perf_counter() - started
        results = evaluator.evaluate([Submission(f"print(1)#{i}", tests) for i in range(WORKERS)])
        judged = time.perf_counter() - started
    _insist(all(result.passed for result in results))
    return there, judged


IN_A_TRAINER, OTHER_VERSION = "the same in a trainer", "the other version"
METHODS: dict[str, tuple[Any, str]] = {
    "ours": (ours, ""),
    OTHER_VERSION: (ours, ""),
    "process per sample": (process_per_sample, ""),
    IN_A_TRAINER: (process_per_sample_with_torch, ""),
    "LiveCodeBench": (livecodebench, ""),
    "python per test": (python_per_test, ""),
    "bare probe": (bare_probe, "source"),
    "bare probe, compiled before": (bare_probe, "compiled"),
}


def serve(name: str, argument: str, connection: Any) -> None:
    """The process of one method: answers a list of programs with the figures of a round."""
    multiprocessing.set_start_method("fork", force=True)  # LiveCodeBench relies on the default
    method, default = METHODS[name]
    with method(argument or default) as one_round:
        while (request := connection.recv()) is not None:
            if request == "imported":
                connection.send(mcbench.evaluator.__file__)
            elif request == "start-up":
                connection.send(start_up())
            elif request == "memory":
                connection.send(memory_per_worker())
            else:
                children_only = name == "python per test"  # plain Python, not what starts it
                before = cpu_seconds(children_only)
                seconds = one_round(request)
                cpu = cpu_seconds(children_only) - before
                connection.send({"seconds": seconds, "cpu_seconds": cpu})


@contextlib.contextmanager
def importing_from(checkout: str) -> Iterator[None]:
    """What is started within finds that version of the package, and so does what it starts."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = checkout
    sys.path.insert(0, checkout)  # a spawned process has its parent's path
    try:
        yield
    finally:
        sys.path.remove(checkout)
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


class Method:
    """Our end of a method's process."""

    def __init__(self, name: str, argument: str = "", checkout: str = "") -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(name, argument, theirs))
        with importing_from(checkout) if checkout else contextlib.nullcontext():
            self.process.start()
        theirs.close()
        self.imported = self.ask("imported")

    def ask(self, request: Any) -> Any:
        self.connection.send(request)
        try:
            return self.connection.recv()
        except EOFError:
            raise SystemExit("a method failed; see above") from None

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.connection.send(None)
        self.process.join()


# The measurement ---------------------------------------------------------------------------------

Figures = dict[str, list[dict[str, float]]]  # method -> one entry per round


def measure(options: argparse.Namespace) -> dict[str, Any]:
    left_out = {
        "LiveCodeBench": not options.livecodebench,
        IN_A_TRAINER: options.quick,
        OTHER_VERSION: True,
    }
    names = [name for name in METHODS if not left_out.get(name)]
    checkout = str(Path(options.against).resolve()) if options.against else ""
    if checkout:
        names = ["ours", OTHER_VERSION, "bare probe"]
    # Methods that start something per program rather than per test do well on the first mix.
    mixes = {
        "1 to 10 tests a program": draw_programs(options.samples),
        "1 test a program": [program.first(1) for program in draw_programs(2 * options.samples)],
    }
    rounds: dict[str, Figures] = {mix: {name: [] for name in names} for mix in mixes}
    with contextlib.ExitStack() as stack:
        methods = {}
        for name in names:
            argument = options.livecodebench if name == "LiveCodeBench" else ""
            methods[name] = Method(name, argument, checkout if name == OTHER_VERSION else "")
            stack.callback(methods[name].close)
            found = Path(methods[name].imported).parent
            if name == OTHER_VERSION and found != Path(checkout, "mcbench", "evaluator"):
                raise SystemExit(f"{checkout} has no mcbench/evaluator")
        for number in range(options.rounds + 1):
            for mix, programs in mixes.items():
                # No program is seen twice: equal submissions need to be judged only once.
                batch = [program.marked(f"round {number}") for program in programs]
                for name in names if number % 2 else names[::-1]:
                    rounds[mix][name].append(methods[name].ask(batch))
            print(f"round {number}/{options.rounds}", flush=True)
        memory = methods["ours"].ask("memory")
        starts = [methods["ours"].ask("start-up") for _ in range(options.starts)]
    result: dict[str, Any] = {"machine": machine(), "workers": WORKERS}
    result["memory_mb_per_worker"] = memory
    result["start_up_seconds"] = {
        "ready": [ready for ready, _ in starts],
        "first_verdicts": [judged for _, judged in starts],
    }
    result["mixes"] = {
        mix: summary(programs, {name: rounds[mix][name][1:] for name in names})
        for mix, programs in mixes.items()
    }
    return result


def summary(programs: Sequence[Program], rounds: Figures) -> dict[str, Any]:
    tests = sum(len(program.cases) for program in programs)
    seconds = {n: statistics.median(f["seconds"] for f in rounds[n]) for n in rounds}
    cpu = {n: statistics.median(f["cpu_seconds"] for f in rounds[n]) for n in rounds}
    return {
        "programs": len(programs),
        "tests": tests,
        "tests_per_second": {name: tests / value for name, value in seconds.items()},
        "cpu_ms_per_test": {name: 1000 * value / tests for name, value in cpu.items()},
        "time_over_ours": {name: value / seconds["ours"] for name, value in seconds.items()},
        "cpu_over_ours": {name: value / cpu["ours"] for name, value in cpu.items()},
        "rounds": rounds,
    }


def machine() -> dict[str, Any]:
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), "")
    with Evaluator(workers=1) as evaluator:
        layers = evaluator.isolation
    return {
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "mcbench": version("mcbench"),
        "isolation": layers,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load_average": os.getloadavg(),
    }


def report(result: dict[str, Any]) -> None:
    checks: list[tuple[bool, str]] = []
    for mix, figures in result["mixes"].items():
        print(f"\n{mix}: medians of rounds of {figures['tests']} tests")
        print(f"{'method':28s} {'tests/s':>8s} {'CPU ms/test':>12s} {'time, CPU over ours':>20s}")
        for name, speed in figures["tests_per_second"].items():
            cpu, ratio = figures["cpu_ms_per_test"][name], figures["time_over_ours"][name]
            cpu_ratio = figures["cpu_over_ours"][name]
            print(f"{name:28s} {speed:8.0f} {cpu:12.2f} {ratio:13.2f} {cpu_ratio:6.2f}")
        checks += [(fits, f"{mix}: {text}") for fits, text in check_mix(figures)]
    checks += check_resources(result)
    print()
    for fits, text in checks:
        print("ok    " if fits else "MISSED", text)


def check_mix(figures: dict[str, Any]) -> list[tuple[bool, str]]:
    ratios, cpu = figures["time_over_ours"], figures["cpu_ms_per_test"]
    checks = [
        (ratios[name] >= least, f"{name} takes {ratios[name]:.1f} times our time (>= {least:g})")
        for name, least in AT_LEAST.items()
        if name in ratios
    ]
    if OTHER_VERSION in ratios:
        checks += [check_pairs(figures["rounds"], unit) for unit in ("seconds", "cpu_seconds")]
    cost = 1 / ratios["bare probe"]
    text = f"we take {cost:.2f} times the bare probe's time (<= {AT_MOST_PROBE:g})"
    checks.append((cost <= AT_MOST_PROBE, text))
    if (plain := cpu.get("python per test")) is not None:
        text = f"{cpu['ours']:.2f} ms of CPU time a test (<= {plain:.2f} ms, one plain python)"
        checks.append((cpu["ours"] <= plain, text))
    return checks


def check_pairs(rounds: Figures, unit: str) -> tuple[bool, str]:
    """Ours over the other version's, round by round: median, and its 95 % bootstrap interval."""
    pairs = zip(rounds["ours"], rounds[OTHER_VERSION], strict=True)
    ratios = [ours[unit] / other[unit] for ours, other in pairs]
    draw = random.Random(0).choices
    medians = sorted(statistics.median(draw(ratios, k=len(ratios))) for _ in range(2000))
    middle = statistics.median(ratios)
    text = (
        f"{unit}: {middle:.3f} times the other version's ({medians[50]:.3f} to {medians[1949]:.3f})"
    )
    return middle <= AT_MOST_OTHER, f"{text}, medians of {len(ratios)} pairs (<= {AT_MOST_OTHER})"


def check_resources(result: dict[str, Any]) -> list[tuple[bool, str]]:
    ready, judged = (statistics.median(v) for v in result["start_up_seconds"].values())
    start = f"start-up {ready:.3f} s, with first verdicts {judged:.3f} s (<= {AT_MOST_START_S} s)"
    memory = result["memory_mb_per_worker"]
    kind = "pss" if "pss" in memory else "rss"
    text = f"memory of a worker: {kind.upper()} {memory[kind]:.1f} MiB, RSS {memory['rss']:.1f} MiB"
    return [
        (judged <= AT_MOST_START_S, start),
        (memory[kind] <= AT_MOST_MB, f"{text} ({kind.upper()} <= {AT_MOST_MB:g} MiB)"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds that count (15)")
    parser.add_argument("--samples", type=int, default=80, help="programs per round (80)")
    parser.add_argument("--starts", type=int, default=7, help="evaluators started (7)")
    parser.add_argument("--livecodebench", metavar="PATH", default="", help="a checkout to run")
    parser.add_argument("--against", metavar="PATH", default="", help="a checkout of mcbench")
    parser.add_argument("--quick", action="store_true", help="one small round, no trainer")
    parser.add_argument("--output", type=Path, help="write the result here as JSON")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.samples, options.starts = 1, 6, 1
    result = measure(options)
    report(result)
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
