"""Tests that a module defines and does not call: pytest runs them, in the test's own process.

The zygote loads this file, and pytest where it is for such tests. The submission is in another
process: what pytest would see of its output, or change for it, is refused by name.
"""

import builtins
import os
import sys
import types
from typing import Any

from mcbench.evaluator.remote import OF_DATACLASSES, Remote, UnsupportedError, asked

# Of pytest, what cannot work across two processes.
NOT_AVAILABLE = frozenset({"warns", "deprecated_call"})
_LEFT_OUT = (
    *("cacheprovider", "doctest", "faulthandler", "junitxml", "legacypath"),
    *("logging", "monkeypatch", "pastebin", "recwarn", "setuponly", "setupplan", "stepwise"),
    *("terminal", "threadexception", "tmpdir", "unraisableexception", "warnings"),
)
# No file of the working directory, which the submission can write to, is read.
_OPTIONS = (
    *("--config-file=/dev/null", "--rootdir=/", "--noconftest", "--disable-plugin-autoload"),
    *("--assert=plain", "--exitfirst", "--capture=no"),
    *(f"-pno:{name}" for name in _LEFT_OUT),
)


class NotRunError(Exception):
    """pytest could not collect or run what the test defines."""


def prepare(code: str, solution: str) -> None:
    """Before a test is run: what it must not ask for, and what must not run or end it: `run` does.

    What it changes for the submission, or expects to see of it, is refused where that is in another
    process: but for the module ``solution``, and for standard output.

    Raises:
        ModuleNotFoundError: it needs pytest, which is not installed.
    """
    if "pytest" in code:
        import pytest

        vars(pytest).update(
            {name: _refusal(f"pytest.{name}") for name in NOT_AVAILABLE}, main=lambda *_: 0
        )
    if "unittest" in code:
        import unittest

        vars(unittest)["main"] = lambda *_, **__: None
        for name in ("assertLogs", "assertNoLogs", "assertWarns", "assertWarnsRegex"):
            setattr(unittest.TestCase, name, _refusal(name))
    if "mock" in code:
        from unittest import mock

        _check(mock._patch, "__enter__", lambda patch: _check_patch(patch, solution))
        _check(mock._patch_dict, "_patch_dict", _check_patched_dict)
    if "catch_warnings" in code:
        import warnings

        _check(warnings.catch_warnings, "__enter__", _check_recorded)
    _prepare_classes(code)
    if "inspect" in code:
        import inspect

        for name in ("signature", "getsource", "getsourcelines", "getfullargspec"):
            _check(inspect, name, _check_inspected)


def _prepare_classes(code: str) -> None:
    """Functions of libraries that look into objects, or insist on their class."""
    if "dataclasses" in code:
        import dataclasses

        for name in OF_DATACLASSES:
            setattr(dataclasses, name, asked(name, getattr(dataclasses, name)))
        _check(dataclasses, "replace", _check_replaced)
    for name in ("assert_frame_equal", "assert_series_equal", "assert_index_equal"):
        if name in code:
            import pandas.testing

            setattr(pandas.testing, name, _refusal(f"pandas.testing.{name}"))


def _check(owner: Any, name: str, check: Any) -> None:
    """Have something checked whenever a function is called."""
    function = getattr(owner, name)

    def checked(*args: Any, **named: Any) -> Any:
        check(*args[:1])
        return function(*args, **named)

    setattr(owner, name, checked)


def _check_patch(patch: Any, solution: str) -> None:
    target = patch.getter()
    if not isinstance(target, types.ModuleType) or target.__name__ == solution:
        return
    name = f"{target.__name__}.{patch.attribute}"
    if name not in ("sys.stdout", "sys.stderr"):
        raise UnsupportedError(f"what replaces {name} does not reach the submission")


def _check_patched_dict(patch: Any) -> None:
    if patch.in_dict in ("os.environ", os.environ):
        raise UnsupportedError("a change of os.environ does not reach the submission")


def _check_recorded(recorder: Any) -> None:
    if recorder._record:
        raise UnsupportedError("warnings of the submission are not available")


def _check_replaced(subject: Any) -> None:
    if issubclass(type(subject), Remote):
        raise UnsupportedError("dataclasses.replace is not available")


def _check_inspected(subject: Any = None) -> None:
    if issubclass(type(subject), Remote):
        raise UnsupportedError("what inspect tells of the submission is not available")


_ORIGINALS = [(builtins, name, vars(builtins)[name]) for name in ("input", "print", "open")]


def insist_on_originals() -> None:
    """What a test replaces for the submission does not reach that.

    Raises:
        UnsupportedError: it has replaced such a thing.
    """
    for owner, name, original in (*_ORIGINALS, (sys, "stdin", sys.__stdin__)):
        if getattr(owner, name) is not original:
            raise UnsupportedError(f"what replaces {name} does not reach the submission")


def _refusal(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise UnsupportedError(f"{name} is not available")

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
        return NotRunError(f"pytest cannot run it: {status!r}")
    return error


def _temporary_folder() -> Any:
    import pathlib
    import tempfile

    return pathlib.Path(tempfile.mkdtemp())


class _Plugin:
    """Hooks of pytest: what is collected, and what came of it."""

    def __init__(self, own: dict[str, Any]) -> None:
        self.own = own
        self.error: BaseException | None = None
        self.told = ""

    def pytest_collection(self, session: Any) -> bool:
        import pytest

        collected = types.ModuleType("test")
        for name in ("capfd", "capfdbinary"):
            setattr(collected, name, pytest.fixture(_refusal(f"fixture {name}"), name=name))
        vars(collected)["tmp_path"] = pytest.fixture(_temporary_folder, name="tmp_path")
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
            self.error = NotRunError(f"pytest cannot collect it: {report.longreprtext}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.told = report.longreprtext
