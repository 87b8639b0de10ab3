"""Tests that a module defines and does not call: pytest runs them, in the test's own process.

The zygote loads this file, and pytest where it is for such tests. The submission is in another
process: what pytest would see of its output, or change for it, is refused by name.
"""

import sys
import types
from typing import Any

# Of pytest, what cannot work across two processes.
NOT_AVAILABLE = frozenset({"warns", "deprecated_call"})
_LEFT_OUT = (
    *("cacheprovider", "capture", "doctest", "faulthandler", "junitxml", "legacypath"),
    *("logging", "monkeypatch", "pastebin", "recwarn", "setuponly", "setupplan", "stepwise"),
    *("terminal", "threadexception", "tmpdir", "unraisableexception", "warnings"),
)
# No file of the working directory, which the submission can write to, is read.
_OPTIONS = (
    *("--config-file=/dev/null", "--rootdir=/", "--noconftest", "--disable-plugin-autoload"),
    *("--assert=plain", "--exitfirst"),
    *(f"-pno:{name}" for name in _LEFT_OUT),
)


class UnsupportedError(Exception):
    """The test needs something that is not there; the message names it."""


def prepare(code: str) -> None:
    """Before a test is run: what it must not ask for, and what must not run or end it: `run` does.

    Raises:
        ModuleNotFoundError: it needs pytest, which is not installed.
    """
    if "pytest" in code:
        import pytest

        vars(pytest).update({name: _refusal(name) for name in NOT_AVAILABLE}, main=lambda *_: 0)
    if "unittest" in code:
        import unittest

        vars(unittest)["main"] = lambda *_, **__: None


def _refusal(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise UnsupportedError(f"pytest.{name} is not available")

    return refuse


def run(own: dict[str, Any], called: set[str], inner: set[str]) -> None:
    """Run the test functions and classes that a module defines, but for those that it has called.

    ``inner`` are names that its functions call: one of these that takes arguments is no test.

    Raises:
        BaseException: that of the first test that fails; UnsupportedError: it lacks a fixture.
    """
    unit = sys.modules.get("unittest")
    own_runner = "TextTestRunner" in called | inner
    tests = 0
    for name, value in list(own.items()):
        if isinstance(value, types.FunctionType) and name.startswith("test"):
            optional = len(value.__defaults__ or ())
            helps = name in inner and value.__code__.co_argcount > optional
            kept = not (name in called or helps)
        elif isinstance(value, type) and unit and issubclass(value, unit.TestCase):
            kept = not own_runner
        else:
            kept, tests = True, tests - (not name.startswith("Test"))
        tests += kept
        if not kept:
            del own[name]
    if tests > 0:
        error = _run(own)
        if error is not None:
            raise error


def warm_up() -> None:
    """In the zygote: what pytest sets up at its first run."""
    _run({"test": lambda: None})


def _run(own: dict[str, Any]) -> BaseException | None:
    """Run a module; what its first failure raised."""
    import pytest
    from _pytest.config import main

    plugin = _Plugin(own)
    status = main(list(_OPTIONS), plugins=[plugin])
    error = plugin.error
    if isinstance(error, pytest.FixtureLookupError):
        return UnsupportedError(f"the fixture {error.argname!r} is not available")
    if isinstance(error, pytest.fail.Exception):
        return AssertionError(str(error)).with_traceback(error.__traceback__)
    if error is None and plugin.told:  # such as an expected failure that was none
        return AssertionError(plugin.told)
    if error is None and status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return UnsupportedError(f"pytest cannot run it: {status!r}")
    return error


class _Plugin:
    """Hooks of pytest: what is collected, and what came of it."""

    def __init__(self, own: dict[str, Any]) -> None:
        self.own = own
        self.error: BaseException | None = None
        self.told = ""

    def pytest_collection(self, session: Any) -> bool:
        import pytest

        collected = types.ModuleType("test")
        vars(collected).update(self.own)

        class Module(pytest.Module):
            def _getobj(self) -> types.ModuleType:
                return collected

        module = Module.from_parent(session, path=session.path / "test.py")
        session.items = list(session.genitems(module))
        session.testscollected = len(session.items)
        session.config.option.tbstyle = "native"  # shows no value, for which it would ask
        return True

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool | None:
        import asyncio
        import inspect

        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None

        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True

    def pytest_exception_interact(self, call: Any) -> None:
        self.error = self.error or call.excinfo.value

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.error = UnsupportedError(f"pytest cannot collect it: {report.longreprtext}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.told = report.longreprtext
