"""Files that survive a crash: atomic replacement, flushed appends, tolerant reading, a lock."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import math
import os
import re
import socket
import sys
import tempfile
import threading
import time
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from mcbench.errors import UserError

# A lock's owner gives a sign of life this often, and is taken for dead when it has given none for
# so long, where only that can be seen of it.
BEAT_SECONDS, STALE_SECONDS = 30.0, 300.0


def plain(value: Any) -> Any:
    """``value`` as strict JSON data: tuples become lists, numpy scalars numbers, NaN None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy and torch scalars and arrays
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def cache_folder() -> Path:
    """Where what can be made again is kept, for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcbench"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` in one step when the block has ended well.

    A reader sees the old file or the new one, never half of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    yield temporary
    temporary.replace(path)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace ``path`` in one step; the new content is on the disk before it takes the place."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())


def make_writable(folder: Path, what: str) -> None:
    """Make a folder and refuse one that cannot be written to.

    Raises:
        UserError: it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{what} {folder} cannot be written to: {error.strerror}") from None


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` in one step with ``value`` as strict JSON."""
    write_atomic(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def pack_json(path: Path, value: Any) -> None:
    """Replace ``path`` in one step with ``value`` as JSON under gzip; equal values, equal bytes."""
    text = json.dumps(plain(value), separators=(",", ":"), allow_nan=False)
    write_atomic(path, gzip.compress(text.encode(), mtime=0))


def unpack_json(path: Path) -> Any:
    """What :func:`pack_json` wrote, or the data of a plain JSON file.

    Raises:
        OSError: the file cannot be read, or is damaged.
        ValueError: it holds no JSON.
    """
    data = path.read_bytes()
    try:
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (EOFError, zlib.error) as error:
        raise ValueError(f"damaged: {error}") from error


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Append one JSON line, flushed to disk before the call returns."""
    line = json.dumps(plain(record), allow_nan=False) + "\n"
    with path.open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path) -> Any:
    """The data of a JSON file; None where there is none, or it is damaged."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def rows_beside(module: str, name: str) -> dict[str, Any]:
    """A table of this package, a TOML file beside the module that reads it."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON-lines file; a last line that was being written is left out.

    Raises:
        UserError: a line before the last one is not JSON, so the file was damaged.
    """
    if not path.exists():
        return []
    try:
        complete, _, _ = path.read_bytes().rpartition(b"\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    records = []
    for number, line in enumerate(complete.split(b"\n") if complete else [], start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise UserError(
                f"line {number} of {path} is not JSON; delete the run to train it again"
            ) from error
        if not isinstance(record, dict):
            raise UserError(f"line {number} of {path} is no record: it maps no names to values")
        records.append(record)
    return records


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Rewrite a JSON-lines file with the records for which ``keep`` holds."""
    kept = [json.dumps(record) + "\n" for record in read_lines(path) if keep(record)]
    if path.exists():
        write_atomic(path, "".join(kept))


def digest(parts: Iterable[bytes | str]) -> str:
    """Short content hash of the parts in order."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha.hexdigest()[:16]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def version_of(package: str) -> str | None:
    """The installed version; None where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def code_version(folders: tuple[str, ...], packages: tuple[str, ...]) -> str:
    """Hash of all modules and tables in some folders of this package, and of the versions of what
    they use.

    Too many modules rather than too few: what is kept under it is then found anew.
    """
    root = Path(__file__).parent
    inside = (path for one in folders for path in (root / one).rglob("*"))
    files = sorted(path for path in inside if path.suffix in (".py", ".toml"))
    sources = (part for path in files for part in (path.name, path.read_bytes()))
    return digest([*(f"{name} {version_of(name)}" for name in packages), *sources])


def _process_start(pid: int) -> str | None:
    """Start time of a live process in clock ticks after boot; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


@cache
def _boot() -> str:
    """Which start of which machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _this_process() -> dict[str, Any]:
    """What a lock says of the process that holds it."""
    pid = os.getpid()
    return {
        "pid": pid,
        "host": socket.gethostname(),
        "start": _process_start(pid),
        "boot": _boot(),
    }


class ProcessLock:
    """A lock file that holds the process that owns it.

    A lock whose process died (kill -9, power cut) is taken over. On this machine that is known:
    process ids are reused, so the start time of the process and of the machine are compared too.
    From another one only the heartbeat is seen, the file's time of change, which the owner renews
    until it ends. ``flock`` only guards the moment of reading and writing: held for the whole run
    it would be inherited by forked workers that outlive the owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held = False
        self._released = threading.Event()

    def owner(self) -> dict[str, Any] | None:
        """The live process that holds the lock, or None."""
        owner = self._recorded()
        return owner if owner is not None and self._may_live(owner) else None

    def _recorded(self) -> dict[str, Any] | None:
        found = read_json(self.path)
        ours = isinstance(found, dict) and {"pid", "host", "start"} <= found.keys()
        return found if ours else None

    def _may_live(self, owner: dict[str, Any]) -> bool:
        if owner["host"] != socket.gethostname():
            return self._silence_s() < STALE_SECONDS
        if owner.get("boot", _boot()) != _boot():  # this machine has been started anew
            return False
        return _process_start(owner["pid"]) == owner["start"]

    def _silence_s(self) -> float:
        """Seconds since the owner's last heartbeat."""
        try:
            return time.time() - self.path.stat().st_mtime
        except FileNotFoundError:
            return math.inf

    def acquire(self) -> str | None:
        """Take the lock; what there is to say where it was another machine's.

        Raises:
            UserError: another live process holds it.
        """
        taken = None
        with self.path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = self._recorded()
            if before is not None:
                who = f"process {before['pid']} on {before['host']}"
                silence = self._silence_s()
                here = before["host"] == socket.gethostname()
                if self._may_live(before):
                    sign = "" if here else (
                        f" (its last sign of life is {silence:.0f} s old; once that is "
                        f"{STALE_SECONDS / 60:.0f} min, the same command takes the run over)"
                    )  # fmt: skip
                    raise UserError(f"{who} is already training this run; wait for it{sign}")
                if not here:
                    taken = (
                        f"taken over from {who}, which has given no sign of life for "
                        f"{silence / 60:.0f} min"
                    )
            file.seek(0)
            file.truncate()
            file.write(json.dumps(_this_process()))
            file.flush()
        self._held = True
        self._released.clear()
        threading.Thread(target=self._beat, daemon=True).start()
        return taken

    def _beat(self) -> None:
        """Renew the heartbeat until the lock is released: a long evaluation records no step."""
        while not self._released.wait(BEAT_SECONDS) and self._is_mine():
            try:
                os.utime(self.path)
            except FileNotFoundError:
                return
            except OSError:  # a network folder that is away for a moment
                continue

    def check(self) -> None:
        """Refuse to go on once another process has taken over what this one had locked.

        Raises:
            UserError: the lock is no longer this process's.
        """
        if self._held and not self._is_mine():
            self._held = False
            raise UserError(
                "another process has taken over this run: it goes on, or has ended, there"
            )

    def others(self) -> bool:
        """Whether another live process holds the lock."""
        return self.owner() is not None and not self._is_mine()

    def _is_mine(self) -> bool:
        """Whether what the lock says last is this process, alive or not as others see it."""
        return self._recorded() == _this_process()

    def break_from(self, host: str) -> None:
        """Clear the lock if a process on ``host`` holds it, which is known to be gone: sooner than
        its heartbeat would tell.
        """
        if not self.path.exists():
            return
        with self.path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if (owner := self._recorded()) and owner["host"] == host:
                file.truncate(0)

    def release(self) -> None:
        """Let go of the lock, if this process took it. Idempotent."""
        self._released.set()
        if self._held and self._is_mine():
            self.path.write_text("")
        self._held = False


class _Yaml(yaml.SafeLoader):
    """YAML 1.2, in which JSON means what it means.

    Beside texts there are null, true, false and numbers as JSON writes them. What YAML 1.1 makes of
    ``on``, ``2024-01-01``, ``017``, ``1:30`` and ``1_000`` are texts, and ``1e-06`` is a number.
    """


_Yaml.yaml_implicit_resolvers = {}  # its own, and none of YAML 1.1's
for _tag, _pattern, _first in (
    ("null", r"(null|Null|NULL|~|)\Z", ["n", "N", "~", ""]),
    ("bool", r"(true|True|TRUE|false|False|FALSE)\Z", [*"tTfF"]),
    ("int", r"[-+]?(0|[1-9]\d*)\Z", [*"-+0123456789"]),
    ("float", r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?\Z", [*"-+.0123456789"]),
    ("float", r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z", [*"-+."]),
    ("merge", r"<<\Z", ["<"]),
):
    _Yaml.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern, re.ASCII), _first)


def read_data(text: str) -> Any:
    """What is written in a text as JSON or as YAML 1.2.

    Raises:
        UserError: neither; one line that begins with that.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return yaml.load(text, Loader=_Yaml)
    # What is explicitly tagged as what it is not raises the last two.
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        raise UserError(f"neither YAML nor JSON: {' '.join(str(error).split())}") from None


def read_configuration(name: str | Path) -> Any:
    """What a file says in JSON or YAML 1.2, or standard input for ``-``.

    Raises:
        UserError: it cannot be read, or is neither.
    """
    try:
        return read_data(sys.stdin.read() if str(name) == "-" else Path(name).read_text())
    except OSError as error:
        raise UserError(f"configuration {name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"configuration {name} is no text: {error}") from error
    except UserError as error:
        raise UserError(f"configuration {name} is {error}") from None


def json_or_text(value: str) -> Any:
    """What JSON reads in ``value``; the text itself where that is no JSON."""
    try:
        return json.loads(value)
    except ValueError:
        return value
