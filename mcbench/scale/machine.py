"""What a machine can do, as constants of the formulas in ``estimate.py``: nominal for GPUs by name,
measured by a probe of some seconds for the machine at hand.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mcbench.scale.shapes import ModelShape

GIB = 2**30
Clock = Callable[[], float]


@dataclass(frozen=True)
class Rates:
    """Seconds of a pass through the model: ``layer_s`` x layers + ``flop_s`` x FLOPs + ``byte_s`` x
    bytes moved. The sum, not the larger of the two: an upper bound of the roofline that is exact
    where one of them dominates.
    """

    layer_s: float
    flop_s: float
    byte_s: float

    def seconds(self, layers: float, flops: float, moved: float) -> float:
        """Of passes with these totals."""
        return self.layer_s * layers + self.flop_s * flops + self.byte_s * moved


@dataclass(frozen=True)
class Machine:
    """One machine, or one kind of GPU in a number of them.

    ``memory`` is bytes of one device (of the whole machine without GPUs), ``base_memory`` what a
    training process holds there before the model. ``decode`` and ``update`` are the rates of
    sampling with transformers and of forward-backward passes; ``engine`` of sampling with vLLM,
    which replaces the launches of a layer by a recorded graph. ``record_s`` are the seconds between
    the last update of a generation and the next: log and checkpoint. ``submission_s`` and
    ``test_s`` are the evaluator's processor seconds.
    """

    name: str
    gpu: bool
    devices: int
    cores: int
    memory: float
    base_memory: float
    decode: Rates
    update: Rates
    engine: Rates
    record_s: float
    submission_s: float
    test_s: float
    measured: bool

    def with_devices(self, count: int) -> Machine:
        """The same kind, another number of devices."""
        return replace(self, devices=count)


# name: memory (bytes), bf16 FLOP/s without sparsity, bytes/s, as NVIDIA publishes them.
_GPUS = {
    "A100-80GB": (80e9, 312e12, 2.0e12),
    "H100-80GB": (80e9, 989e12, 3.35e12),
    "H200-141GB": (141e9, 989e12, 4.8e12),
}
# Shares of those numbers that trainers and samplers of this size are commonly seen to reach, and
# seconds a layer costs whatever its size: some 30 launches of 10 us from Python, twice as many with
# the backward pass, or a part of a recorded graph. benchmarks/gpu.py measures them on a GPU.
_UPDATE_SHARE, _DECODE_SHARE, _BANDWIDTH_SHARE = 0.40, 0.40, 0.60
_EAGER_LAYER_S, _UPDATE_LAYER_S, _GRAPH_LAYER_S = 3e-4, 9e-4, 1e-5
_CUDA_CONTEXT = 1.5 * GIB


def nominal_gpu(name: str, devices: int = 1, cores: int = 16) -> Machine:
    """A GPU by its published numbers; what the evaluator takes is of this machine's order.

    Raises:
        KeyError: not one of ``GPU_NAMES``.
    """
    memory, flops, bandwidth = _GPUS[name]
    byte_s = 1 / (_BANDWIDTH_SHARE * bandwidth)
    return Machine(
        name=name,
        gpu=True,
        devices=devices,
        cores=cores,
        memory=memory,
        base_memory=_CUDA_CONTEXT,
        decode=Rates(_EAGER_LAYER_S, 1 / (_DECODE_SHARE * flops), byte_s),
        update=Rates(_UPDATE_LAYER_S, 1 / (_UPDATE_SHARE * flops), byte_s),
        engine=Rates(_GRAPH_LAYER_S, 1 / (_DECODE_SHARE * flops), byte_s),
        record_s=0.0,
        submission_s=0.02,
        test_s=0.05,
        measured=False,
    )


GPU_NAMES = tuple(_GPUS)


# The machine at hand ------------------------------------------------------------------------------

# Shape, prompts, responses a prompt, longest response, responses a pass: small and different enough
# to tell a layer's fixed cost, arithmetic and memory traffic apart.
_PROBES = (
    (ModelShape(64, 2, 2, 2, 32, 176, 448, tied=True), 2, 8, 24, 8),
    (ModelShape(128, 3, 4, 4, 32, 352, 448, tied=True), 2, 8, 32, 4),
    (ModelShape(128, 3, 4, 4, 32, 352, 448, tied=True), 8, 8, 48, 16),
    (ModelShape(128, 3, 4, 4, 32, 352, 448, tied=True), 8, 8, 128, 16),
    (ModelShape(192, 4, 6, 6, 32, 528, 448, tied=True), 8, 8, 48, 32),
    (ModelShape(192, 4, 6, 6, 32, 528, 448, tied=True), 16, 8, 32, 16),
)
_GENERATIONS = 4


@dataclass(frozen=True)
class Sample:
    """One measured trainer: seconds of a generation (with what follows it until the first update),
    of an update of ``passes`` passes, and of a checkpoint.
    """

    shape: ModelShape
    rows: int
    prompt: int
    length: int
    per_device: int
    passes: int
    generate_s: float
    update_s: float
    record_s: float


def probe(clock: Clock = time.perf_counter) -> Machine:
    """Measure the machine at hand: small trainers on the CPU, and the evaluator.

    Args:
        clock: seconds; ``time.process_time`` leaves out what other processes take.
    """
    smallest = _sample(*_PROBES[0], clock)
    base = resident_memory()  # a whole trainer, and a model of half a megabyte
    samples = [smallest, *(_sample(*probed, clock) for probed in _PROBES[1:])]
    update = _fit([(_update_work(s), s.update_s) for s in samples])
    decode = _fit([(_decode_work(s), s.generate_s - _scoring_s(s, update)) for s in samples])
    submission_s, test_s = _evaluator_costs()
    return replace(
        unmeasured(),
        base_memory=base,
        decode=decode,
        update=update,
        engine=decode,
        record_s=float(np.median([s.record_s for s in samples])),
        submission_s=submission_s,
        test_s=test_s,
        measured=True,
    )


def unmeasured() -> Machine:
    """This machine's processor without a probe: for what it holds, not for how fast it is."""
    import mcbench.grpo.trainer  # noqa: F401  (part of what a training process holds)

    none = Rates(0.0, 0.0, 0.0)
    return Machine(
        name=os.uname().nodename,
        gpu=False,
        devices=1,
        cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        base_memory=resident_memory(),
        decode=none,
        update=none,
        engine=none,
        record_s=0.0,
        submission_s=0.0,
        test_s=0.0,
        measured=False,
    )


