"""The first example of docs/trainer.md, from a wheel of this tree in an empty environment.

    python benchmarks/wheel.py            # the dependencies are those of this interpreter
    python benchmarks/wheel.py --whole    # they are installed from the index too (2 GB)

Needs an index of packages in any case: the wheel is built with hatchling. Says which file of the
package was imported, and what the example printed.
"""

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--whole", action="store_true", help="install the dependencies too")
    whole = parser.parse_args().whole
    page = (ROOT / "docs" / "trainer.md").read_text()
    example = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", name, str(ROOT)], check=True)
        (wheel,) = folder.glob("*.whl")
        venv.create(folder / "empty", with_pip=True)
        python = folder / "empty" / "bin" / "python"
        install = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*install, *([] if whole else ["--no-deps"]), str(wheel)], check=True)
        if not whole:  # after its own packages, so that the wheel's come first
            (site,) = (folder / "empty").glob("lib/*/site-packages")
            (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
        (folder / "first.py").write_text(example)
        where = [str(python), "-c", "import mcbench; print(mcbench.__file__)"]
        subprocess.run(where, check=True, cwd=folder)
        began = time.perf_counter()
        subprocess.run([str(python), "first.py"], check=True, cwd=folder)
        took = time.perf_counter() - began
        print(f"{wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB): {took:.0f} s")


if __name__ == "__main__":
    main()
