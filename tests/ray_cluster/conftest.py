"""Ray clusters of several nodes on this machine: without network, dashboard or traces."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[sweep]'")

SETTINGS = {  # a dead node is noticed within two seconds
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
    "agent_register_timeout_ms": 120_000,  # for busy machines, as `patiently`
}


@pytest.fixture
def cluster(monkeypatch):
    """Three nodes of one CPU each; the first one leads."""
    from mcbench.ray_session import load_ray

    ray = load_ray()
    patiently(monkeypatch)
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray-")  # not tmp_path: sockets need a short path
    monkeypatch.setenv("RAY_TMPDIR", folder)
    Path(folder, "ray").mkdir()
    before, cluster = descendants(), Cluster()
    try:
        try:
            add_nodes(cluster)
        except Exception:  # seen once: a node waited in vain for an agent of its own
            cluster.shutdown()
            for process in descendants() - before:
                process.kill()
            cluster = Cluster()
            add_nodes(cluster)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def add_nodes(cluster):
    node = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster.add_node(**node, _system_config=SETTINGS)
    cluster.add_node(**node)
    cluster.add_node(**node)


def patiently(monkeypatch):
    """Wait two minutes for a node to start; Ray's half a minute is too short on a busy machine."""
    from ray._private import services

    get_node = services.get_node

    def wait_longer(*arguments):
        for _ in range(3):
            with contextlib.suppress(RuntimeError):
                return get_node(*arguments)
        return get_node(*arguments)

    monkeypatch.setattr(services, "get_node", wait_longer)


@pytest.fixture(autouse=True)
def nothing_left():
    """No process of the test outlives it."""
    before = descendants()
    yield
    import psutil

    _, left = psutil.wait_procs(descendants() - before, timeout=20)
    assert not left


def descendants():
    """The processes below this one that run."""
    import psutil

    found = psutil.Process().children(recursive=True)
    return {process for process in found if process.status() != psutil.STATUS_ZOMBIE}


def node_of(cluster, pid):
    """The node that a process belongs to: one of its ancestors is the node's raylet."""
    import psutil

    above = {process.pid for process in psutil.Process(pid).parents()}
    for node in cluster.list_all_nodes():
        if above & {info.process.pid for info in node.all_processes["raylet"]}:
            return node
    raise AssertionError(f"process {pid} belongs to no node")
