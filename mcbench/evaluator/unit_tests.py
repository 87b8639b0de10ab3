"""Tests that a module defines and does not call: pytest runs them, in the test's own process.

The zygote loads this file, and pytest where it is for such tests. The submission is in another
process: what pytest would see of its output, or change for it, is refused by name.
"""

import builtins
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from mcbench.evaluator.remote import OF_DATACLASSES, Remote, UnsupportedError, asked

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

        for name in ("warns", "deprecated_call"):
            _refuse(pytest, name, f"pytest.{name} is not available")
        vars(pytest)["main"] = lambda *_: 0
    if "unittest" in code:
        import unittest

        vars(unittest)["main"] = lambda *_, **__: None
        for name in ("assertLogs", "assertNoLogs", "assertWarns", "assertWarnsRegex"):
            _refuse(unittest.TestCase, name, f"{name} is not available")
    if "mock" in code:
        from unittest import mock

        _refuse(mock._patch, "__enter__", _REPLACED, lambda patch: _patched(patch, solution))
        told = "a change of os.environ does not reach the submission"
        environment = "os.environ", os.environ
        _refuse(mock._patch_dict, "_patch_dict", told, lambda patch: patch.in_dict in environment)
    if "catch_warnings" in code:
        import warnings

        told = "warnings of the submission are not available"
        _refuse(warnings.catch_warnings, "__enter__", told, lambda recorder: recorder._record)
    _prepare_classes(code)


def _prepare_classes(code: str) -> None:
    """Functions of libraries that look into objects, or insist on their class."""
    if "inspect" in code:
        import inspect

        for name in ("signature", "getsource", "getsourcelines", "getfullargspec"):
            told = "what inspect tells of the submission is not available"
            _refuse(inspect, name, told, _is_remote)
    if "dataclasses" in code:
        import dataclasses

        for name in OF_DATACLASSES:
            setattr(dataclasses, name, asked(name, getattr(dataclasses, name)))
        _refuse(dataclasses, "replace", "dataclasses.replace is not available", _is_remote)
    for name in ("assert_frame_equal", "assert_series_equal", "assert_index_equal"):
        if name in code:
            import pandas.testing

            _refuse(pandas.testing, name, f"pandas.testing.{name} is not available")


def _refuse(owner: Any, name: str, told: str, when: Callable[..., Any] = lambda *_: True) -> None:
    """Have the use of something refused: always, or ``when`` its first argument is of a kind."""
    function = getattr(owner, name, None)

    def checked(*args: Any, **named: Any) -> Any:
        if found := when(*args[:1]):
            raise UnsupportedError(told.format(found))
        return function(*args, **named)  # type: ignore[misc]

    setattr(owner, name, checked)


def _is_remote(subject: Any = None) -> bool:
    return issubclass(type(subject), Remote)


_REPLACED = "what replaces {} does not reach the submission"


def _patched(patch: Any, solution: str) -> str:
    """What a patch replaces for the test alone."""
    target = patch.getter()
    if not isinstance(target, types.ModuleType) or target.__name__ == solution:
        return ""
    name = f"{target.__name__}.{patch.attribute}"
    return "" if name in ("sys.stdout", "sys.stderr") else name


_ORIGINALS = [(builtins, name, vars(builtins)[name]) for name in ("input", "print", "open")]


def insist_on_originals() -> None:
    """What a test replaces for the submission does not reach that.

    Raises:
        UnsupportedError: it has replaced such a thing.
    """
    for owner, name, original in (*_ORIGINALS, (sys, "stdin", sys.__stdin__)):
        if getattr(owner, name) is not original:
            raise UnsupportedError(_REPLACED.format(name))


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
            _refuse(collected, name, f"fixture {name} is not available")
            setattr(collected, name, pytest.fixture(getattr(collected, name), name=name))
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
