"""What the profile smollm2-135m costs on this machine, beside the arithmetic of its matrices.

    python benchmarks/smol.py --output benchmarks/smol.json      # nothing else running; 15 minutes

- **sampling**: 64 responses of up to 96 tokens, 8 to each of 8 problems of ``easy:train``, in
  batches of 8 to 64, in float32 and with the weights in bf16;
- **update**: one forward and backward pass over the same 64 prompts and responses, in passes of 8,
  in float32 and under bf16 autocast; and one generation of the profile, of the whole
  model and of adapters (64 responses sampled, judged and trained on in two updates), its seconds as
  the run's record divides them;
- **arithmetic**: the products of matrices of a forward pass over 64 to 1,024 tokens in both
  precisions, so that each of the above can be told as a share of what they alone take.

Threads are as many as ``OMP_NUM_THREADS`` says (default: all cores).
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mcbench.data.prompts import prompt_for
from mcbench.files import write_json
from mcbench.runs.evaluate import select_problems
from mcbench.runs.problems import load_problems
from mcbench.runs.provenance import hardware
from mcbench.runs.resolve import resolve
from mcbench.runs.sampling import load_model, prompt_ids, transformers_policy
from mcbench.runs.store import read_run
from mcbench.runs.train import train
from mcbench.scale.measure import architecture, size_of

PROFILE = "smollm2-135m"
PROBLEMS, GROUP, LIMIT = 8, 8, 96
LORA = {"lora_rank": 32, "learning_rate": 1e-4}
BATCHES, WIDTHS = (8, 16, 32, 64), (64, 256, 1024)
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def seconds(work: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Median time of some rounds, and what the last one gave."""
    took, found = [], None
    for _ in range(rounds):
        started = time.perf_counter()
        found = work()
        took.append(time.perf_counter() - started)
    return statistics.median(took), found


def arithmetic(rounds: int) -> dict[str, dict[str, float]]:
    """GFLOP/s of one layer's matrices, by precision and tokens in a pass."""
    model = architecture(PROFILE)
    size = model.hidden_size // model.num_attention_heads
    h, q, k, i = (
        model.hidden_size, model.hidden_size, size * model.num_key_value_heads,
        model.intermediate_size,
    )  # fmt: skip
    sizes = [(h, q), (h, k), (h, k), (q, h), (h, i), (h, i), (i, h)]
    found: dict[str, dict[str, float]] = {}
    for name, dtype in PRECISIONS.items():
        matrices = [torch.randn(out, into).to(dtype) for into, out in sizes]
        found[name] = {}
        for width in WIDTHS:
            rows = [torch.randn(width, into).to(dtype) for into, _ in sizes]
            pairs = list(zip(rows, matrices, strict=True))
            work = lambda pairs=pairs: [torch.nn.functional.linear(a, b) for a, b in pairs]  # noqa: E731
            work()
            took, _ = seconds(work, 10 * rounds)
            flops = 2 * width * sum(into * out for into, out in sizes)
            found[name][str(width)] = flops / took / 1e9
    return found


def sampling(model: Any, tokenizer: Any, rounds: int) -> tuple[dict[str, Any], list[list[int]]]:
    """Seconds and tokens of the 64 responses by precision and batch; and the sequences (prompt and
    response) of the last batch in float32.
    """
    problems = select_problems(load_problems("easy:train"), PROBLEMS)
    prompts = [prompt_for(one, "chat") for one in problems]
    asked = [ids for ids in prompt_ids(tokenizer, prompts) for _ in range(GROUP)]
    found: dict[str, Any] = {}
    sequences: list[list[int]] = []
    for name, dtype in PRECISIONS.items():
        model.to(dtype)
        for batch in BATCHES:
            policy = transformers_policy(model, tokenizer, batch, stop_at_fence=True)
            work = lambda policy=policy: policy.respond(prompts, GROUP, LIMIT, 0.7, 0)  # noqa: E731
            took, responses = seconds(work, rounds)
            found[f"{name}, {batch} at once"] = {
                "seconds": took,
                "tokens": sum(map(len, responses)),
            }
            print(f"sampling {name}, {batch} at once: {took:.1f} s", flush=True)
        if name == "fp32":
            sequences = [a + b for a, b in zip(asked, responses, strict=True)]
    model.to(torch.float32)
    return found, sequences


def passes(model: Any, sequences: list[list[int]], rounds: int) -> dict[str, Any]:
    """Seconds of a forward and backward pass over the sequences, by precision."""
    order = sorted(sequences, key=len)
    groups = [order[n : n + GROUP] for n in range(0, len(order), GROUP)]

    def work(bf16: bool) -> None:
        for rows in groups:
            width = max(map(len, rows))
            ids = torch.tensor([row + [2] * (width - len(row)) for row in rows])
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        model.zero_grad()

    found: dict[str, Any] = {"tokens": sum(map(len, sequences))}
    for name in PRECISIONS:
        took, _ = seconds(lambda name=name: work(name == "bf16"), rounds)
        found[name] = took
        print(f"forward and backward {name}: {took:.1f} s", flush=True)
    return found


def generation(**changes: Any) -> dict[str, float]:
    """Seconds of one generation and its two updates by part, as a run records them."""
    settings = {"test_limit": 1, "small_eval_every": None, **changes}
    config = resolve(PROFILE, "grpo_plus", settings, steps=2)
    with tempfile.TemporaryDirectory() as folder:
        steps = read_run(train(config, folder).path).steps
    names = [name for name in steps.columns if name.startswith("time/")]
    return {name: float(steps[name].sum()) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    model, tokenizer = load_model(PROFILE)
    parameters = size_of(PROFILE).parameters  # the embeddings are the head's matrix
    report: dict[str, Any] = {"hardware": hardware(), "threads": torch.get_num_threads()}
    report["arithmetic_gflops"] = arithmetic(options.rounds)
    report["sampling"], sequences = sampling(model, tokenizer, options.rounds)
    report["update"] = passes(model, sequences, options.rounds)
    for name in PRECISIONS:
        speed = report["arithmetic_gflops"][name]["1024"] * 1e9
        matrices = 6 * parameters * report["update"]["tokens"] / speed
        report["update"][f"{name}, matrices alone"] = matrices
    del model
    report["generation_of_64"] = {"whole": generation(), "LoRA": generation(**LORA)}
    if options.output:
        write_json(options.output, report)
    for part, found in report.items():
        print(part, found)


if __name__ == "__main__":
    main()
