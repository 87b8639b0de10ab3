"""Evaluating a model on a benchmark, from a request to results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mcbench.errors import UserError, unknown
from mcbench.runs.benchmark_run import BenchmarkRun, EvaluationSettings
from mcbench.runs.evaluate import EvalResult
from mcbench.runs.problems import model_digest, model_location, open_benchmark
from mcbench.runs.sampling import Sampler, end_tokens, transformers_sampler


@dataclass(frozen=True)
class EvaluationRequest:
    """What ``mcbench evaluate`` is asked for; what is not given takes the benchmark's own value.

    Args:
        path: a local copy of the set; empty reads the hub.
        start, end: dates of publication, both included.
        limit: only this many problems, evenly spread.
        backend: ``transformers`` or ``vllm``.
        folder: where samples and verdicts are kept; by default one that the settings name.
    """

    model: str
    benchmark: str
    lengths: tuple[int, ...]
    path: str = ""
    start: str = ""
    end: str = ""
    limit: int | None = None
    attempts: int | None = None
    temperature: float | None = None
    seed: int = 0
    prompt_style: str = "chat"
    backend: str = "transformers"
    batch_size: int = 64
    workers: int = 2
    folder: Path | None = None
    cache: Path = Path("runs/benchmarks")

    def __post_init__(self) -> None:
        if self.backend not in ("transformers", "vllm"):
            raise unknown("backend", self.backend, ("transformers", "vllm"))
        for name in ("limit", "batch_size", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, got {value}")


def open_run(request: EvaluationRequest, *, progress: bool = False) -> BenchmarkRun:
    """The evaluation that is asked for, before anything is sampled.

    Raises:
        UserError: an unknown benchmark, a missing model, or a set that cannot be read.
    """
    location = model_location(request.model)  # first: the most likely mistake
    opened = open_benchmark(request.benchmark, request.cache, request.path, progress=progress)
    if request.start or request.end:
        opened = opened.window(request.start, request.end)
    problems = opened.spread(request.limit)
    known = problems.benchmark
    temperature = known.temperature if request.temperature is None else request.temperature
    settings = EvaluationSettings(
        benchmark=known.name,
        problems=problems.digest,
        model=request.model,
        model_digest=model_digest(location),
        lengths=request.lengths,
        attempts=known.attempts if request.attempts is None else request.attempts,
        temperature=temperature,
        seed=request.seed,
        prompt_style=request.prompt_style,
    )
    folder = request.folder or request.cache / "evaluations" / settings.id
    return BenchmarkRun(folder, problems, settings)


def evaluate_benchmark(
    request: EvaluationRequest, *, progress: bool = False
) -> tuple[BenchmarkRun, list[EvalResult]]:
    """Evaluate a model on a benchmark, going on where an interrupted evaluation stopped.

    Returns:
        The evaluation with its samples, and one result for each length.

    Raises:
        UserError: as `open_run`, or the model cannot be loaded.
    """
    from mcbench.evaluator import Evaluator

    run = open_run(request, progress=progress)
    if run.done == len(run.problems):
        return run, run.results()
    sample, tokenizer, ends = _sampler(request)
    with Evaluator(workers=request.workers) as evaluator:
        return run, run.run(sample, tokenizer, ends, evaluator, progress=progress)


def _sampler(request: EvaluationRequest) -> tuple[Sampler, Any, list[int]]:
    """Sampler, tokenizer and the ids that end a response."""
    if request.backend == "vllm":
        from transformers import AutoTokenizer, GenerationConfig

        location = model_location(request.model)
        tokenizer = AutoTokenizer.from_pretrained(location)
        configured = GenerationConfig.from_pretrained(location)
        ends = end_tokens(SimpleNamespace(generation_config=configured), tokenizer)
        return vllm_engine_sampler(location), tokenizer, ends
    import torch

    from mcbench.runs.train import load_model

    model, tokenizer = load_model(request.model)
    if torch.cuda.is_available():
        model.to("cuda", torch.bfloat16)
    sampler = transformers_sampler(model, tokenizer, request.batch_size)
    return sampler, tokenizer, end_tokens(model, tokenizer)


def vllm_engine_sampler(
    location: str, *, memory: float = 0.9, max_model_length: int | None = None
) -> Sampler:
    """A sampler with a vLLM engine of its own, for evaluating a model that is not being trained.

    Args:
        location: directory or hub id (:func:`mcbench.runs.problems.model_location`).
        memory: share of the GPU's memory.
        max_model_length: longest prompt and response together; None takes the model's.

    Raises:
        UserError: vLLM is not installed.
    """
    try:
        from vllm import LLM, SamplingParams
    except ImportError:
        raise UserError("vLLM is not installed; pip install -e '.[gpu]'") from None
    engine = LLM(model=location, gpu_memory_utilization=memory, max_model_len=max_model_length)

    def sample(
        prompts: Sequence[list[int]], max_new_tokens: int, temperature: float, seed: int
    ) -> list[list[int]]:
        outputs = engine.generate(
            [{"prompt_token_ids": ids} for ids in prompts],
            [
                SamplingParams(
                    temperature=temperature, top_p=1.0, max_tokens=max_new_tokens, seed=seed + i
                )
                for i in range(len(prompts))
            ],
        )
        return [list(output.outputs[0].token_ids) for output in outputs]

    return sample
