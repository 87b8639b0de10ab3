"""The rewards of a batch as TRL 1.16 reads them, and what they decide; see ``trl_compat.py``."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from accelerate.utils import gather_object
from torch import Tensor

from mcbench.grpo.trl_empty import NonEmptyGRPOTrainer


class ObservedRewardsGRPOTrainer(NonEmptyGRPOTrainer):
    """``GRPOTrainer`` whose rewards can be seen: those that it trains on, whatever a subclass, or a
    function put on the trainer, makes of ``_calculate_rewards``.
    """

    _logs: dict[str, Any]
    logged: Mapping[str, Sequence[Any]] = MappingProxyType({})  # by reward functions, of our rows
    rewards: Tensor  # (B, reward functions) of the batch; NaN where a function gave none
    seconds: Mapping[str, float] = MappingProxyType({})
    batch_rows: Sequence[dict[str, Any]] = ()
    training: bool  # whether the batch generated last is, and not one of an evaluation

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        with self._observed_rewards():
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        return output

    @contextmanager
    def _observed_rewards(self) -> Iterator[None]:
        """``self._calculate_rewards``, where TRL looks it up, is the whole of what it was, watched.
        An override in the class would see only what classes below it return.
        """
        found, own = self._calculate_rewards, vars(self).get("_calculate_rewards")
        vars(self)["_calculate_rewards"] = lambda *batch: self.observe_rewards(found, *batch)
        try:
            yield
        finally:
            del vars(self)["_calculate_rewards"]
            if own is not None:
                vars(self)["_calculate_rewards"] = own

    def observe_rewards(self, calculate: Callable[..., Tensor], *batch: Any) -> Tensor:
        """What ``calculate`` gives to a batch, kept, with its time and its further columns."""
        started = time.perf_counter()
        self.rewards = self.without_reward(calculate(*batch))
        self.seconds = {**self.seconds, "reward_s": time.perf_counter() - started}
        # Of all processes: a reward function may log a column for some responses alone.
        columns = sorted(set(gather_object(list(self._pending_extra_logs))))
        none = [None] * len(batch[0])
        self.logged = {name: list(self._pending_extra_logs.get(name, none)) for name in columns}
        return self.rewards

    def _start_scoring(self, completions: list[Any]) -> None:
        """Tells the reward functions that want to know of the responses of a batch."""
        if len(completions) != len(self.batch_rows):  # sampled outside of a batch
            return
        functions: list[Any] = self.reward_funcs
        able = [function for function in functions if hasattr(function, "start_scoring")]
        if not able:
            return
        columns = {name: [row[name] for row in self.batch_rows] for name in self.batch_rows[0]}
        columns.pop("prompt", None)
        for function in able:
            function.start_scoring(completions, **columns)

    @property
    def deciding_reward(self) -> str | None:
        """Name of the reward function that decides correctness; None: the weighted sum of all."""
        return self.args.correctness_reward

    def correctness_rewards(self) -> Tensor:
        """(B,) the reward that decides correctness; NaN where no reward function gave one."""
        name = self.deciding_reward
        if name is not None:
            return self.rewards[:, self.reward_func_names.index(name)]
        return self.total_rewards()

    def total_rewards(self) -> Tensor:
        """(B,) the weighted sum of the rewards; NaN where no reward function gave one."""
        total = (self.rewards * self.reward_weights.to(self.rewards.device)).nansum(dim=1)
        return total.masked_fill(self.rewards.isnan().all(dim=1), float("nan"))

    def log_of_batch(self, metrics: dict[str, float]) -> None:
        """Adds values, which must be the same on every process, to TRL's next line of the log."""
        mode = "train" if self.training else "eval"
        for name, value in metrics.items():
            if not math.isnan(value):  # the mean of nothing
                self._metrics[mode][name].append(value)
