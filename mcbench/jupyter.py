"""Live pages of runs below JupyterLab's own address: an extension of its server.

A view that a kernel serves is lost with the kernel, and with the page. So the server passes
``mcbench/watch/<path>/`` on to an ``mcbench watch`` of its own for that path, started when it is
first asked for, ended when nobody has looked for a while: at whatever address JupyterLab has,
through its login. Kernels that this server starts are told so in :data:`ADDRESS`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import url_path_join
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.netutil import Resolver
from tornado.web import HTTPError, authenticated

ADDRESS = "MCBENCH_WATCH"
"""The environment variable that holds the address, without host, below which pages are served."""
_HEADERS = ("Content-Type", "Content-Security-Policy", "Cache-Control", "Etag")
_PARENT = "MCBENCH_PARENT"  # mcbench.scale.process.PARENT, which loads more than a server wants


def address(path: Path) -> str | None:
    """Where the page of a folder of runs is, without host; None where no such server serves it."""
    base = os.environ.get(ADDRESS)
    coded = base64.urlsafe_b64encode(str(path.absolute()).encode()).decode().rstrip("=")
    return None if base is None else f"{base}{coded}/"


class _Socket(Resolver):
    def initialize(self, path: Path) -> None:
        self.path = path

    async def resolve(self, host: str, port: int, family: Any = 0) -> list[tuple[int, Any]]:
        return [(socket.AF_UNIX, str(self.path))]


class _Watching:
    """An ``mcbench watch`` for one path."""

    def __init__(self, path: str, folder: Path) -> None:
        self.path, self.socket = path, folder / "socket"
        self.client = AsyncHTTPClient(force_instance=True, resolver=_Socket(self.socket))
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    async def begun(self) -> None:
        """Return when it answers.

        Raises:
            HTTPError: it cannot be started; the reason is its last line.
        """
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            self.socket.unlink(missing_ok=True)
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mcbench", "watch", self.path, "--socket", str(self.socket),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, _PARENT: str(os.getpid())},
            )  # fmt: skip
            assert self._process.stdout
            line = (await self._process.stdout.readline()).decode(errors="replace")
            if str(self.socket) not in line:
                raise HTTPError(404, reason=line.strip() or "mcbench watch did not start")
            asyncio.get_running_loop().create_task(_drain(self._process.stdout))


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.read(1 << 16):
        pass


class WatchHandler(JupyterHandler):
    """Passes requests on, for who is logged in."""

    def initialize(self, watching: dict[str, _Watching]) -> None:
        self.watching = watching

    def check_xsrf_cookie(self) -> None:
        """What is asked changes nothing, and no other page can read the answer."""

    @authenticated
    async def get(self, coded: str, rest: str) -> None:
        await self._pass_on("GET", coded, rest, None)

    @authenticated
    async def post(self, coded: str, rest: str) -> None:
        await self._pass_on("POST", coded, rest, self.request.body)

    async def _pass_on(self, method: str, coded: str, rest: str, body: bytes | None) -> None:
        try:
            path = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
        except ValueError:
            raise HTTPError(404) from None
        if path not in self.watching:
            folder = Path(tempfile.mkdtemp(prefix="mcbench-watch-"))  # of this user alone
            self.watching[path] = _Watching(path, folder)
        there = self.watching[path]
        await there.begun()
        kind = self.request.headers.get("Content-Type")
        asked = HTTPRequest(
            f"http://localhost/{rest}", method, {"Content-Type": kind} if kind else None, body,
            request_timeout=60, follow_redirects=False,
        )  # fmt: skip
        try:
            reply = await there.client.fetch(asked)
        except HTTPClientError as error:
            raise HTTPError(error.code if error.code < 599 else 504) from None
        except OSError as error:
            raise HTTPError(502, log_message=str(error)) from None
        for name in _HEADERS:
            if name in reply.headers:
                self.set_header(name, reply.headers[name])
        self.finish(reply.body)


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "mcbench.jupyter"}]


def _load_jupyter_server_extension(server: Any) -> None:
    base = url_path_join(server.web_app.settings["base_url"], "mcbench", "watch") + "/"
    watching: dict[str, _Watching] = {}
    route = base + r"([\w-]+)/(|state|plotly\.min\.js|favicon\.ico)"
    server.web_app.add_handlers(".*$", [(route, WatchHandler, {"watching": watching})])
    os.environ[ADDRESS] = base
