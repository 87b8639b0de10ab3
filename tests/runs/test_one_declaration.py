"""An option of the algorithm is declared once: a new one is that line, and where it is used."""

import subprocess
import sys
from pathlib import Path

from mcbench.grpo import options

USED = """
import sys, types
source = open(sys.argv[1]).read()
head, _, tail = source.partition('class Options:\\n')
doc, _, rest = tail.partition('\\n\\n')
line = '    brake: float = option(0.0, "A new one.", family="loss", low=0, high=1)'
module = sys.modules["mcbench.grpo.options"] = types.ModuleType("mcbench.grpo.options")
exec(head + 'class Options:\\n' + doc + '\\n\\n' + line + '\\n' + rest, module.__dict__)

from mcbench.errors import UserError
from mcbench.grpo import MicroCoderGRPOConfig
from mcbench.runs.config import preset
from mcbench.runs.reference import about
from mcbench.runs.resolve import described

usual, other = (described("nano", "microcoder", {"brake": value}, 0) for value in (0.0, 0.5))
assert other.algorithm()["brake"] == 0.5
assert usual.run_id == preset("nano").changed(**usual.of_parts("digest")).run_id != other.run_id
assert about("brake") == {
    "meaning": "A new one.", "default": "trainer", "range": "number from 0 to 1", "source": ""
}
assert MicroCoderGRPOConfig("out", use_cpu=True, bf16=False, brake=0.5).brake == 0.5
for make in (lambda: other.with_settings({"brake": 2}),
             lambda: MicroCoderGRPOConfig("out", use_cpu=True, bf16=False, brake=2)):
    try:
        make()
    except UserError as error:
        print(error)
"""


def test_a_new_option_is_a_field_a_setting_checked_and_documented() -> None:
    done = subprocess.run(
        [sys.executable, "-c", USED, str(Path(options.__file__))], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout == ("brake must be from 0 to 1, got 2\nbrake must be in [0, 1], got 2\n")
