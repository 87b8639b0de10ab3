"""Which runs are the arms of a comparison.

An arm is named as in its experiment. ``experiment/arm`` is one of another experiment, and
``arm@generation`` (``older``, ``newer``) is that arm trained at a profile of that generation of
models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcbench.experiments.arms import belongs, setting

if TYPE_CHECKING:
    from mcbench.runs.store import RunRecord

# Run records of any arms, or the records of each arm by its name.
Records = Sequence["RunRecord"] | Mapping[str, Sequence["RunRecord"]]

GENERATIONS = {"older": ("nano-old", "qwen2.5-7b"), "newer": ("nano", "qwen3-4b")}
_OF_A_MODEL = ("model", "vllm_max_model_length")

Belongs = Callable[["RunRecord", str], bool]


def runs_of(
    experiment: str, arms: Iterable[str], records: Records, belongs_to: Belongs | None = None
) -> dict[str, dict[int, RunRecord]]:
    """The finished runs of an experiment's arms, by arm and seed, all of one setting.

    Records of several settings (profiles, lengths of training) are never mixed: the setting with
    the most runs counts, then the one trained longest. Arms without a run are left out.

    Args:
        belongs_to: whether a record is one of an arm; as the arms are defined where None.
    """
    arms = list(arms)
    found: list[tuple[str, RunRecord]] = []
    if isinstance(records, Mapping):
        found = [(arm, record) for arm in arms for record in records.get(arm, ())]
    else:
        groups: dict[Any, list[tuple[str, RunRecord]]] = {}
        for record in records:
            for arm in arms:
                if (belongs_to or _is_of(experiment))(record, arm):
                    groups.setdefault(_key(record, arm), []).append((arm, record))
        found = max(groups.values(), key=_extent, default=[])
    runs: dict[str, dict[int, RunRecord]] = {}
    for arm in arms:
        chosen = {one.seed: one for name, one in found if name == arm and one.state == "finished"}
        if chosen:
            runs[arm] = dict(sorted(chosen.items()))
    return runs


def _is_of(experiment: str) -> Belongs:
    def belongs_to(record: RunRecord, arm: str) -> bool:
        name, _, generation = arm.partition("@")
        home, _, name = name.rpartition("/")
        if generation and record.config.profile not in GENERATIONS[generation]:
            return False
        return belongs(record.config, home or experiment, name)

    return belongs_to


def _key(record: RunRecord, arm: str) -> Any:
    key = setting(record.config)
    if "@" in arm:  # the models are what is compared
        key = tuple((name, value) for name, value in key if name not in _OF_A_MODEL)
    return key


def _extent(found: Sequence[tuple[str, RunRecord]]) -> tuple[int, int, str]:
    runs = {(arm, record.seed) for arm, record in found if record.state == "finished"}
    profile = found[0][1].config["profile"]
    return len(runs), profile["steps"], profile["name"]
