"""``mcbench watch``: the live page of a folder of runs on an address of this machine, no kernel
behind it and nothing trained from it.

What a browser asks names no file, and responses are found by the ids of runs that the server knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import math
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets, bind_unix_socket
from tornado.web import Application, HTTPError, RequestHandler

from mcbench.errors import UserError
from mcbench.report.dashboard.watch import Watch
from mcbench.report.rendering import plotly_script

HOST, PORT = "127.0.0.1", 8866
# A page of elsewhere whose name was made to lead here asks with its own name (DNS rebinding).
HOSTS = r"(127\.0\.0\.1|localhost|\[::1\])"
IDLE_S = 900.0
_LOOK_S = 30.0
_MOST_ASKED = 1 << 20  # bytes


class _Handler(RequestHandler):
    def initialize(self, watch: Watch) -> None:
        self.watch = watch

    def set_default_headers(self) -> None:
        self.set_header("Server", "mcbench")
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")


class _Page(_Handler):
    def get(self, name: str) -> None:
        if name == "favicon.ico":  # browsers ask for one
            self.set_status(204)
        elif name == "plotly.min.js":
            self.set_header("Content-Type", "text/javascript; charset=utf-8")
            self.write(str(plotly_script()))
        else:
            self.set_header(
                "Content-Security-Policy",
                "default-src 'none'; script-src 'self' 'unsafe-inline'; "
                "style-src 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
                "frame-ancestors 'self'",
            )
            self.write(self.watch.page())


class _State(_Handler):
    def post(self) -> None:
        # No form of another page can send this without asking first, which nobody answers.
        if not self.request.headers.get("Content-Type", "").startswith("application/json"):
            raise HTTPError(415)
        try:
            found = self.watch.answer(json.loads(self.request.body))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise HTTPError(400, log_message=f"{type(error).__name__}: {error}") from error
        self.set_header("Content-Type", "application/json")
        self.write(json.dumps(found, separators=(",", ":"), allow_nan=False))


def application(watch: Watch, hosts: str = HOSTS) -> Application:
    """The pages of one folder, for requests that name one of ``hosts`` (a pattern)."""
    given = {"watch": watch}
    app = Application(log_function=lambda handler: None, compress_response=True)
    pages = r"/(|plotly\.min\.js|favicon\.ico)"
    app.add_handlers(hosts, [(pages, _Page, given), (r"/state", _State, given)])
    return app


def serve(
    runs: Path, port: int = PORT, unix_socket: Path | None = None,
    say: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Serve until interrupted.

    Args:
        port: on 127.0.0.1; 0 takes a free one.
        unix_socket: a path to listen at instead, for who passes requests on and checks them; the
            process ends when nobody has asked anything for :data:`IDLE_S`.
        say: receives the address, once pages are answered there.

    Raises:
        UserError: nothing can listen there, or the folder is a file.
    """
    watch = Watch(runs)
    if unix_socket is not None:
        app, sockets = application(watch, r".*"), [bind_unix_socket(str(unix_socket), mode=0o600)]
        address, idle_s = str(unix_socket), IDLE_S
    else:
        app, sockets, idle_s = application(watch), _bound(port), math.inf
        address = f"http://{HOST}:{sockets[0].getsockname()[1]}/"
    there = "" if runs.exists() else " (not there yet)"
    line = f"{runs}{there}: {address} (Ctrl-C ends it)"
    asyncio.run(_serve(app, sockets, lambda: say(line), lambda: watch.idle_s() > idle_s))


def _bound(port: int) -> list[socket.socket]:
    if port not in range(65536):
        raise UserError(f"a port is a number from 0 to 65535, got {port}")
    try:
        return bind_sockets(port, HOST)
    except OSError as error:
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        why = "is taken or not allowed" if taken else f"cannot be used: {error.strerror}"
        raise UserError(f"port {port} {why}; another one: --port 0 finds a free one") from None


async def _serve(
    app: Application, sockets: list[socket.socket], ready: Callable[[], None],
    done: Callable[[], bool],
) -> None:  # fmt: skip
    server = HTTPServer(app, max_body_size=_MOST_ASKED, max_buffer_size=_MOST_ASKED)
    server.add_sockets(sockets)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    ready()
    while not ended.is_set() and not done():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _LOOK_S)
    server.stop()
