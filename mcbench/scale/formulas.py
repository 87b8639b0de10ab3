"""What a run needs and takes, as formulas; ``estimate.py`` puts them together.

The formulas are in the docstrings and in ``docs/scaling.md``; the constants come from
``machine.py``. The time on a processor comes from finished runs (``pace.py``). N: parameters, M:
those in matrices, h: hidden size, V: vocabulary, R: responses sampled at once by one process, B:
responses in one forward-backward pass, p: prompt tokens, L: longest response, T = p + L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mcbench.runs.config import Config
from mcbench.scale.machine import Machine
from mcbench.scale.shapes import ModelShape

SHARDINGS = ("none", "zero2", "zero3", "fsdp2")
# What TRL's fused head holds at once: tokens x vocabulary of one tile, in float32, with the
# gradient and two more of its size where torch computes it.
HEAD_TOKENS, HEAD_VOCABULARY = 4096, 32768
ADAM_BYTES = 8  # two float32 moments
STEP_BYTES = 32  # an optimizer step: reads and writes weight, gradient and both moments
# Seconds that a layer costs whatever its size: some 30 launches of 10 us from Python, with the
# backward pass three times as many, or a part of vLLM's recorded graph.
SAMPLE_LAYER_S, UPDATE_LAYER_S, GRAPH_LAYER_S = 3e-4, 9e-4, 1e-5
# Processor seconds of the evaluator for a submission, and for each of its tests.
SUBMISSION_S, TEST_S = 0.02, 0.05
FIRST_SPAN = 64  # tokens of an evaluation's first span
DISK_BYTE_S = 1e-9  # of a checkpoint, a disk of 1 GB/s
# Where a GPU's memory is not all there is to have: fragments, and what libraries hold.
SPARE = 0.05
_MOST_OF_A_GPU, _STEP_OF_A_GPU = 0.8, 0.05


@dataclass(frozen=True)
class Workload:
    """What the lengths and numbers of a run come to. ``prompt`` is the longest, in tokens;
    ``tests`` the mean number of a problem.
    """

    prompt: int
    mean_length: float
    tests: float
    eval_problems: int


@dataclass(frozen=True)
class Memory:
    """Bytes of one process on its device, and what they are for. ``engine`` is what a vLLM that
    does not sleep keeps during the updates; ``reference`` what stays of the reference model and
    ``gathered`` what is whole of it for a moment; ``gradients`` with their copies in flight.
    """

    base: float
    weights: float
    gradients: float
    optimizer: float
    reference: float
    gathered: float
    engine: float
    update: float
    sampling: float
    evaluation: float

    @property
    def peak(self) -> float:
        """What stays, and the largest of what comes and goes: an update with its gradients, which
        the optimizer step frees, a generation or an evaluation.
        """
        kept = self.base + self.weights + self.optimizer + self.reference + self.engine
        updating = self.gradients + self.update
        return kept + max(updating, self.gathered + self.update, self.sampling, self.evaluation)


@dataclass(frozen=True)
class Time:
    """Seconds. A cycle is one generation with all that follows it until the next."""

    generation: float
    reward: float
    scoring: float
    update: float
    updates_per_cycle: int
    cycles: float
    evaluation: float
    evaluations: float
    checkpoint: float = 0.0
    checkpoints: float = 0.0

    @property
    def cycle(self) -> float:
        """The rewards are computed beside the log-probabilities of the policy."""
        waiting = max(self.reward, self.scoring)
        return self.generation + waiting + self.updates_per_cycle * self.update

    @property
    def total(self) -> float:
        """The whole run with its evaluations and checkpoints."""
        saving = self.checkpoints * self.checkpoint
        return self.cycles * self.cycle + self.evaluations * self.evaluation + saving


def trained_parameters(config: Config, shape: ModelShape) -> int:
    """All of them, or those of the adapters."""
    return shape.lora_parameters(config.lora_rank) if config.lora_rank else shape.parameters


def layer_activations(shape: ModelShape) -> int:
    """Numbers a layer keeps for its backward pass, per token."""
    return 7 * shape.hidden + 8 * shape.query + 6 * shape.key + 4 * shape.intermediate


# Layers, FLOPs and bytes of a pass through the model.
Work = tuple[float, float, float]


def update_work(
    shape: ModelShape, rows: int, tokens: float, scored: float, width: float, checkpointing: bool
) -> Work:
    """Of one forward-backward pass over ``rows`` responses of ``tokens``.

    6 M FLOPs a token (8 M with checkpointing, which repeats the forward pass), the head on the
    ``scored`` ones and once more for its gradient, and attention 4 q T/2 a token and layer in each
    pass. The bytes are those of the activations, written and read.
    """
    passes = 4 if checkpointing else 3
    in_layers = shape.layers * shape.layer_matmul_parameters
    attention = shape.layers * 4 * shape.query * tokens / 2
    head = 8 * shape.vocab * shape.hidden * rows * scored
    flops = passes * rows * tokens * (2 * in_layers + attention) + head
    moved = 2 * width * rows * tokens * shape.layers * layer_activations(shape)
    return shape.layers + 2, flops, moved


def decode_work(
    shape: ModelShape, rows: float, context: float, width: float, growing: bool
) -> Work:
    """Of one decoding step of ``rows`` responses with ``context`` tokens.

    2 M FLOPs a response, and 4 q context a layer for attention. Bytes: the weights once, the cache
    (three times where it grows by copying: read, written, read by attention) and the logits.
    """
    attention = shape.layers * 4 * shape.query * context
    flops = rows * (2 * shape.matmul_parameters + attention)
    cache = (3 if growing else 1) * rows * context * shape.cache_values() * width
    moved = shape.matmul_parameters * width + cache + rows * shape.vocab * 16
    return shape.layers + 2, flops, moved


def length_scale(mean: float, limit: float) -> float:
    """Of the exponential distribution that has this mean when it is cut at ``limit``."""
    low, high = mean, 1e6 * limit
    if mean >= limit:
        return high
    for _ in range(100):
        scale = math.sqrt(low * high)
        low, high = (scale, high) if mean_when_cut(scale, limit) < mean else (low, scale)
    return scale


def mean_when_cut(scale: float, limit: float) -> float:
    """Mean length where lengths are exponential and cut at ``limit``."""
    return scale * -math.expm1(-limit / scale)


@dataclass(frozen=True)
class Formulas:
    """What an estimate is computed from. Seconds are those of GPUs."""

    config: Config
    shape: ModelShape
    load: Workload
    machine: Machine
    processes: int
    sharding: str

    @property
    def trained(self) -> int:
        return trained_parameters(self.config, self.shape)

    @property
    def rows(self) -> int:
        """R: responses that one process samples in one call."""
        return self.config.train_batch_size * self.config.num_generations // self.processes

    @property
    def number_bytes(self) -> int:
        """Of a number in the cache."""
        return 2 if self.config.precision == "bf16" else 4

    @property
    def activation_bytes(self) -> int:
        """Of a number kept for the backward pass: in bf16 autocast half of them have 2."""
        return 3 if self.config.precision == "bf16" else 4

    def survivors(self, length: float) -> float:
        """Share of responses longer than ``length``."""
        limit = self.config.max_completion_length
        return math.exp(-length / length_scale(self.load.mean_length, limit))

    # Memory --------------------------------------------------------------------------------------

    @property
    def sharers(self) -> int:
        """Processes that the weights are divided over."""
        return self.processes if self.sharding in ("zero3", "fsdp2") else 1

    def kept(self) -> dict[str, float]:
        """What stays: weights 4 N bytes (float32 master weights, with LoRA those of the adapters
        too), moments 8 bytes for each trained parameter, a reference model, 4 N, where beta > 0
        (under LoRA it is the model without them); each divided where it is sharded.
        """
        whole, adapters = self.shape.parameters, bool(self.config.lora_rank)
        with_reference = (self.config.beta or 0.0) > 0 and not adapters
        return {
            "base": self.machine.base_memory,
            "weights": 4 * (self.trained + whole * adapters) / self.sharers,
            "optimizer": ADAM_BYTES * self.trained / self.state_sharers,
            "reference": 4 * whole / self.sharers if with_reference else 0.0,
        }

    @property
    def state_sharers(self) -> int:
        """Processes that gradients and moments are divided over."""
        return self.processes if self.sharding != "none" else 1

    def memory(self) -> Memory:
        """Of one process: what is kept, gradients of 4 bytes for each trained parameter, and what
        comes and goes.
        """
        kept, sampling = self.kept(), self.sampling_memory()
        stays = self.config.backend == "vllm_colocate" and not self.config.vllm_sleep
        # DDP reduces copies of the gradients, in buckets.
        copies = 2 if self.processes > 1 and self.sharding == "none" else 1
        # TRL shards a reference model as one unit: all of it is gathered to score a batch.
        gathers = kept["reference"] and self.sharers > 1
        return Memory(
            **kept,
            gradients=copies * 4 * self.trained / self.state_sharers,
            gathered=self.number_bytes * self.shape.parameters if gathers else 0.0,
            engine=sampling if stays else 0.0,
            update=self.update_memory(),
            sampling=0.0 if stays else sampling,
            evaluation=self.evaluation_memory(),
        )

    def update_memory(self) -> float:
        """Activations of B x T tokens, and what comes and goes beside them: one layer at a time
        where it is computed again, the head, or the copy of the weights in bf16.

        A layer keeps about 7 h + 8 q + 6 k + 4 i numbers a token (q, k: widths of all query and key
        heads, i: intermediate) for its backward pass: norms and residual, projections, rotation and
        attention, gate. With checkpointing only its input, h in float32, and those of one layer and
        one of the passes by length at a time. The head keeps 16 h bytes a scored token, works in
        four tiles, and its weight's gradient is there in float32, in bf16, as the sum over the
        passes and for the embeddings. Autocast keeps a copy of the trained weights until the loss
        is known.
        """
        config, shape, rows = self.config, self.shape, self.config.per_device_batch_size
        scored = rows * config.max_completion_length
        tokens = scored + rows * self.load.prompt
        layer = tokens * self.activation_bytes * layer_activations(shape)
        again = config.gradient_checkpointing
        kept = (4 * tokens * shape.hidden if again else layer) * shape.layers
        passes = min(config.length_groups, rows)
        tile = 4 * min(scored / passes, HEAD_TOKENS) * min(shape.vocab, HEAD_VOCABULARY)
        whole = 4 * shape.vocab * shape.hidden
        copied = 2 * self.trained * (config.precision == "bf16" and self.sharers == 1)
        gathered = 4 * shape.layer_matmul_parameters * 2 if self.sharers > 1 else 0
        passing = max(again * layer / passes + whole, 4 * tile + 4 * whole, copied + tile)
        return kept + 16 * scored * shape.hidden + passing + gathered

    def sampling_memory(self) -> float:
        """Transformers: the cache of all R responses at full length, one layer's twice while it
        grows, and four copies of the logits of one position. Continuous batching and colocated
        vLLM: their share of the device. A server's is its own.
        """
        if self.config.backend == "vllm_server":
            return 0.0
        if self.config.backend != "transformers":
            return self.engine_share() * self.machine.memory
        return self.cache(self.rows, self.load.prompt + self.config.max_completion_length)

    def engine_share(self) -> float:
        """Share of a GPU for vLLM, or for a paged cache: what the run says; else what is left, in
        twentieths: beside weights and moments where it gives its memory back, beside
        the update too where it does not. At most what all responses at their limit fill.
        """
        if self.config.vllm_memory is not None:
            return self.config.vllm_memory
        longest, kept = self.load.prompt + self.config.longest_response, self.kept()
        held = sum(kept.values())
        if not self.config.vllm_sleep:
            held += 4 * self.trained / self.state_sharers + self.update_memory()
        free = (1 - 2 * SPARE) * self.machine.memory - held
        useful = 2 * self.shape.parameters + self.cache(self.rows, longest) + kept["base"]
        share = min(free, useful) / self.machine.memory
        steps = math.floor(share / _STEP_OF_A_GPU)
        return min(_MOST_OF_A_GPU, max(1, steps) * _STEP_OF_A_GPU)

    def cache(self, rows: int, tokens: int) -> float:
        values = self.shape.cache_values() * (1 + 1 / self.shape.layers)
        return rows * (tokens * values * self.number_bytes + 4 * 4 * self.shape.vocab)

    def evaluation_memory(self) -> float:
        """As sampling, by the same engine; transformers samples at most ``eval_batch_size``
        responses at once, and those that go on past half the longest length are prefilled again.
        """
        if self.config.backend != "transformers":
            return 0.0
        config, shape, prompt = self.config, self.shape, self.load.prompt
        rows = min(config.eval_batch_size, self.load.eval_problems * config.eval_attempts)
        longest = max(config.eval_lengths)
        going_on = rows * self.survivors(longest / 2)
        widths = 3 * shape.intermediate + 4 * shape.hidden
        prefill = going_on * (prompt + longest / 2) * 4 * widths
        again = self.cache(math.ceil(going_on), prompt + longest)
        return max(self.cache(rows, prompt + longest // 2), again + prefill)

    # Time ----------------------------------------------------------------------------------------

    def seconds(self, layer_s: float, work: Work) -> float:
        """Of a pass through the model: launches + arithmetic + memory traffic. The sum, not the
        largest of the three: an upper bound of the roofline, exact where one of them dominates.
        """
        layers, flops, moved = work
        return layer_s * layers + self.machine.flop_s * flops + self.machine.byte_s * moved

    def time(self) -> Time:
        """A cycle: generation + max(reward, scoring) + updates x update.

        Scoring, the policy's log-probabilities of all responses before the first update, is a third
        of a pass over them (beta > 0: of two models). An optimizer step moves 32 bytes a trained
        parameter. One pass pads to the longest response and costs the limit; as many passes as it
        has rows, of one response each, cost the mean.
        """
        config, length = self.config, self.config.max_completion_length
        rows = config.per_device_batch_size
        groups = min(config.length_groups, rows)
        padded = (rows / groups - 1) / (rows - 1) if rows > 1 else 0.0
        scored = self.load.mean_length + padded * max(0.0, length - self.load.mean_length)
        work = update_work(
            self.shape, rows, self.load.prompt + scored, scored, self.activation_bytes,
            config.gradient_checkpointing,
        )  # fmt: skip
        one_pass = groups * UPDATE_LAYER_S * work[0] + self.seconds(0.0, work)
        step = self.machine.byte_s * STEP_BYTES * self.trained
        models = 2 if (config.beta or 0.0) > 0 else 1
        passes = config.batch(self.processes).gradient_accumulation_steps
        return Time(
            generation=self.generation_seconds(self.rows, length, self.load.mean_length),
            reward=self.reward_seconds(self.rows),
            scoring=models * self.rows / rows * one_pass / 3,
            update=passes * one_pass + step,
            updates_per_cycle=config.generation_period,
            cycles=config.steps / config.generation_period,
            evaluation=self.evaluation_seconds(),
            evaluations=self.whole_evaluations(),
            checkpoint=DISK_BYTE_S * self.checkpoint_bytes,
            checkpoints=config.steps / (config.generation_period * config.checkpoint_generations),
        )

    @property
    def checkpoint_bytes(self) -> int:
        """Weights and moments; FSDP2 writes the weights twice, as a model and to resume from."""
        return (4 + ADAM_BYTES + 4 * (self.sharding == "fsdp2")) * self.trained

    def whole_evaluations(self) -> float:
        """Evaluations in units of one of all problems at one temperature: the first, those due and
        the last, at every temperature; and the small ones in between.
        """
        config = self.config
        whole = 1 + -(-config.steps // config.eval_every)
        found = float(whole * (1 + len(config.eval_other_temperatures)))
        if config.small_eval_every:
            small = config.steps // config.small_eval_every + 1 - whole
            limit = config.small_eval_limit
            found += max(0, small) * min(1.0, limit / max(1, self.load.eval_problems))
        return found

    def generation_seconds(self, rows: int, length: int, mean_length: float) -> float:
        """Transformers: the prompts, then L steps of all R responses, until the longest has ended.
        With a paged cache (continuous batching, vLLM) an ended response makes room: R x mean
        tokens, C at a time, where C responses fit the cache, and at least L steps.
        """
        shape, width, prompt = self.shape, self.number_bytes, self.load.prompt
        if self.config.backend == "transformers":
            # float32 weights, and under autocast the bf16 copy
            return self.decode_seconds(length, rows, prompt, 6 if width == 2 else 4)
        room, layer_s = self.engine_share() * self.machine.memory, SAMPLE_LAYER_S
        if self.config.backend.startswith("vllm"):
            room, layer_s = room - 2 * shape.parameters, GRAPH_LAYER_S
        at_once = max(1, int(room / (shape.cache_values() * width * (prompt + mean_length))))
        steps = float(length)
        if at_once < rows:
            steps = rows * mean_length / at_once + length - mean_length
        active, context = rows * mean_length / steps, prompt + mean_length / 2
        step = decode_work(shape, active, context, width, growing=False)
        return steps * self.seconds(layer_s, step)

    def decode_seconds(self, steps: int, rows: float, prompt: int, weight_bytes: float) -> float:
        """Of transformers: the pass over the prompts, and a step for each token."""
        shape, width = self.shape, self.number_bytes
        layers, flops, _ = decode_work(shape, rows * prompt, prompt / 2, width, growing=False)
        prefill = (layers, flops, shape.matmul_parameters * width)
        layers, flops, moved = decode_work(shape, rows, prompt + steps / 2, width, growing=True)
        moved += shape.matmul_parameters * (weight_bytes - width)
        step = self.seconds(SAMPLE_LAYER_S, (layers, flops, moved))
        return self.seconds(SAMPLE_LAYER_S, prefill) + steps * step

    def reward_seconds(self, responses: float, evaluators: int | None = None) -> float:
        """(a submission + its tests) x responses of one process over the workers of its evaluator,
        at most one a core; every process has an evaluator of its own.

        Judging ends at the first failure: half of the responses are taken to fail at their first
        test.
        """
        cores = self.machine.cores / (evaluators or self.processes)
        workers = min(float(self.config.reward_workers), cores)
        tests = (1 + self.load.tests) / 2
        return responses * (SUBMISSION_S + tests * TEST_S) / workers

    def evaluation_seconds(self) -> float:
        """Held-out problems at the longest of the lengths, judged by the first process's evaluator.
        An engine samples them on all processes, transformers on one (or all in step), in spans
        that double: a response that has ended leaves the batch (:mod:`mcbench.grpo.decode`).
        """
        config, load = self.config, self.load
        responses = load.eval_problems * config.eval_attempts
        longest, limit = max(config.eval_lengths), config.max_completion_length
        seconds, done = self.reward_seconds(responses, evaluators=1), 0
        if config.backend != "transformers":
            mean_length = mean_when_cut(length_scale(load.mean_length, limit), longest)
            here = math.ceil(responses / self.processes)
            return seconds + self.generation_seconds(here, longest, mean_length)
        while done < longest:
            span = min(max(FIRST_SPAN, done), longest - done)
            rows = responses * self.survivors(done)
            batches = math.ceil(rows / config.eval_batch_size)
            seconds += batches * self.decode_seconds(
                span, rows / batches, load.prompt + done, self.number_bytes
            )
            done += span
        return seconds
