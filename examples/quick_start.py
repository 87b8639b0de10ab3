"""TRL's quick start with the class changed: ``python examples/quick_start.py`` on a GPU."""

from datasets import load_dataset
from trl.rewards import accuracy_reward

from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer, recipe


def main() -> None:
    """Train a small model on mathematics; downloads both."""
    trainer = MicroCoderGRPOTrainer(
        model="Qwen/Qwen2-0.5B-Instruct",
        reward_funcs=accuracy_reward,
        args=MicroCoderGRPOConfig(output_dir="mine", **recipe("microcoder").args()),
        train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train"),
    )
    trainer.train()


if __name__ == "__main__":
    main()
