"""Time of an update: MicroCoderGRPOTrainer with everything on, against TRL's GRPOTrainer.

    python benchmarks/trainer.py                  # 30 rounds, about ten minutes on two cores
    python benchmarks/trainer.py --rounds 2       # a quick look

Both trainers train the same randomly initialised model in one process, in turn, a round of one
generated batch (several updates) each; who goes first alternates. The learning rate is 0 and every
round starts both from the same random state, so both generate and train on the same tokens: what
differs is the conditional mask, all metrics, the record hook and the parsing of one program per
response. The reward is nearly free, so that it cannot hide the overhead. Both wall time and time of
the processor are reported: on a shared machine the second scatters less.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from mcbench.grpo import GenerationBatch, MicroCoderGRPOConfig, MicroCoderGRPOTrainer
from mcbench.grpo.batch_plan import BatchPlan

VOCABULARY = 512
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
PROGRAM = """\
import sys

def solve(values):
    total = 0
    for value in values:
        if value % 2 == {number}:
            total += value * {number}
    return [value for value in values if value > total]

for line in sys.stdin:
    print(*solve([int(part) for part in line.split()]))
"""


class UpdateTimer(TrainerCallback):
    """Seconds from the start of the first update to the end of the last, logging included."""

    def __init__(self) -> None:
        self.first: tuple[float, ...] | None = None

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        if self.first is None:
            self.first = tuple(clock() for clock in CLOCKS.values())

    def elapsed(self) -> dict[str, float]:
        assert self.first is not None, "no update has run"
        first, self.first = dict(zip(CLOCKS, self.first, strict=True)), None
        return {name: clock() - first[name] for name, clock in CLOCKS.items()}


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = {"<eos>": 0, "<pad>": 1, **{f"w{i}": i for i in range(2, VOCABULARY)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", padding_side="left"
    )


def make_model(hidden: int, layers: int) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=3 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 48,
            num_key_value_heads=hidden // 96,
            head_dim=48,
            eos_token_id=0,
            pad_token_id=1,
            bos_token_id=None,
        )
    )


def reward(completions: list[str], **_: Any) -> list[float]:
    return [float(hash(text) % 3 == 0) for text in completions]


def make_trainers(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    plan = BatchPlan(
        options.prompts,
        options.prompts // options.updates,
        8,
        options.prompts * 8 // options.updates,
    )
    print(plan.describe())
    common = {
        **plan.trl_args(),
        "output_dir": folder,
        "max_steps": options.updates,
        "max_completion_length": options.tokens,
        "learning_rate": 0.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "gradient_checkpointing": False,
        "bf16": torch.cuda.is_available(),
        "use_cpu": not torch.cuda.is_available(),
    }
    ours = {
        "truncation_mask": "conditional",
        "repeat_rule": "periodic",
        "repeat_window": min(128, options.tokens // 2),
        "temperature_stages": [(0, 1.0)],
    }
    records: list[GenerationBatch] = []
    extract: Callable[[str], str] = lambda text: PROGRAM.format(number=hash(text) % 1000)  # noqa: E731
    kinds: dict[str, tuple[type, Any, dict[str, Any]]] = {
        "trl": (GRPOTrainer, GRPOConfig(**common), {}),
        "mcbench": (
            MicroCoderGRPOTrainer,
            MicroCoderGRPOConfig(**common, **ours),
            {"on_generation": records.append, "extract_program": extract},
        ),
    }
    prompts = [" ".join(f"w{2 + (7 * i + k) % 500}" for k in range(48)) for i in range(64)]
    trainers = {
        name: cls(
            model=make_model(options.hidden, options.layers),
            args=config,
            reward_funcs=reward,
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=make_tokenizer(),
            callbacks=[UpdateTimer()],
            **extra,
        )
        for name, (cls, config, extra) in kinds.items()
    }
    for trainer in trainers.values():
        trainer.remove_callback(PrinterCallback)
    return trainers


def timed_round(trainer: Any, seed: int) -> dict[str, float]:
    """Seconds per update of one generated batch and its updates, by each clock."""
    timer = next(c for c in trainer.callback_handler.callbacks if isinstance(c, UpdateTimer))
    torch.manual_seed(seed)
    trainer._buffered_inputs = None
    trainer.train()
    return {name: spent / trainer.args.max_steps for name, spent in timer.elapsed().items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        trainers = make_trainers(options, folder)
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in trainers}
        for number in range(options.rounds + 1):
            order: Sequence[str] = list(trainers)[:: 1 if number % 2 else -1]
            for name in order:
                spent = timed_round(trainers[name], number)
                if number:  # the first round warms up
                    rounds[name].append(spent)
            if number:
                print(f"round {number}/{options.rounds}", seconds_line(rounds), flush=True)
    return {
        "settings": {name: value for name, value in vars(options).items() if name != "output"},
        "updates_each": options.rounds * options.updates,
        **{clock: compared(rounds, clock) for clock in CLOCKS},
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }


def compared(rounds: dict[str, list[dict[str, float]]], clock: str) -> dict[str, Any]:
    """Median seconds of an update by one clock, and the overhead: of medians, and in pairs."""
    seconds = {name: [one[clock] for one in spent] for name, spent in rounds.items()}
    medians = {name: statistics.median(spent) for name, spent in seconds.items()}
    ratios = [ours / plain for ours, plain in zip(seconds["mcbench"], seconds["trl"], strict=True)]
    quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {
        "seconds_per_update": medians,
        "overhead": medians["mcbench"] / medians["trl"] - 1,
        "overhead_paired": statistics.median(ratios) - 1,
        "middle_half_of_pairs": [quarters[0] - 1, quarters[2] - 1],
    }


def seconds_line(rounds: dict[str, list[dict[str, float]]]) -> str:
    last = {name: spent[-1] for name, spent in rounds.items()}
    return ", ".join(
        f"{name} {one['wall']:.3f} s/update ({one['processor']:.3f} of the processor)"
        for name, one in last.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="generated batches of each trainer")
    parser.add_argument("--updates", type=int, default=2, help="updates per generated batch")
    parser.add_argument("--prompts", type=int, default=8, help="prompts per generated batch")
    parser.add_argument("--tokens", type=int, default=160, help="longest response")
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--output", type=Path, help="write the result here as JSON")
    options = parser.parse_args()
    result = measure(options)
    for clock in CLOCKS:
        found = result[clock]
        for name, value in found["seconds_per_update"].items():
            print(f"{clock}: {name} median {value:.4f} s/update ({result['updates_each']} updates)")
        low, high = found["middle_half_of_pairs"]
        print(
            f"{clock}: overhead {found['overhead']:+.2%}, paired {found['overhead_paired']:+.2%} "
            f"(middle half of the pairs {low:+.2%} to {high:+.2%})"
        )
    if options.output is not None:
        options.output.write_text(json.dumps(result, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
