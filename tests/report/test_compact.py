"""What the compact form of a record keeps, and with which digits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

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
