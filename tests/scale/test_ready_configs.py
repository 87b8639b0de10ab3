"""The guide's commands for the paper's experiment, on small files of the published formats."""

import json
from pathlib import Path

import pytest
import yaml
from data.published import jsonl, lcb, parquet

from mcbench.cli import main
from tests.quick import every

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
PROGRAM = "n = int(input())\nprint(n {} {})\n"


def problem(index: int) -> dict:
    """A row of DeepCoder's set: a statement, solutions and tests as text."""
    sign, number = ("+", "*")[index % 2], index + 2
    what = ("sum of it and", "product of it and")[index % 2]
    of = [(n, n + number if index % 2 == 0 else n * number) for n in range(1, 8)]
    tests = [{"type": "stdin_stdout", "input": f"{n}\n", "output": f"{m}\n"} for n, m in of]
    story = f"A train number {index} carries one integer n in its first wagon. " * (1 + index % 3)
    return {
        "problem": f"{story}Print the {what} {number} times {index} minus {index} times {number}.",
        "solutions": [f"```python\n{PROGRAM.format(sign, number)}```"],
        "tests": json.dumps(tests),
    }


@pytest.mark.parametrize("name", every(2, ["deepcoder", "paper-mix"]))
def test_the_papers_experiment_is_the_commands_of_the_guide(name, tmp_path, capsys, monkeypatch):
    train = f"mcbench train --config configs/train/{name}.yaml"
    assert train in (CONFIGS / "train" / f"{name}.yaml").read_text()
    guide = (ROOT / "docs" / "guide.md").read_text()
    assert "mcbench data build configs/deepcoder.yaml" in guide
    assert "mcbench train --config configs/train/deepcoder.yaml" in guide

    parquet(tmp_path / "deepcoder.parquet", *map(problem, range(6)))
    tested = jsonl(tmp_path / "lcb" / "test6.jsonl", lcb()).parent
    build = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    source = {**build["sources"][0], "path": str(tmp_path / "deepcoder.parquet")}
    against = {**build["against"][0], "path": str(tested)}
    build |= {"sources": [source], "against": [against], "workers": 1}
    (tmp_path / "build.yaml").write_text(yaml.safe_dump(build))
    monkeypatch.chdir(tmp_path)
    assert main(["data", "build", "build.yaml"]) == 0
    capsys.readouterr()

    arguments = ["train", "--config", str(CONFIGS / "train" / f"{name}.yaml"), "--dry-run"]
    assert main([*arguments, "--set", f"test_set=livecodebench:{tested}"]) == 0
    text = capsys.readouterr().out
    config = json.loads(text.partition("run id")[0])
    assert (config["profile"], config["recipe"]) == ("qwen3-4b", "microcoder")
    assert config["train_set"] == f"build/{name}"
    assert config["eval_lengths"] == [8192, 16384]
    assert "estimate for 8 x H100-80GB, fsdp2" in text
