"""``mcbench`` whose launched processes do not train: the first waits, the second ends as the label
says.
"""

import os
import signal
import sys
import time
from types import SimpleNamespace

from mcbench.cli import main
from mcbench.errors import UserError
from mcbench.runs.store import RunStore
from mcbench.scale import launch


def train(config, runs_dir, label):
    """In place of :func:`mcbench.runs.train.train`."""
    run = RunStore(runs_dir).run(config)
    if os.environ["RANK"] == "0":
        run.begin({"started": time.time()})
    while run.state != "running":  # else the other may end before there is a run to speak of
        time.sleep(0.01)
    print(f"rank {os.environ['RANK']} is {os.getpid()}", flush=True)
    if os.environ["RANK"] == "1":
        if label == "raises":
            raise RuntimeError("no memory\nfor this")
        if label == "refuses":
            raise UserError("the model is not there")
        if label == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if label == "aborts at its end":
            run.finish(time.time())
            os.abort()
    signal.pause()


if __name__ == "__main__":
    # Found where training is imported from, and TRL is not loaded.
    sys.modules["mcbench.runs.train"] = SimpleNamespace(train=train)
    command = launch.Launch.command
    launch.Launch.command = lambda self, arguments: [
        "ranks" if part == "mcbench" else part for part in command(self, arguments)
    ]
    sys.exit(main())
