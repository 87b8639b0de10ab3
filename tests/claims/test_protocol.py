"""The protocol: its page agrees with the code, its runs name a commit that contains it, its rules
err as rarely as it says.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcbench.claims import protocol
from mcbench.errors import UserError
from mcbench.experiments.experiments import ROUND_2, planned_runs

ROOT = Path(__file__).parents[2]
RECORDS = list((ROOT / "reports" / "records").glob("*.parquet"))


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


LANDSCAPE, PRETRAINED = range(30, 35), range(80, 85)
# They never reached this repository (docs/protocol.md says which runs name them): such runs are of
# the landscape alone, or of functions trained again, never of a claim of the paper's.
LOST = (
    "bf296fb40bde07e8a473d32916a8162c85d7f693",
    "4826fb47a5d550ab23276f19483fa529195356a4",
    "a555323cb34713008a8a975e9d6f3fda63754762",
    "a4e23a66e69b07eccb56f7c7c21a313697739741",
)


def check_commit(meta: Mapping[str, Any], repository: Path) -> None:
    """Refuse a run that does not come from a commit which contains the protocol.

    Args:
        meta: the run's ``run.json``.

    Raises:
        UserError: it names no commit, one that is unknown or without the protocol, or was trained
            with uncommitted changes.
    """
    run, commit = meta["run_id"], meta["commit"]
    if not commit:
        raise UserError(f"run {run} names no commit, so that it cannot be a run of the protocol")
    if meta["diff_hash"]:
        raise UserError(f"run {run} was trained with changes that were not committed")
    if not _in_git(repository, f"{commit}^{{commit}}"):
        raise UserError(f"commit {commit} of run {run} is not in this repository")
    if not _in_git(repository, f"{commit}:{protocol.FILE}"):
        raise UserError(f"commit {commit} of run {run} does not contain {protocol.FILE}")


def _in_git(repository: Path, name: str) -> bool:
    command = ["git", "-C", str(repository), "cat-file", "-e", name]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    script = ROOT / "benchmarks" / "protocol.py"
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


@pytest.mark.slow
def test_every_run_of_the_protocol_names_a_commit_that_contains_it(committed) -> None:
    told = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    if subprocess.run(told, capture_output=True, text=True, check=False).stdout != "false\n":
        pytest.skip("this copy of the repository does not have its history")
    second = {run.config.run_id for name in ROUND_2 for run in planned_runs(name)}
    later = (*LANDSCAPE, *protocol.RETRAINED, *PRETRAINED)
    checked = 0
    for record in committed:
        lost = record.seed not in protocol.SEEDS and record.meta["commit"] in LOST
        of_second = record.run_id in second
        if (record.seed in (*protocol.SEEDS, *later) or of_second) and not lost:
            check_commit(record.meta, ROOT)
            checked += of_second
            if of_second:  # with the code that decides it
                assert _in_git(ROOT, f"{record.meta['commit']}:mcbench/claims/round_2.py")
    assert checked >= 312


def test_a_run_from_before_the_protocol_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "other").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "before")
    before = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "docs").mkdir()
    (tmp_path / protocol.FILE).write_text("rules")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "protocol")
    after = git(tmp_path, "rev-parse", "HEAD")
    check_commit({"run_id": "a", "commit": after, "diff_hash": None}, tmp_path)
    for meta, why in (
        ({"commit": before, "diff_hash": None}, "does not contain docs/protocol.md"),
        ({"commit": None, "diff_hash": None}, "names no commit"),
        ({"commit": "0" * 40, "diff_hash": None}, "is not in this repository"),
        ({"commit": after, "diff_hash": "1234"}, "with changes that were not committed"),
    ):
        with pytest.raises(UserError, match=why):
            check_commit({"run_id": "a", **meta}, tmp_path)


def test_the_rules_err_as_rarely_as_the_page_says() -> None:
    found = json.loads((ROOT / "benchmarks" / "claim_rates.json").read_text())
    assert found["seeds"] == len(protocol.SEEDS)
    # Of 4000 draws the standard error of 5 % is 0.34: two of them are allowed.
    assert found["draws"] >= 4000
    for row in found["parts"].values():
        assert 93 <= row["covers"] <= 97
    for row in (*found["parts"].values(), *found["claims"].values()):
        assert max(row[state] for state in ("supported", "contradicted", "no effect")) <= 5.7


@pytest.mark.slow
def test_the_results_at_two_temperatures_are_those_of_the_records() -> None:
    script = ROOT / "benchmarks" / "temperatures.py"
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
