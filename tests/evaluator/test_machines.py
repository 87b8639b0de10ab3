"""The labelled suite in a container and as a user without rights; a Python wherever it may be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.suite import ATTACKS, EXECUTIONS
from mcbench.evaluator import Evaluator, StdioTest, Submission
from tests.evaluator.machines import ROOT, as_root, elsewhere, on_linux, run

pytestmark = on_linux
HERE = "from tests.evaluator.test_machines import *\nfrom tests.evaluator.machines import *\n"

# What a sandbox without namespaces cannot hide: that there are other processes, what the network
# card has done, and how many processes there have been.
OPEN = {"escape_other_processes", "escape_interfaces", "escape_use_by_earlier_tests"}
OPEN |= {"state_background_process", "state_process_counter"}
# And where it has its user's, what is in /dev/shm.
SHARED = {"state_files", "state_posix_memory"}


def judge_suite(every: int = 1) -> None:
    """On the machine in question: print the cases that got another verdict than theirs; of those
    that attack nothing, every so many.
    """
    odd = []
    # Names in /dev/shm are seen by all that run just now: what is asked is what earlier tests left.
    for alone in (False, True):
        cases = [c for c in [*EXECUTIONS[::every], *ATTACKS] if (c.id in SHARED) is alone]
        with Evaluator(workers=1 if alone else 2) as evaluator:
            results = evaluator.evaluate([case.submission for case in cases], early_exit=True)
        judged = zip(cases, results, strict=True)
        odd += [c.id for c, r in judged if r.tests[-1].verdict not in c.verdicts]
    print(json.dumps(odd))


@as_root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "enter", "open_there"),
    [
        pytest.param("user", "", set(), id="user"),
        pytest.param("root", "enter_container()", OPEN, id="root in a container"),
        pytest.param("user", "enter_container()", OPEN | SHARED, id="user in a container"),
    ],
)
def test_the_suite_gets_its_verdicts(user, enter, open_there):
    every = 1 if open_there >= SHARED else 4  # all of it where there is least to hold it
    done = run(f"{HERE}{enter}\njudge_suite({every})", *elsewhere(user))
    assert set(json.loads(done.stdout)) <= open_there


IMPORTS = """
import decimal, sqlite3, subprocess, sys, tempfile, xml.dom.minidom
with tempfile.TemporaryFile() as file: file.write(b"x")
print(subprocess.run([sys.executable, "-c", "import json; print(3)"], capture_output=True).stdout)
"""


@as_root
def test_a_python_behind_links_in_a_private_folder_runs(tmp_path):
    # An environment as tools make them: its Python is a link to a link in a folder that is a link.
    assert not tmp_path.stat().st_mode & 0o007
    (tmp_path / "current").symlink_to(sys.base_prefix)
    home, name = tmp_path / "current" / "bin", f"python3.{sys.version_info[1]}"
    environment = tmp_path / "my environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python3").symlink_to(home / name)
    (environment / "bin" / "python").symlink_to("python3")
    (environment / "pyvenv.cfg").write_text(f"home = {home}\n")
    program = f"{HERE}judge_imports()"
    command = [environment / "bin" / "python", "-B", "-c", program]
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    own = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), packages])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=own, check=False)
    assert (done.returncode, json.loads(done.stdout)) == (0, ["AC", ""]), done.stderr


def judge_imports() -> None:
    """Print what comes of a program that imports, starts Python and makes a temporary file."""
    with Evaluator(workers=1) as evaluator:
        test = StdioTest("", "b'3\\n'")
        result = evaluator.evaluate([Submission(IMPORTS, [test], 20)])[0].tests[0]
        assert {"own root", "unprivileged user"} <= {*evaluator.isolation["granted"]}
    assert Path(sys.executable).is_symlink()
    print(json.dumps([result.verdict, result.message]))