def resident_memory() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _update_work(sample: Sample) -> tuple[float, float, float]:
    from mcbench.scale.estimate import update_work

    tokens = sample.prompt + sample.length
    work = update_work(sample.shape, sample.per_device, tokens, sample.length, 4, False)
    layers, flops, moved = (sample.passes * part for part in work)
    return layers, flops, moved + 32 * sample.shape.parameters


def _scoring_s(sample: Sample, update: Rates) -> float:
    """The log-probabilities of all rows before the first update: a third of a training pass."""
    passes = sample.rows / sample.per_device / sample.passes
    return sample.update_s * passes / 3


def _decode_work(sample: Sample) -> tuple[float, float, float]:
    from mcbench.scale.estimate import decode_work, prefill_work

    context = sample.prompt + sample.length / 2
    step = decode_work(sample.shape, sample.rows, context, 4, growing=True)
    prefill = prefill_work(sample.shape, sample.rows, sample.prompt, 4)
    layers, flops, moved = (p + sample.length * s for p, s in zip(prefill, step, strict=True))
    return layers, flops, moved


def _fit(samples: Sequence[tuple[tuple[float, float, float], float]]) -> Rates:
    """Constants >= 0 with the least squared relative error."""
    from scipy.optimize import nnls

    seconds = np.array([max(s, 1e-6) for _, s in samples])
    work = np.array([w for w, _ in samples])
    scale = work.max(axis=0)
    found, _ = nnls(work / scale / seconds[:, None], np.ones(len(seconds)))
    return Rates(*(found / scale).tolist())


