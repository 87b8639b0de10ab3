"""Tests that a module defines and does not call: run as unittest and pytest run them.

Standard library only: the zygote loads this file. It runs in an assert-style test's own process.
pytest itself would cost every test more than most programs take, and need not be installed: what
modules of tests commonly use of it is here (`pytest_module`), and anything else is refused by name.
"""

import itertools
import math
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any


class UnsupportedError(Exception):
    """The test needs something that is not there; the message names it."""


class SkippedError(Exception):
    """The test has skipped itself."""


def run(own: dict[str, Any], called: set[str], inner: set[str]) -> None:
    """Run the test functions and classes that a module defines, but for those that it has called.

    ``inner`` are names that its functions call: one of these that takes arguments is no test.

    Raises:
        Exception: that of the first test that fails.
    """
    shared: dict[Any, Any] = {}
    fixtures = _fixtures(own.values())
    setup_module = own.get("setup_module")
    if setup_module is not None:
        _call_with(setup_module, None)
    for name, value in own.items():
        unit = sys.modules.get("unittest")
        if isinstance(value, type) and unit is not None and issubclass(value, unit.TestCase):
            if "TextTestRunner" not in called | inner:
                _run_case(value)
        elif name.startswith("test") and isinstance(value, types.FunctionType):
            if name not in called and not (name in inner and _needed(value)):
                _run_function(value, fixtures, shared)
        elif name.startswith("Test") and isinstance(value, type) and "__init__" not in vars(value):
            _run_class(value, fixtures, shared)
    for finish in reversed(shared.pop("finish", [])):
        next(finish, None)


def _call_with(function: Callable[..., Any], *given: Any) -> Any:
    """A hook such as setup_method, which may take what it is about, or not."""
    return function(*given[: function.__code__.co_argcount - hasattr(function, "__self__")])


# unittest -----------------------------------------------------------------------------------------


def _run_case(case: Any) -> None:
    import unittest

    class First(unittest.TestResult):
        error: BaseException | None = None

        def addError(self, test: Any, err: Any) -> None:
            self.error = self.error or err[1]
            self.stop()

        addFailure = addError

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self.addError(subtest, err)

        def addUnexpectedSuccess(self, test: Any) -> None:
            self.error = AssertionError("an expected failure did not happen")

    result = First()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    if result.error is not None:
        raise result.error


# pytest -------------------------------------------------------------------------------------------


class _Fixture:
    def __init__(self, function: Any, scope: str, params: Any, autouse: bool, name: str) -> None:
        self.function, self.autouse = function, autouse
        self.params = [None] if params is None else list(params)
        self.shared = scope != "function"
        self.name = name or function.__name__


def _fixtures(values: Any) -> dict[str, _Fixture]:
    return {value.name: value for value in values if isinstance(value, _Fixture)}


def _needed(function: Any) -> list[str]:
    """The parameters without default."""
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount])
    names = names[: len(names) - len(function.__defaults__ or ())]
    optional = function.__kwdefaults__ or {}
    first = code.co_argcount
    keywords = code.co_varnames[first : first + code.co_kwonlyargcount]
    return names + [name for name in keywords if name not in optional]


def _run_class(kind: type, fixtures: dict[str, _Fixture], shared: dict[Any, Any]) -> None:
    members = [(n, getattr(kind, n)) for base in kind.__mro__[::-1] for n in vars(base)]
    fixtures = fixtures | _fixtures(value for _, value in members)
    if hasattr(kind, "setup_class"):
        kind.setup_class()
    for name, method in dict(members).items():
        if not name.startswith("test") or not callable(method):
            continue
        instance = kind()
        hooks = [getattr(instance, f"{hook}_method", None) for hook in ("setup", "teardown")]
        if hooks[0] is not None:
            _call_with(hooks[0], method)
        _run_function(method, fixtures, shared, instance)
        if hooks[1] is not None:
            _call_with(hooks[1], method)
    if hasattr(kind, "teardown_class"):
        kind.teardown_class()


