"""Which arm is this record? An arm at a profile is a configuration, so that it is a look-up.

Records are grouped by scope: the profile of the comparison, and what its runs have in common beside
the profile (40 steps instead of 160, say). Records of different scopes are never compared.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mcbench.claims.protocol import SEEDS
from mcbench.experiments.arms import Arms, check_arms, computation_of
from mcbench.runs.config import Config, part_of
from mcbench.runs.store import RunRecord

Runs = dict[str, dict[int, RunRecord]]
"""Arm -> seed -> record."""


@dataclass(frozen=True)
class Scope:
    """What the runs of one comparison share: a profile, and settings that differ from it."""

    profile: str
    common: tuple[tuple[str, Any], ...] = ()


def scopes(arms: Arms, records: Iterable[RunRecord]) -> dict[Scope, Runs]:
    """The runs of each arm by scope; a record that is of several arms is there under each."""
    arms = check_arms(arms)
    found: dict[Scope, Runs] = {}
    for record in records:
        for arm, settings in arms.items():
            for scope in _scopes_of(record.config, arm, settings):
                found.setdefault(scope, {}).setdefault(arm, {})[record.seed] = record
    return {scope: _of_one_model(_in_order(runs, arms)) for scope, runs in found.items()}


def _scopes_of(config: Config, arm: str, settings: Mapping[str, Any]) -> list[Scope]:
    own = settings.get("profile")
    profiles = [config.profile]
    if isinstance(own, Mapping):
        profiles = [profile for profile, size in own.items() if size == config.profile]
    elif own is not None and own != config.profile:
        return []
    common = {
        name: value
        for name, value in config.differences().items()
        if name not in settings and part_of(name) != "algorithm"
    }
    found = []
    for profile in profiles:
        text = json.dumps([arm, settings, profile, common], sort_keys=True, default=list)
        if _computation(text) == config.computation:
            found.append(Scope(profile, tuple(sorted(common.items()))))
    return found


@lru_cache(maxsize=4096)
def _computation(described: str) -> str:
    return computation_of(*json.loads(described))


def _in_order(runs: Runs, arms: Arms) -> Runs:
    return {arm: dict(sorted(runs[arm].items())) for arm in arms if arm in runs}


def _of_one_model(runs: Runs) -> Runs:
    """Without records of another model under the same name, such as one built anew since."""
    records = [record for seeds in runs.values() for record in seeds.values()]
    digests: dict[str, Counter[str]] = {}
    for record in records:
        digests.setdefault(record.config.model, Counter())[record.config.model_digest] += 1
    usual = {model: counts.most_common(1)[0][0] for model, counts in digests.items()}
    kept = {
        arm: {
            seed: record
            for seed, record in seeds.items()
            if record.config.model_digest == usual[record.config.model]
        }
        for arm, seeds in runs.items()
    }
    return {arm: seeds for arm, seeds in kept.items() if seeds}


def largest(found: Mapping[Scope, Runs]) -> tuple[Scope, Runs] | None:
    """The scope with the most finished runs of the protocol's seeds, then of any, then the one
    trained longest; None without any.
    """

    def extent(item: tuple[Scope, Runs]) -> tuple[int, int, int, str]:
        records = [record for seeds in item[1].values() for record in seeds.values()]
        finished = [record for record in records if record.state == "finished"]
        fresh = sum(record.seed in SEEDS for record in finished)
        done = len(finished)
        return fresh, done, max(record.config.steps for record in records), item[0].profile

    return max(found.items(), key=extent, default=None)


def finished(runs: Mapping[str, Mapping[int, RunRecord]]) -> Runs:
    """The finished runs alone; arms without any are left out."""
    kept = {
        arm: {seed: record for seed, record in seeds.items() if record.state == "finished"}
        for arm, seeds in runs.items()
    }
    return {arm: seeds for arm, seeds in kept.items() if seeds}


def named_by_settings(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Arms of runs that belong to no experiment: named by recipe and what differs from it, without
    what all of them share.
    """
    changes = [record.config.differences() for record in records]
    shared = {
        name: value
        for name, value in (changes[0] if changes else {}).items()
        if all(name in other and other[name] == value for other in changes)
    }
    found: dict[str, list[RunRecord]] = {}
    for record, changed in zip(records, changes, strict=True):
        told = [f"{name} {value}" for name, value in changed.items() if name not in shared]
        recipe = record.config.recipe
        found.setdefault(f"{recipe} ({', '.join(told)})" if told else recipe, []).append(record)
    return found
