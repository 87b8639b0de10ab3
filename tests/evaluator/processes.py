"""What runs on this machine, as the evaluator's own process sees it."""

import time
from collections.abc import Callable
from pathlib import Path


def descendants(root: int) -> set[int]:
    """Process ids below ``root``, zombies left out."""
    return set().union(*levels(root))


def levels(root: int) -> list[set[int]]:
    """Process ids below ``root``: its children, their children, and so on; zombies left out."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(errors="replace")  # a name may be any bytes
                state, parent = stat.rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                children.setdefault(int(parent), []).append(int(entry.name))
    found: list[set[int]] = []
    level = {root}
    while level := {child for pid in level for child in children.get(pid, [])}:
        found.append(level)
    return found


def same_namespace(pids: set[int]) -> Callable[[], set[int]]:
    """Finds the processes in the pid namespaces of ``pids``, other than ours; takes root."""

    def namespace(pid: object) -> str:
        try:
            return str(Path(f"/proc/{pid}/ns/pid").readlink())
        except OSError:
            return ""

    theirs = set(map(namespace, pids)) - {namespace("self"), ""}

    def find() -> set[int]:
        running = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
        return {pid for pid in running if namespace(pid) in theirs}

    return find


def alive(pids: set[int]) -> set[int]:
    """Those of ``pids`` that still run."""
    running = set()
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                running.add(pid)
        except OSError:
            continue
    return running


def open_descriptors(pid: int) -> int:
    """How many descriptors a process holds."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll until the condition holds; False if it does not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