def _run_function(
    function: Any, fixtures: dict[str, _Fixture], shared: dict[Any, Any], instance: Any = None
) -> None:
    """Run a test once for each of its sets of parameters."""
    marks = [*getattr(function, "_marks", ()), *getattr(type(instance), "_marks", ())]
    if any(name == "skip" or (name == "skipif" and args[:1] == (True,)) for name, args in marks):
        return
    may_fail = any(name == "xfail" for name, _ in marks)
    sets = [args[0] for name, args in marks if name == "parametrize"]
    wanted = {name for name, each in fixtures.items() if each.autouse}
    wanted |= {each for name, args in marks if name == "usefixtures" for each in args}
    for chosen in itertools.product(*sets):
        given = {name: value for each in chosen for name, value in each.items()}
        names = [n for n in _needed(function) if n not in given]
        ask = _Request(fixtures, shared, instance)
        for params in ask.combinations([*wanted, *(names[1:] if instance is not None else names)]):
            try:
                _run_once(function, given, names, wanted, ask.with_params(params))
            except SkippedError:
                continue
            except AssertionError:
                if not may_fail:
                    raise


def _run_once(
    function: Any, given: dict[str, Any], names: list[str], wanted: set[str], ask: "_Request"
) -> None:
    try:
        for name in wanted:
            ask.value(name)
        bound = () if ask.instance is None else (ask.instance,)
        values = {name: ask.value(name) for name in names[len(bound) :]}
        outcome = function(*bound, **given, **values)
        if isinstance(outcome, types.CoroutineType):
            import asyncio

            asyncio.run(outcome)
    finally:
        for finish in reversed(ask.finish):
            next(finish, None)


class _Request:
    """The fixtures of one run of a test; ``request`` to a fixture."""

    def __init__(
        self, fixtures: dict[str, _Fixture], shared: dict[Any, Any], instance: Any
    ) -> None:
        self.fixtures, self.shared, self.instance = fixtures, shared, instance
        self.values: dict[Any, Any] = {}
        self.finish: list[Any] = []
        self.params: dict[str, Any] = {}
        self.param: Any = None

    def combinations(self, names: list[str]) -> Iterator[dict[str, Any]]:
        """The parameters of all fixtures that the named ones need."""
        reached: dict[str, _Fixture] = {}
        names = list(names)
        for name in names:  # grows
            if name in self.fixtures and name not in reached:
                reached[name] = self.fixtures[name]
                names += _needed(reached[name].function)
        for values in itertools.product(*(each.params for each in reached.values())):
            yield dict(zip(reached, values, strict=True))

    def with_params(self, params: dict[str, Any]) -> "_Request":
        made = _Request(self.fixtures, self.shared, self.instance)
        made.params = params
        return made

    def value(self, name: str) -> Any:
        if name == "request":
            return self
        if name not in self.fixtures:
            raise UnsupportedError(f"the fixture {name!r} is not available")
        fixture = self.fixtures[name]
        values = self.shared if fixture.shared else self.values
        finish = self.shared.setdefault("finish", []) if fixture.shared else self.finish
        key = name, repr(self.params.get(name))
        if key not in values:
            needed = _needed(fixture.function)
            bound = (self.instance,) if needed[:1] == ["self"] else ()
            given = [self.value(each) for each in needed[len(bound) :]]
            self.param = self.params.get(name)
            made = fixture.function(*bound, *given)
            if isinstance(made, types.GeneratorType):
                finish.append(made)
                made = next(made)
            values[key] = made
        return values[key]

    getfixturevalue = value


class _Mark:
    """``pytest.mark``."""

    def __getattr__(self, name: str) -> Any:
        def mark(*args: Any, **options: Any) -> Any:
            if name == "parametrize":
                args = (_parameter_sets(*args, **options),)
            elif name == "skipif":
                args = (bool(args[0] if args else options.get("condition")),)
            elif len(args) == 1 and callable(args[0]) and not options:
                return _marked(args[0], name, ())
            return _named(lambda marked: _marked(marked, name, args), name)

        return _named(mark, name)


def _named(mark: Any, name: str) -> Any:
    mark.name = name
    return mark


def _marked(marked: Any, name: str, args: tuple[Any, ...]) -> Any:
    marked._marks = [*vars(marked).get("_marks", ()), (name, args)]
    return marked


def _parameter_sets(
    argnames: Any, argvalues: Any, ids: Any = None, indirect: Any = False
) -> list[dict[str, Any]]:
    if indirect:
        raise UnsupportedError("pytest.mark.parametrize with indirect is not available")
    several = not isinstance(argnames, str) or "," in argnames
    names = argnames.split(",") if isinstance(argnames, str) else argnames
    names = [name.strip() for name in names if name.strip()]
    sets = []
    for values in argvalues:
        if isinstance(values, _Param):
            if values.left_out:
                continue
        elif not several:
            values = (values,)
        sets.append(dict(zip(names, values, strict=True)))
    return sets


