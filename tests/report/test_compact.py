"""What the compact form of a record keeps, and with which digits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcbench.errors import UserError
from mcbench.runs.compact import read_compact, write_compact

from .synthetic import make_record


def kept(folder: Path, **columns: float) -> dict[str, Any]:
    """The first line of a record that logged these, read again."""
    record = make_record("grpo", 0, steps=20)
    lines = [{**line, **columns} for line in record.step_lines]
    path = write_compact(replace(record, step_lines=lines), folder, samples=False)
    return read_compact(path).step_lines[0]


def test_reals_keep_the_digits_that_their_figures_need(tmp_path: Path) -> None:
    columns = {"entropy": 0.123456, "grad_norm": 0.123456, "time/reward_s": 0.123456}
    line = kept(tmp_path, **columns)
    assert {name: line[name] for name in columns} == {
        "entropy": 0.1235, "grad_norm": 0.123, "time/reward_s": 0.12,
    }  # fmt: skip


def test_what_follows_from_other_columns_is_left_out(tmp_path: Path) -> None:
    alone = {"rewards/code/mean": 0.5, "rewards/code/std": 0.5, "completions/max_length": 9.0}
    line = kept(tmp_path, reward=0.5, **alone)
    assert line["reward"] == 0.5
    assert not alone.keys() & line.keys()


def test_the_mean_of_a_reward_is_kept_where_it_is_not_all_of_the_reward(tmp_path: Path) -> None:
    means = {"rewards/code/mean": 0.5, "rewards/length/mean": 0.25}
    line = kept(tmp_path, reward=0.75, **means)
    assert {name: line[name] for name in means} == means


def test_what_records_share_stands_once_beside_them(tmp_path: Path) -> None:
    records = [make_record(arm, 0, steps=20) for arm in ("grpo", "microcoder")]
    paths = [write_compact(record, tmp_path, samples=False) for record in records]
    assert len([*tmp_path.glob("environment-*.json")]) == 1
    (problems,) = tmp_path.glob("problems-*.json")
    for record, again in zip(records, map(read_compact, paths), strict=True):
        assert again.meta == record.meta
        assert [[*line["per_problem"]] for line in again.eval_lines] == [
            line["per_problem"] for line in record.eval_lines
        ]
    (tmp_path / "alone").mkdir()
    lost = paths[0].rename(tmp_path / "alone" / paths[0].name)
    with pytest.raises(
        UserError, match=r"^the records of .*alone need environment-\w+\.json, which"
    ):
        read_compact(lost)
    environment = next(tmp_path.glob("environment-*.json"))
    environment.rename(lost.parent / environment.name)
    with pytest.raises(
        UserError, match=f"^the records of .*alone need {problems.name}, which is not"
    ):
        read_compact(lost)
