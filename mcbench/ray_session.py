"""Joining a Ray cluster, or starting one on this machine that talks to nobody else.

Ray is an optional package (``pip install -e '.[sweep]'``): nothing here imports it before it is
asked for.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

from mcbench.errors import UserError

# Read by Ray when it is imported, and inherited by the processes that it starts.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no report over the network
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
_REACH_SECONDS = 10.0
_OBJECT_STORE_BYTES = 80 << 20  # progress lines and submissions are small; Ray wants 75 MiB


def load_ray() -> Any:
    """The package.

    Raises:
        UserError: it is not installed.
    """
    if find_spec("ray") is None:
        raise UserError(
            "Ray is not installed; pip install -e '.[sweep]', or leave out the address to use "
            "this machine without it"
        )
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


@contextmanager
def ray_session(address: str, cpus: int | None = None) -> Iterator[Any]:
    """Ray, connected to a cluster for as long as the context lasts.

    A process that is connected already stays in its cluster, and stays connected afterwards.

    Args:
        address: "local" starts a cluster on this machine and ends it afterwards; "auto" finds the
            one that runs here, or the one of the variable RAY_ADDRESS; "HOST:PORT" names one.
        cpus: of a cluster that is started; those of the machine where None.

    Raises:
        UserError: Ray is not installed, or there is no cluster at that address.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield ray
        return
    with ExitStack() as stack:
        if address == "local":
            _start(ray, cpus, stack)
        else:
            _join(ray, address)
            stack.callback(ray.shutdown)
        yield ray


def _start(ray: Any, cpus: int | None, stack: ExitStack) -> None:
    folder = tempfile.mkdtemp(prefix="ray-")  # Ray's sockets below it need a short path
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    stack.callback(ray.shutdown)  # before the folder goes
    ray.init(
        address="local",
        num_cpus=cpus,
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE_BYTES,
        _temp_dir=folder,
        _node_ip_address="127.0.0.1",
        **_QUIET,
    )


def _join(ray: Any, address: str) -> None:
    try:
        if address != "auto":
            _reach(address)  # Ray itself would try for minutes
        ray.init(address=address, **_QUIET)
    except UserError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"no Ray cluster at {address!r} ({reason}); start one with `ray start --head`, or use "
            "--address local"
        ) from error


def _reach(address: str) -> None:
    """Refuse an address where nothing listens.

    Raises:
        UserError: it is not of the form HOST:PORT.
        OSError: no connection.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UserError(f"a Ray address is local, auto or HOST:PORT, got {address!r}")
    socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
