"""Episodes of several turns: what an environment is, and the rollout that plays it.

The interface is SkyRL's and verifiers' (``reset``, ``step``, ``close``), for a whole batch at once:
``step`` gets the actions of all episodes that still play, so that an environment which runs
programs calls its evaluator once a turn. Training and evaluation play by :func:`play`.

An episode's tokens are the model's, each turn up to its end token, and the environment's between
them; ``own`` tells them apart. The budget counts the model's tokens alone. An episode whose budget
is spent before it is done is truncated: it ends in a cut turn, or in an observation that nothing
answers, so that its last token is no end token and every rule for truncated responses sees it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcbench.data.schema import Problem


@dataclass(frozen=True)
class Step:
    """What an action led to.

    Attributes:
        observation: what the model is shown next; None lets it begin again from the prompt.
        reward: of this turn; None where our own infrastructure failed.
        done: whether the episode is over.
        passed: the metric at its end; None as above.
        verdict: what became of the action, such as ``AC,WA``.
        parts: numbers by name whose means are logged as ``task/NAME``; a later turn's stand.
        error: what went wrong, for people, where the episode itself failed.
        told: what is said of the action, for a trainer that learns from it; empty: nothing.
    """

    observation: str | None
    reward: float | None
    done: bool
    passed: bool | None = False
    verdict: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    told: str = ""


class Environment(Protocol):
    """Many episodes side by side, each named by its place in the batch."""

    def reset(self, problems: Sequence[Problem]) -> list[str]:
        """Begin an episode a problem; returns what each model is shown first."""

    def step(self, actions: Mapping[int, str], last: Collection[int]) -> dict[int, Step]:
        """Act in the episodes that still play; those in ``last`` can answer no more."""

    def close(self) -> None:
        """The episodes are over, or their ``reset`` failed; nothing to do for most."""
        return


Sampled = tuple[list[int], list[float], list[float]]
"""Token ids, and where the sampler tells it each one's log-probability and entropy (else empty)."""
Sample = Callable[[Sequence[list[int]], int], Sequence[Sampled]]
"""``sample(contexts, limit)``: one response of at most ``limit`` tokens to each context (ids)."""


@dataclass
class Episode:
    """One episode as it was played; ``ids``, ``own``, ``log_probs`` and ``entropies`` have an entry
    a token; ``own`` and what is known of a token are 0 where it is not the model's.
    """

    prompt: list[int]
    ids: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    turns: list[dict[str, str]] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    reward: float | None = 0.0
    passed: bool | None = False
    truncated: bool = False
    done: bool = False
    told: str = ""  # of the last turn
    restarted: int = 0  # where the last turn that began from the prompt begins

    @property
    def spent(self) -> int:
        """Tokens that the model wrote."""
        return sum(self.own)

    @property
    def verdicts(self) -> str:
        """Of the last turn."""
        return self.turns[-1]["verdict"]

    def add(self, ids: list[int], own: int, *known: list[float]) -> None:
        """Append tokens of the model (``own`` 1) or of the environment (0)."""
        self.ids += ids
        self.own += [own] * len(ids)
        for values, new in zip((self.log_probs, self.entropies), known or ([], []), strict=True):
            values += new or [0.0] * len(ids)


@dataclass(frozen=True)
class Played:
    """The episodes, in the order of the problems, and the seconds that the model, the environment
    and all the rest took.
    """

    episodes: list[Episode]
    seconds: Mapping[str, float]


def play(
    environment: Environment,
    problems: Sequence[Problem],
    sample: Sample,
    tokenizer: Any,
    budget: int,
    ends: Collection[int] = (),
) -> Played:
    """One episode a problem; ``budget`` is how many tokens the model may write in each, ``ends``
    what may end its turn beside the tokenizer's end token.
    """
    ends = {*ends, tokenizer.eos_token_id}
    began = time.perf_counter()
    model_s = 0.0
    with closing(environment):
        observed = environment.reset(problems)
        environment_s = time.perf_counter() - began
        episodes = [Episode(list(ids)) for ids in tokenizer(list(observed))["input_ids"]]
        playing = list(range(len(episodes)))
        while playing:
            contexts = [
                episodes[i].prompt + episodes[i].ids[episodes[i].restarted :] for i in playing
            ]
            left = [budget - episodes[i].spent for i in playing]
            then = time.perf_counter()
            sampled = sample(contexts, max(left))
            model_s += time.perf_counter() - then
            for i, room, (ids, *known) in zip(playing, left, sampled, strict=True):
                episodes[i].add(list(ids[:room]), 1, *(list(one[:room]) for one in known))
            texts = tokenizer.batch_decode(
                [ids[:room] for (ids, *_), room in zip(sampled, left, strict=True)],
                skip_special_tokens=True,
            )
            last = {i for i in playing if episodes[i].spent >= budget}
            then = time.perf_counter()
            steps = environment.step(dict(zip(playing, texts, strict=True)), last)
            environment_s += time.perf_counter() - then
            said = [steps[i].observation or "" for i in playing]
            shown = tokenizer(said, add_special_tokens=False)["input_ids"]
            for i, text, ids in zip(playing, texts, shown, strict=True):
                _enter(episodes[i], steps[i], text, list(ids), i in last, ends)
            playing = [i for i in playing if not episodes[i].done]
    whole = time.perf_counter() - began
    rest = whole - model_s - environment_s
    return Played(episodes, {"model": model_s, "environment": environment_s, "rest": rest})


def _enter(
    episode: Episode, step: Step, text: str, shown: list[int], last: bool, ends: Collection[int]
) -> None:
    """Write down one turn of an episode and what followed."""
    cut = episode.ids[-1] not in ends
    none = step.reward is None or episode.reward is None
    episode.reward = None if none else episode.reward + step.reward  # type: ignore[operator]
    episode.passed, episode.told = step.passed, step.told
    episode.parts |= step.parts
    episode.done = step.done or last
    episode.truncated = cut or (last and not step.done)
    goes_on = not step.done and not cut
    if goes_on and step.observation is None:
        episode.restarted = len(episode.ids)
    elif goes_on:
        episode.add(shown, 0)
    episode.turns.append(
        {
            "action": text,
            "verdict": step.verdict,
            "observation": (step.observation or "") if goes_on else "",
            **({"error": step.error} if step.error else {}),
        }
    )


def episode_means(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over episodes: turns, the share that passed within one, two and three of them, and
    what the environment told of them.
    """
    by_turn = {
        f"passed_{turn}": sum(bool(one.passed) and len(one.turns) <= turn for one in episodes)
        for turn in (1, 2, 3)
    }
    names = dict.fromkeys(name for one in episodes for name in one.parts)
    told = {name: sum(one.parts.get(name, 0.0) for one in episodes) for name in names}
    counts = {"turns": sum(len(one.turns) for one in episodes), **by_turn, **told}
    return {name: count / len(episodes) for name, count in counts.items()}


def episode_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    *,
    episode: Sequence[Episode],
    log_extra: Callable[[str, list[str]], None],
    log_metric: Callable[[str, float], None],
    **columns: Any,
) -> list[float | None]:
    """The reward function of TRL for rollouts: what the environment gave, and every turn for the
    record.
    """
    log_extra("verdicts", [one.verdicts for one in episode])
    log_extra("turns", [json.dumps(one.turns) for one in episode])
    if any(one.told for one in episode):
        log_extra("notes", [json.dumps({"feedback": one.told}) for one in episode])
    for name, value in episode_means(episode).items():
        log_metric(f"task/{name}", value)
    return [one.reward for one in episode]
