"""A JupyterLab of this environment, driven in a headless Chromium."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from report.browser import Tab, chromium

INSTALLED = find_spec("jupyterlab") is not None
SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
}
REMARKS = (
    *("is taking too long to activate", "ms to activate", "Connection lost"),
    "reading 'kernel'",  # ipywidgets' extension asks also notebooks that were opened without one
    # JupyterLab's own, where a kernel is restarted while it is busy.
    *("Canceled future for kernel_info_request", "History was unable to be retrieved"),
    # The page was busy for two seconds while a widget loaded; what it then misses, the tests see.
    "[anywidget] Failed to initialize model",
)
EXTENSION = Path(__file__).parents[2] / "mcbench" / "jupyter.json"
LIMIT_S = 300  # for anything to happen; machines that build are slow


class Lab:
    """One page of JupyterLab."""

    def __init__(self, tab: Tab, url: str, token: str) -> None:
        self.tab, self.url, self.token = tab, url, token

    @property
    def errors(self) -> list[str]:
        """What the console holds, without what JupyterLab remarks on slow machines and restarts."""
        return [e for e in self.tab.errors if not any(remark in e for remark in REMARKS)]

    def open(self, path: str, ready: bool = True) -> None:
        """Open a notebook alone, with its kernel ready, or without waiting for that."""
        self.tab.call("Page.navigate", url=f"{self.url}/lab/tree/{path}?token={self.token}&reset")
        self._until_shown(path)
        if not ready:
            return
        self.until("panel.sessionContext.session?.kernel?.status === 'idle'")
        self.tab.evaluate("jupyterapp.shell.activateById(panel.id)")

    def look(self, path: str) -> None:
        """Open a further notebook in the page that is open, without a kernel."""
        wanted = {"path": path, "kernelPreference": {"shouldStart": False}}
        self.tab.evaluate(
            f"void jupyterapp.commands.execute('docmanager:open', {json.dumps(wanted)})"
        )
        self._until_shown(path)

    def _until_shown(self, path: str) -> None:
        name = json.dumps(Path(path).name)
        self.until(
            "window.panel = [...(window.jupyterapp?.shell?.widgets('main') ?? [])]"
            f".find(p => p.title.label === {name}"
            " && p.context?.isReady && p.content.widgets.length)"
        )

    def command(self, name: str) -> None:
        """Start one of JupyterLab's commands; returns at once."""
        self.tab.evaluate(f"void jupyterapp.commands.execute({json.dumps(name)})")

    def run_all(self) -> None:
        """Run all cells to the end; fails where one fails."""
        self.command("notebook:run-all-cells")
        self.until_done()

    def run_until_cell(self, id_: str) -> None:
        """Run the cells down to that one, and select it."""
        place = self.tab.evaluate(
            f"panel.content.widgets.findIndex(c => c.model.id === {json.dumps(id_)})"
        )
        self.tab.evaluate(f"panel.content.activeCellIndex = {place + 1}")
        self.command("notebook:run-all-above")

    def save(self) -> None:
        """Write the open notebook, with its outputs."""
        self.tab.evaluate("panel.context.save()")

    def until_done(self) -> None:
        """All code cells have run, or one failed."""
        codes = "panel.content.widgets.filter(c => c.model.type === 'code')"
        failed = (
            f"{codes}.flatMap(c => c.model.outputs.toJSON()).filter(o => o.output_type === 'error')"
        )
        self.until(
            f"{failed}.length || {codes}.every(c => c.model.executionCount"
            " && c.model.executionState === 'idle')"
        )
        assert self.tab.evaluate(failed) == []

    def until(self, condition: str) -> None:
        """Return when the condition holds in the page."""
        late = time.monotonic() + LIMIT_S
        look = (
            "new Promise(done => { const end = Date.now() + 10000; const look = () => {"
            f" let held = false; try {{ held = !!({condition}); }} catch {{}}"
            " if (held || Date.now() > end) done(held); else setTimeout(look, 50); }; look(); })"
        )
        while not self._value(look):
            assert time.monotonic() < late, f"never: {condition}; errors: {self.tab.errors}"

    def _value(self, script: str) -> bool:
        try:
            return bool(self.tab.evaluate(script))
        except AssertionError:  # the page it ran in was left
            return False


@contextmanager
def jupyterlab(root: Path, home: Path, dark: bool = False) -> Iterator[Lab]:
    """Serve ``root`` with settings of its own under ``home``."""
    settings = dict(SETTINGS)
    theme = "JupyterLab Dark" if dark else "JupyterLab Light"
    settings["@jupyterlab/apputils-extension/themes.jupyterlab-settings"] = {"theme": theme}
    for name, value in settings.items():
        path = home / "settings" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    extension = home / "config" / "jupyter_server_config.d" / "mcbench.json"
    extension.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(EXTENSION, extension)  # as an installation has it in its own folder
    folders = {
        "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython",
    }  # fmt: skip
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"]
    command += ["--LabApp.expose_app_in_browser=True"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            command,
            env={**os.environ, **{name: str(home / to) for name, to in folders.items()}},
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for(url, server, home / "log")
            with chromium() as tab:
                for domain in ("Page", "Runtime", "Network"):
                    tab.call(f"{domain}.enable")
                tab.resize(1500, 1700)
                yield Lab(tab, url, token)
        finally:
            server.terminate()
            server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    late = time.monotonic() + LIMIT_S
    while True:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < late, log.read_text()
        try:
            urllib.request.urlopen(f"{url}/api", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