class _Param(tuple):
    """``pytest.param``; left out is one that is to be skipped or may fail."""

    left_out = False


def _param(*values: Any, marks: Any = (), **_: Any) -> _Param:
    made = _Param(values)
    marks = marks if isinstance(marks, (list, tuple)) else [marks]
    made.left_out = any(mark.name in ("skip", "skipif", "xfail") for mark in marks)
    return made


class Raises:
    """``pytest.raises`` as a context manager, and what it has caught."""

    def __init__(self, expected: Any, match: str | None) -> None:
        self.expected, self.match_wanted = expected, match
        self.value: Any = None
        self.type: Any = None

    def __enter__(self) -> "Raises":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None:
            raise AssertionError(f"DID NOT RAISE {self.expected}")
        if not issubclass(kind, self.expected):
            return False
        self.value, self.type = error, kind
        if self.match_wanted is not None:
            self.match(self.match_wanted)
        return True

    def match(self, pattern: str) -> bool:
        if not re.search(pattern, str(self.value)):
            raise AssertionError(f"the message {str(self.value)!r} does not match {pattern!r}")
        return True


def _raises(expected: Any, *call: Any, match: str | None = None, **named: Any) -> Raises:
    raises = Raises(expected, match)
    if call:
        with raises:
            call[0](*call[1:], **named)
    return raises


class Approx:
    """``pytest.approx``: numbers, and lists, tuples, arrays and dicts of them."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self, expected: Any, rel: Any = None, abs: Any = None, nan_ok: bool = False
    ) -> None:
        self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok

    def __eq__(self, actual: object) -> bool:
        return self._same(self.expected, actual)

    def _same(self, expected: Any, actual: Any) -> bool:
        if hasattr(expected, "tolist"):
            expected = expected.tolist()
        if type(actual).__module__ == "numpy" and hasattr(actual, "tolist"):
            actual = actual.tolist()
        if isinstance(expected, dict):
            same_keys = isinstance(actual, dict) and expected.keys() == actual.keys()
            return same_keys and all(self._same(expected[key], actual[key]) for key in expected)
        if isinstance(expected, (list, tuple)):
            alike = isinstance(actual, (list, tuple)) and len(expected) == len(actual)
            return alike and all(map(self._same, expected, actual))
        if not _is_number(expected) or not _is_number(actual):
            return bool(expected == actual)
        return self._close(expected, actual)

    def _close(self, expected: Any, actual: Any) -> bool:
        if expected == actual or (self.nan_ok and expected != expected and actual != actual):
            return True
        if math.isinf(abs(expected)) or expected != expected:
            return False
        least = 1e-12 if self.abs is None else self.abs
        share = self.rel if self.rel is not None else (1e-6 if self.abs is None else 0)
        return bool(abs(expected - actual) <= max(share * abs(expected), least))

    def __repr__(self) -> str:
        return f"approx({self.expected!r})"


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float, complex)) or type(value).__name__ in (
        "Decimal",
        "Fraction",
    )


def _fixture(
    function: Any = None, *, scope: str = "function", params: Any = None, autouse: bool = False,
    name: str = "", ids: Any = None,
) -> Any:  # fmt: skip
    def made(function: Any) -> _Fixture:
        return _Fixture(function, scope, params, autouse, name)

    return made if function is None else made(function)


def _skip(reason: str = "", **_: Any) -> None:
    raise SkippedError(reason)


def _fail(reason: str = "", **_: Any) -> None:
    raise AssertionError(reason)


def _not_available(name: str) -> Any:
    if name[:2] == "__":
        raise AttributeError(name)
    raise UnsupportedError(f"pytest.{name} is not available")


def prepare(code: str) -> None:
    """Before a test is run: what it may import, and what must not end it."""
    if "pytest" in code:
        sys.modules["pytest"] = _pytest_module()
    if "unittest" in code:
        import unittest

        vars(unittest)["main"] = lambda *_, **__: None  # `run` does it, and ends no process


def _pytest_module() -> types.ModuleType:
    module = types.ModuleType("pytest")
    vars(module).update(_PYTEST, __getattr__=_not_available)
    return module


_PYTEST = {
    "raises": _raises,
    "approx": Approx,
    "mark": _Mark(),
    "fixture": _fixture,
    "skip": _skip,
    "fail": _fail,
    "param": _param,
    "importorskip": __import__,
    "main": lambda *_: 0,
}
