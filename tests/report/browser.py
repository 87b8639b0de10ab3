"""A headless Chromium driven over its debugging protocol; no driver package is needed."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
]

OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"  # no name and no address resolves


class Tab:
    """One page: evaluate scripts, change the screen, take pictures; errors and requests kept."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket
        self._next = 0
        self.errors: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._next += 1
        self._socket.send(json.dumps({"id": self._next, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._next:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        if "method" not in message:  # the answer to a call that nobody waited for to the end
            return
        method, params = message["method"], message["params"]
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]  # a thrown value that is no Error has none
            self.errors.append(details.get("exception", {}).get("description") or str(details))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":  # leave it, whatever is not saved
            leave = {"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
            self._socket.send(json.dumps(leave))

    def evaluate(self, script: str) -> Any:
        """The value of a script; a promise is awaited."""
        result = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def open(self, path: Path, width: int = 1280, height: int = 900) -> None:
        """Open a file and wait until the page says that its figures are drawn."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.call("Page.navigate", url=path.resolve().as_uri())
        plain = "document.readyState === 'complete' && !document.querySelector('.plot')"
        self.wait(f"document.body?.dataset.drawn || ({plain})")

    def wait(self, condition: str) -> None:
        """Return when the condition holds; look once a frame, give up after half a minute."""
        self.evaluate(
            "new Promise((done, fail) => {"
            f" const late = setTimeout(() => fail(new Error({json.dumps(condition)})), 30000);"
            f" const look = () => ({condition})"
            "   ? (clearTimeout(late), done()) : requestAnimationFrame(look); look(); })"
        )

    def press(self, key: str, code: int) -> None:
        """One key, as from a keyboard."""
        text = {"text": "\r"} if key == "Enter" else {}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def outside(self) -> list[str]:
        """Requests that would leave the machine."""
        inside = ("file:", "data:", "blob:")
        return [url for url in self.requests if not url.startswith(inside)]

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def dark(self) -> None:
        self.media(features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def media(self, **how: Any) -> None:
        """Show the page as on paper (``media="print"``), or with a preference of the reader's."""
        self.call("Emulation.setEmulatedMedia", **how)

    def picture(self, path: Path) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


def drag(tab: Tab, box: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag in an element, between two places in shares of its width and height."""
    left, top, width, height = tab.evaluate(
        "(({left, top, width, height}) => [left, top, width, height])"
        f"({box}.getBoundingClientRect())"
    )
    for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
        at = {"x": left + x * width, "y": top + y * height}
        tab.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)


@contextmanager
def chromium(*flags: str) -> Iterator[Tab]:
    """A fresh browser with an empty profile, ended with the block."""
    assert CHROMIUM
    # The browser's helpers may still write while the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={profile}", "about:blank"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert browser.stderr
            line = next(text for text in browser.stderr if "DevTools listening on" in text)
            port = line.split("127.0.0.1:")[1].split("/")[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as reply:
                targets = json.load(reply)
            url = next(t["webSocketDebuggerUrl"] for t in targets if t["type"] == "page")
            socket = websocket.create_connection(url, timeout=60, suppress_origin=True)
            yield Tab(socket)
            socket.close()
        finally:
            browser.terminate()
            browser.wait()
