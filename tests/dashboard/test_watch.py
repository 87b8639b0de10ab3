"""The page that ``mcbench watch`` serves: over HTTP, and in a browser that is reloaded."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from report.browser import CHROMIUM, Tab, chromium

from mcbench.cli import main
from mcbench.files import append_line
from mcbench.report.dashboard.watch import Watch

from .runs import begin, finished, lines, responses

SECTIONS = ["Learning", "Truncation and mask"]


@contextmanager
def served(root: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command on a free port, and its address."""
    command = [sys.executable, "-m", "mcbench", "watch", str(root), "--port", "0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            line = process.stdout.readline()
            assert "http://127.0.0.1:" in line, process.stderr and process.stderr.read()
            yield process, line.split(": ", 1)[1].split()[0]
        finally:
            process.kill()


def fetched(url: str, body: Any = None, **headers: str) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_page_is_sent_what_changed_and_nothing_else(tmp_path: Path) -> None:
    finished(tmp_path, "done", "grpo", 0, 40)
    run = begin(tmp_path, "live")
    watch = Watch(tmp_path)
    parts = watch.answer({"sections": SECTIONS})["parts"]
    assert {row["id"]: row["state"] for row in parts["rows"]["is"]["rows"]} == {
        "live": "starting", "done": "finished",
    }  # fmt: skip
    assert 'id="reward"' in parts["sections"]["is"]["Learning"]
    have = {name: part["version"] for name, part in parts.items()}
    assert watch.answer({"sections": SECTIONS, "have": have})["parts"] == {}
    path = run.path / "steps.jsonl"
    for line in lines()[:9]:
        append_line(path, line)
    with path.open("a") as file:
        file.write('{"step": 10, "rew')  # half of a line
    again = Watch(tmp_path)
    found = again.answer({"sections": SECTIONS, "have": have})["parts"]
    assert {"rows", "status", "figure reward"} <= set(found)
    assert found["rows"]["is"]["rows"][0]["count"] == "9/40"
    fewer = again.answer({"sections": [], "have": have})["parts"]
    assert fewer["figure reward"] is None  # it is no more
    picked = again.answer({"sections": SECTIONS, "picked": {"live": False}})["parts"]
    assert picked["rows"]["is"]["chosen"] == ["done"]


def test_nothing_but_its_own_page_is_answered(tmp_path: Path, capfd: Any) -> None:
    finished(tmp_path / "runs", "a", "grpo", 0, 8)
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "run.json").write_text('{"run_id": "ba')  # half there
    with served(tmp_path / "runs") as (process, url):
        assert fetched(url)[0] == 200
        status, told = fetched(f"{url}state", {"sections": SECTIONS})
        assert (status, "1 finished" in told) == (200, True)
        assert fetched(url, Host="evil.example:80")[0] == 404
        assert fetched(f"{url}state", {}, Host="evil.example")[0] == 404
        for path in (
            "runs/a/run.json",
            "../run.json",
            "%2e%2e/run.json",
            "a/run.json",
            "watch.css",
        ):
            assert fetched(url + path)[0] == 404
        assert fetched(f"{url}state", {}, **{"Content-Type": "text/plain"})[0] == 415
        hostile = ["text", [1], {"browser": {"run": "../a", "step": "../../etc/passwd"}},
                   {"picked": [1]}, {"point": {"arm": "grpo"}}]  # fmt: skip
        statuses = {fetched(f"{url}state", one)[0] for one in hostile}
        assert statuses <= {200, 400}
        port = url.rstrip("/").rpartition(":")[2]
        assert main(["watch", str(tmp_path / "runs"), "--port", port]) == 2
        told = "is taken or not allowed; another one: --port 0 finds a free one\n"
        assert capfd.readouterr().err == f"mcbench: port {port} {told}"
        assert main(["watch", str(tmp_path / "runs"), "--port", "99999"]) == 2
        assert "a number from 0 to 65535, got 99999" in capfd.readouterr().err
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr
        assert "Traceback" not in process.stderr.read()


def test_a_file_is_no_folder_of_runs(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").touch()
    assert main(["watch", str(tmp_path / "file")]) == 2
    assert "is a file; name a folder of runs" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_view_survives_a_reload_and_goes_on(tmp_path: Path) -> None:
    finished(tmp_path, "done", "microcoder", 0, 40)
    run = begin(tmp_path, "live", recipe="grpo")
    told = lines("grpo")
    with served(tmp_path) as (process, url), chromium() as tab:
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        tab.resize(1440, 900)
        tab.call("Page.navigate", url=url)
        grow(tab, run.path, told[:10], 10)
        run.write_completions(1, responses(["alpha", "beta"]))
        tab.evaluate(
            "document.querySelector('tr[data-run=done] input').click();"
            "document.querySelector('#responses').open = true; 0"
        )
        drawn = "document.querySelector('#reward').data.filter(t => t.meta?.role === 'mean').length"
        tab.wait(f"{drawn} === 1")
        tab.wait("document.querySelector('#responses article')?.textContent.includes('alpha')")
        search = "document.querySelector('.filters input[type=search]')"
        tab.evaluate(f"{search}.value = 'alp'; {search}.dispatchEvent(new Event('input')); 0")
        tab.wait("document.querySelector('#responses mark')?.textContent === 'alp'")
        tab.call("Page.reload")
        tab.wait("document.body?.dataset.looks")
        grow(tab, run.path, told[10:20], 20)
        tab.wait(f"{drawn} === 1")  # what was chosen is still, and what was looked for
        tab.wait(f"{search}?.value === 'alp'")
        tab.wait("document.querySelector('#responses article')?.textContent.includes('alpha')")
        tab.wait("document.querySelector('#reward').data.some(t => (t.x ?? []).at(-1) === 19)")
        assert tab.evaluate("document.querySelector('.away').hidden")
        assert tab.errors == []
        assert {one.partition(url)[0] for one in tab.requests if "data:" not in one} == {""}
        process.kill()
        tab.wait("!document.querySelector('.away').hidden")


def grow(tab: Tab, path: Path, more: list[Any], count: int) -> None:
    for line in more:
        append_line(path / "steps.jsonl", line)
    shown = "document.querySelector('tr[data-run=live] .mcb-count')?.textContent"
    tab.wait(f"{shown} === '{count}/40'")
    tab.wait("document.querySelectorAll('.plot .main-svg').length > 2")
