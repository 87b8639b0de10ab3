from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from mcbench.report.samples import (
    clip_range,
    linked_rows,
    plain,
    sample_data,
    samples_of,
    text_of,
)
from mcbench.report.site import comparison_of
from mcbench.runs.compact import SAMPLE_GROUPS, read_compact, write_compact
from mcbench.runs.resolve import resolve
from mcbench.runs.store import Run, RunRecord

from .made import html_for
from .synthetic import make_record

HOSTILE = "</pre></script><script>alert(1)</script>\x00\x1b[31m\u202ered\u202c" + "x" * 100_000


def with_responses(
    folder: Path, arm: str, rewards: list[float], problems: list[str], seed: int = 0
) -> RunRecord:
    """A run that stored one generation of two responses a problem, all of them hostile."""
    record = replace(make_record(arm, seed, steps=20), path=folder / f"{arm}-{seed}")
    count = len(rewards)
    columns: dict[str, list[Any]] = {
        "prompt": [f"<i>{name}</i>" for name in problems for _ in range(2)],
        "completion": [HOSTILE] * count,
        "length": [10] * count,
        "truncated": [False] * count,
        "masked": [False] * count,
        "reward": rewards,
        "advantage": [0.0] * count,
        "verdicts": ["AC" if reward else "WA" for reward in rewards],
        "problem_id": [name for name in problems for _ in range(2)],
        "group": [index for index in range(len(problems)) for _ in range(2)],
    }
    (record.path / "completions").mkdir(parents=True)
    Run(record.path).write_completions(5, columns)
    return record


def browser_of(*records: RunRecord) -> dict[str, Any]:
    data = sample_data({record.config.recipe: [record] for record in records})
    assert data is not None
    return data


def test_arms_of_one_seed_are_shown_side_by_side(tmp_path: Path) -> None:
    arms = {
        "grpo": [with_responses(tmp_path, "grpo", [1, 0], ["a"], seed) for seed in (0, 1)],
        "microcoder": [with_responses(tmp_path, "microcoder", [1, 1], ["a"], 1)],
    }
    data = sample_data(arms)
    assert data is not None
    assert {name: arm["seed"] for name, arm in data["arms"].items()} == {"grpo": 1, "microcoder": 1}
    assert data["prompts"] == ["<i>a</i>"]  # once, though four responses have it
    assert data["columns"]["reward"] == [1, 0, 1, 1]


def test_the_selection_is_bounded_and_the_same_from_a_compact_record(tmp_path: Path) -> None:
    names = [str(i) for i in range(2 * SAMPLE_GROUPS)]
    record = with_responses(tmp_path, "grpo", [1, 0] * len(names), names)
    data = browser_of(record)
    assert len(data["columns"]["text"]) == 2 * SAMPLE_GROUPS
    assert browser_of(read_compact(write_compact(record, tmp_path / "c.parquet"))) == data


def test_what_a_model_wrote_is_shown_as_text(tmp_path: Path) -> None:
    record = with_responses(tmp_path, "grpo", [1, 0], ["a"])
    html = html_for(*comparison_of([record]))
    assert "<script>alert" not in html
    assert "<i>a" not in html
    assert not {"\x00", "\x1b", "\u202e"} & set(html)
    assert len(html) < 200_000


def test_tokens_carry_how_probable_they_were(tmp_path: Path) -> None:
    record = with_responses(tmp_path, "grpo", [1, 0], ["a"])
    rows = record.completions(5).assign(step=5, completion=["a\x00", "ab"]).to_dict("records")
    tokens = {"logprobs": [-0.01, -2.0, -99.0], "pieces": ["a", "\x00", "b"]}
    lines: list[Any] = [{**line, **tokens} for line in rows]
    data = browser_of(replace(record, sample_lines=lines))
    columns = data["columns"]
    assert [data["pieces"][place] for place in columns["pieces"][0]] == ["a", "␀", "b"]
    assert len(data["pieces"]) == 3  # once, whatever responses have them
    assert columns["levels"] == ["06f", "06f"]
    assert columns["text"] == [2, "ab"]  # its first two pieces; no number of them


def test_cut_text_says_how_much_is_missing() -> None:
    assert plain("ab\tc\n", 10) == "ab\tc\n"
    assert plain("x" * 12, 10).endswith("(2 more characters)")


def test_records_without_responses_have_no_section() -> None:
    assert samples_of("s", "s", {"grpo": [make_record("grpo", 0)]}) is None


def test_groups_are_measured_and_their_programs_told_apart_by_syntax_tree() -> None:
    def line(code: str, reward: float, group: int = 0) -> dict[str, Any]:
        return {"step": 1, "group": group, "completion": code, "reward": reward}

    same = ["```python\nx = 1\n```", "```python\nx = (1)  # one\n```"]
    lines = [line(same[0], 1.0), line(same[1], 1.0), line("```python\nx = 2\n```", 0.0)]
    lines += [line("no program", 0.0), line("a b c d", 1.0, 1), line("a b c d", 0.0, 1)]
    found = linked_rows(lines)
    assert [one["program"] for one in found] == [1, 1, 2, 0, 0, 0]
    assert found[4]["diversity"] == 0.5  # one 4-gram, twice
    assert [one["raw"] for one in found[4:]] == [0.707, -0.707]  # 0.5 / (0.7071 + 1e-4)
    half = 0.5 / (1 / 3**0.5 + 1e-4)  # rewards 1, 1, 0, 0
    assert [one["raw"] for one in found[:4]] == [round(x * half, 3) for x in (1, 1, -1, -1)]


def test_tokens_tell_how_far_the_policy_had_moved_and_which_were_clipped() -> None:
    line = {
        "completion": "abc",
        "logprobs": [-0.1, -0.1, -0.1],
        "pieces": ["a", "b", "c"],
        "log_ratios": [0.0, 0.3, -0.3],  # ratios 1, 1.35, 0.74
        "advantage": 1.0,
    }
    clip = clip_range(resolve("tiny", "grpo_plus"))
    assert clip == (0.8, 1.28)
    assert clip_range(resolve("tiny", "gspo")) is None  # whose ratios are of whole responses
    shown = text_of(line, clip=clip)
    assert (shown["ratio"], shown["clipped"]) == ("8b5", "010")
    assert text_of({**line, "advantage": -1.0}, clip=clip)["clipped"] == "001"
    assert text_of({**line, "advantage": 0.0}, clip=clip)["clipped"] == "000"


def test_a_run_stores_how_far_its_policy_moved(tmp_path: Path) -> None:
    record = with_responses(tmp_path, "grpo", [1, 0], ["a"])
    run = Run(record.path)
    run.add_to_completions(5, "log_ratios", [[0.0], [0.5]])
    run.add_to_completions(9, "log_ratios", [[0.0]])  # nothing is stored there
    table = run.completions_path(5)
    assert [list(row) for row in pd.read_parquet(table)["log_ratios"]] == [[0.0], [0.5]]
