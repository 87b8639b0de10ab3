"""What is executed in place of ``mcbench train`` where a test is about processes: a run without a
model that keeps a record, and does what its label says.
"""

import os
import signal
import sys
import time
from pathlib import Path

from mcbench.files import read_data
from mcbench.runs.config import Config
from mcbench.runs.store import RunStore
from mcbench.scale.process import end_with_parent


def command(task):
    """In place of :func:`mcbench.scale.process.command`."""
    return [sys.executable, __file__, task.label, task.runs_dir]


def main(label, runs_dir):
    end_with_parent()
    config = Config.from_dict(read_data(sys.stdin.read()))
    if "refused" in label:
        print("mcbench: it was asked for wrongly")
        return 2
    print(f"[{label}] {os.environ['OMP_NUM_THREADS']} threads")
    run = RunStore(runs_dir).run(config)
    again = bool(run.meta)
    run.begin({"run_id": run.run_id, "config": config.to_dict(), "started": time.time()})
    for step in range(1, config.steps + 1):
        run.append_step({"step": step, "elapsed_s": 2.0 * step, "time/step_s": float(step)})
        print(f"[{label}] step {step}/{config.steps}")
        if "crashes" in label or ("stumbles" in label and not again):
            os.kill(os.getpid(), signal.SIGKILL)
        if "stays" in label:
            signal.pause()
    run.finish(time.time())
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.exit(main(*sys.argv[1:]))