def _sample(
    shape: ModelShape, prompts: int, group: int, length: int, per_device: int, clock: Clock
) -> Sample:
    """Four generations of two updates each with a random model: medians without the first."""
    from transformers.trainer_callback import PrinterCallback

    from mcbench.grpo import BatchPlan
    from mcbench.runs.sampling import quiet

    quiet()
    plan = BatchPlan(prompts, prompts // 2, group, per_device)
    prompt = "in 1 out 2\n" * 4
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(shape, plan, length, prompt, folder)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(_marker(marks, clock))
        trainer.on_generation = lambda batch: marks.append(clock())
        trainer.train()
    # a generation: begin, generated, end | begin, end
    times = np.array(marks).reshape(_GENERATIONS, 5)[1:]
    begin, generated, end, begin_next, end_next = times.T
    return Sample(
        shape=shape,
        rows=prompts * group,
        prompt=len(trainer.processing_class(prompt)["input_ids"]),
        length=length,
        per_device=per_device,
        passes=plan.gradient_accumulation_steps,
        generate_s=float(np.median(generated - begin)),
        update_s=float(np.median((end - generated + end_next - begin_next) / 2)),
        record_s=float(np.median(begin[1:] - end_next[:-1])),
    )


def _marker(marks: list[float], clock: Clock) -> Any:
    """A callback that notes the beginning and the end of every update."""
    from transformers import TrainerCallback

    class Marker(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            marks.append(clock())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            marks.append(clock())

    return Marker()


def _trainer(shape: ModelShape, plan: Any, length: int, prompt: str, folder: str) -> Any:
    from datasets import Dataset

    from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer
    from mcbench.nano.tokenizer import load_tokenizer

    settings: dict[str, Any] = dict(
        output_dir=folder, max_steps=2 * _GENERATIONS, max_completion_length=length, report_to=[],
        save_strategy="steps", save_steps=2, logging_steps=1, disable_tqdm=True, use_cpu=True,
        bf16=False, gradient_checkpointing=False, **plan.trl_args(),
    )  # fmt: skip
    tokenizer = load_tokenizer()
    return MicroCoderGRPOTrainer(
        model=random_model(shape, tokenizer),
        args=MicroCoderGRPOConfig(**settings),
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict(
            {"prompt": [prompt] * _GENERATIONS * plan.train_batch_size}
        ),
        reward_funcs=lambda completions, **_: [float(len(c) % 2) for c in completions],
    )


def random_model(shape: ModelShape, tokenizer: Any) -> Any:
    """A Qwen3 (Qwen2 where the shape has biases) with random weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

    sizes: dict[str, Any] = dict(  # noqa: C408
        vocab_size=shape.vocab, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, tie_word_embeddings=shape.tied, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    if shape.qkv_bias:
        return Qwen2ForCausalLM(Qwen2Config(**sizes))
    return Qwen3ForCausalLM(Qwen3Config(head_dim=shape.head_dim, **sizes))


def _evaluator_costs(count: int = 48) -> tuple[float, float]:
    """Seconds of a core for one submission and for each of its tests."""
    from mcbench.evaluator import Evaluator, StdioTest, Submission

    cores = len(os.sched_getaffinity(0))
    took = {}
    with Evaluator(workers=cores) as evaluator:
        for tests in (1, 1, 9):  # once to warm up
            checks = [StdioTest(stdin="1\n", expected="1")] * tests
            work = [Submission(code=f"print(input())  # {i}", tests=checks) for i in range(count)]
            started = time.perf_counter()
            evaluator.evaluate(work)
            took[tests] = (time.perf_counter() - started) * cores / count
    test_s = max(0.0, took[9] - took[1]) / 8
    return max(0.0, took[1] - test_s), test_s
