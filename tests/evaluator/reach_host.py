"""A submission: prints every way that led it to an object of the host, of which its input tells."""
# ruff: noqa: PTH104, PTH108, PTH109, PTH116, PTH119, PTH120, PTH208, PTH211

import ctypes
import itertools
import json
import os
import socket
import stat

given, libc = json.loads(input()), ctypes.CDLL(None, use_errno=True)
here, numbers, managed = os.getcwd(), itertools.count(), set()


def attempt(way, action):
    try:
        if action() is not False:
            managed.add(way)
    except BlockingIOError:  # whoever listens there has not answered yet
        managed.add(way)
    except (OSError, ValueError):
        pass


def paired(kind):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    other.close()
    return one


def bound(kind):
    one = socket.socket(socket.AF_UNIX, kind)
    one.bind(f"{here}/own-{next(numbers)}")
    return one


def talk(way, address):
    makers = (lambda kind: socket.socket(socket.AF_UNIX, kind)), paired, bound
    kinds = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET
    actions = {
        "connect": lambda one: one.connect(address),
        "sendto": lambda one: one.sendto(b"x", address),
        "sendmsg": lambda one: one.sendmsg([b"x"], [], 0, address),
    }
    for make, kind, (name, action) in itertools.product(makers, kinds, actions.items()):

        def act(make=make, kind=kind, action=action):
            with make(kind) as one:
                one.setblocking(False)
                action(one)

        attempt(f"{name} {way}", act)


def by_handle(path):
    handle = os.open(path, os.O_PATH)
    talk("by a handle", f"/proc/self/fd/{handle}")
    attempt("open again", lambda: os.open(f"/proc/self/fd/{handle}", os.O_RDWR | os.O_NONBLOCK))
    return given["world"]


def by_folder(path):
    os.chdir(os.path.dirname(path))
    talk("by name", os.path.basename(path))
    return given["world"]


for number in range(3, 4096):
    attempt("inherited", lambda number=number: not stat.S_ISDIR(os.fstat(number).st_mode))
for number, path in enumerate(given["paths"]):
    talk("by path", path)
    for root in ("/proc/self/root", "/proc/1/root", f"/proc/{os.getppid()}/root", "../../.."):
        talk("by another root", root + path)
    os.symlink(path, f"link-{number}")
    talk("by a link", f"link-{number}")
    attempt("a handle", lambda path=path: by_handle(path))
    attempt("a folder", lambda path=path: by_folder(path))
    os.chdir(here)
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        attempt("open", lambda path=path, flags=flags: os.open(path, flags | os.O_NONBLOCK))
    attempt("list", lambda path=path: os.listdir(os.path.dirname(path)))
    attempt("link", lambda path=path, to=f"hard-{number}": os.link(path, to))
    attempt("rename", lambda path=path, to=f"moved-{number}": os.rename(path, to))
    attempt("unlink", lambda path=path: os.unlink(path))
    watch = path.encode(), 0xFFF
    attempt("watch", lambda at=watch: libc.inotify_add_watch(libc.inotify_init(), *at) >= 0)
    if given["world"]:
        attempt("stat", lambda path=path: os.stat(path))
for name in given["abstract"]:
    talk("by an abstract name", f"\0{name}")
print(*sorted(managed), sep=", ")
