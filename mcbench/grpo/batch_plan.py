"""From the paper's batch terms to TRL's arguments."""

from dataclasses import dataclass

from mcbench.errors import UserError


@dataclass(frozen=True)
class BatchPlan:
    """How many prompts are sampled at once and how many updates follow (§7.1).

    ``train_batch_size`` and ``ppo_mini_batch_size`` count prompts, as in the paper and in verl:
    prompts sampled and scored together, and prompts in one update. ``num_generations`` (G) is the
    responses per prompt. ``per_device_batch_size`` counts responses in one forward-backward pass of
    one process: what fits in memory.
    """

    train_batch_size: int
    ppo_mini_batch_size: int
    num_generations: int
    per_device_batch_size: int
    processes: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int) or value < 1:
                raise UserError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.num_generations < 2:
            raise UserError(
                "num_generations must be at least 2: advantages compare the responses to one prompt"
            )
        if self.train_batch_size % self.ppo_mini_batch_size:
            raise UserError(
                f"train_batch_size ({self.train_batch_size} prompts) must be a multiple of "
                f"ppo_mini_batch_size ({self.ppo_mini_batch_size} prompts); try "
                f"{_near(self.train_batch_size, self.ppo_mini_batch_size)}"
            )
        at_once = self.per_device_batch_size * self.processes
        responses = self.ppo_mini_batch_size * self.num_generations
        if responses % at_once:
            fitting = [n for n in range(1, responses + 1) if responses % (n * self.processes) == 0]
            advice = (
                f"per_device_batch_size can be {', '.join(map(str, fitting))}"
                if fitting
                else f"no per_device_batch_size fits {self.processes} processes"
            )
            raise UserError(
                f"one update has {self.ppo_mini_batch_size} prompts x {self.num_generations} "
                f"responses = {responses}, which {self.processes} process(es) x "
                f"{self.per_device_batch_size} do not divide; {advice}"
            )

    @property
    def updates_per_generation(self) -> int:
        """Updates made with one sampled batch; with 1 the policy ratio is 1 and the clip range has
        no effect.
        """
        return self.train_batch_size // self.ppo_mini_batch_size

    @property
    def gradient_accumulation_steps(self) -> int:
        """Forward-backward passes of each process for one update."""
        return (
            self.ppo_mini_batch_size
            * self.num_generations
            // (self.per_device_batch_size * self.processes)
        )

    def trl_args(self) -> dict[str, int]:
        """The arguments of ``MicroCoderGRPOConfig`` (or ``GRPOConfig``) for this plan."""
        return {
            "per_device_train_batch_size": self.per_device_batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "steps_per_generation": self.gradient_accumulation_steps * self.updates_per_generation,
            "num_generations": self.num_generations,
        }

    def describe(self) -> str:
        """One sentence for people."""
        n, passes = self.updates_per_generation, self.gradient_accumulation_steps
        clip = (
            "" if n > 1 else " (with one update the policy ratio is 1 and clipping has no effect)"
        )
        return (
            f"sample {self.train_batch_size} prompts x {self.num_generations} responses, then {n} "
            f"update{'s' if n > 1 else ''} of {self.ppo_mini_batch_size} prompts each{clip}; an "
            f"update "
            f"accumulates {passes} pass{'es' if passes > 1 else ''} of "
            f"{self.per_device_batch_size} responses on "
            f"{self.processes} process{'es' if self.processes > 1 else ''}"
        )


def _near(value: int, unit: int) -> str:
    below = value // unit * unit
    return f"{below} or {below + unit}" if below else str(unit)


def posing_groups(groups: int, size: int) -> int:
    """How many of ``groups`` groups of ``size`` responses pose.

    Raises:
        UserError: each posed problem would not have a group of attempts.
    """
    posing, left = divmod(groups, 1 + size)
    if left:
        raise UserError(
            f"self_play needs 1 + num_generations = {1 + size} prompts in a batch, or a multiple "
            f"of it: one poses for every {size} that solve; got {groups}"
        )
    return posing
