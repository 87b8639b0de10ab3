"""What an assert-style test's own process does: run the test and give the verdict.

Standard library only: the zygote loads this file. The submission is in another process, which is
asked through a `link`.
"""

import builtins
import contextlib
import json
import os
import sys
import traceback
import types
from typing import Any, NoReturn

from mcbench.evaluator import remote, unit_tests
from mcbench.evaluator.link import RESULT, UNASKED, Link, harmless

_MAX_MESSAGE_TEXT, _MAX_RESULT_TEXT = 300, 1000


def run_test(test: dict[str, Any]) -> NoReturn:
    """In the test's process: run it, leave the verdict in the result file, end."""
    link = Link(harmless, trusting=False)
    try:
        _run(test, link)
        link.insist_on_handling()
        verdict, message = "AC", ""
        if not link.questions and not link.looked_up:
            verdict, message = UNASKED, "the test ended without a question to the submission"
    except BaseException as error:
        verdict = _verdict_on(error, link)
        message = f"{type(error).__name__}: {remote.text_of(error)[:_MAX_MESSAGE_TEXT]}"
        message = message.rstrip(": ") + _place(error, test)
        if verdict in ("IE", UNASKED):
            message = f"the test itself failed: {message}"
    if link.broken:
        verdict, message = "RE", str(link.broken)
    os.pwrite(RESULT, json.dumps([verdict, message[:_MAX_RESULT_TEXT]]).encode(), 0)
    os._exit(0)


def _verdict_on(error: BaseException, link: Link) -> str:
    """Who is at fault: the submission (WA or RE), or a test that cannot be run or asked nothing."""
    if {"from_submission", "_remote"} & vars(error).keys():
        return "RE"
    if isinstance(error, (ModuleNotFoundError, remote.UnsupportedError)):
        return "IE"
    if not (link.questions or link.looked_up) or isinstance(error, unit_tests.NotRunError):
        return UNASKED
    return "WA" if isinstance(error, AssertionError) else "RE"


def _run(test: dict[str, Any], link: Link) -> None:
    import ast  # large, and only the test's own process needs it

    setup, code = (ast.parse(test[part].removeprefix("\ufeff")) for part in ("setup", "code"))
    entry_point = test["entry_point"]
    unit_tests.prepare(test["setup"] + test["code"], _SOLUTION)
    nodes = [*ast.walk(setup), *ast.walk(code)]
    attributes = (node.value for node in nodes if isinstance(node, ast.Attribute))
    modules = {value.id for value in attributes if isinstance(value, ast.Name)}
    names: dict[str, Any] = {"__name__": "__main__"}
    names["__builtins__"] = _Further(link, names, modules & sys.stdlib_module_names - {entry_point})
    sys.modules[_SOLUTION] = _Solution(link)
    try:
        found = entry_point and link.look_up(entry_point)
    except KeyError:
        raise link.break_off(f"the submission does not define {entry_point!r}") from None
    exec(compile(setup, "setup", "exec", dont_inherit=True), names)
    if entry_point:
        names[entry_point] = names["candidate"] = found
        _keep_apart(code, entry_point)
    ended = None
    try:
        exec(compile(code, "test", "exec", dont_inherit=True), names)
    except SystemExit as end:  # sys.exit(unittest.main())
        ended = end
    defined = [node.name for node in code.body if type(node).__name__ in _DEFINITIONS]
    called, inner = map(set, (map(_name_of, _calls(code)), map(_name_of, _calls(code, True))))
    unit_tests.run({name: names[name] for name in defined if name in names}, called, inner)
    if ended is not None and ended.code:
        raise ended


class _Further(dict[str, Any]):
    """What a test's names are looked up in that are none of its own: Python's, modules of the
    library that it uses without an import, the submission's.
    """

    def __init__(self, link: Link, names: dict[str, Any], modules: set[str]) -> None:
        super().__init__(vars(builtins) | {"type": _Type})
        self.link, self.names, self.modules = link, names, modules

    def __missing__(self, name: str) -> Any:
        known = __import__(name) if name in self.modules else self.link.look_up(name)
        return self.names.setdefault(name, known)


class _TypeOf(type):
    def __call__(cls, value: Any, *rest: Any, **named: Any) -> Any:
        """No builtin class of an object of the submission: it could lie."""
        if cls is not _Type:
            return super().__call__(value, *rest, **named)
        kind = _ask_type(value, *rest, **named)
        lies = issubclass(type(value), remote.Remote) and not issubclass(type(kind), remote.Remote)
        return type(value) if lies else kind

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, type) if cls is _Type else super().__instancecheck__(value)


class _Type(type, metaclass=_TypeOf):
    """`type` in a test: the submission is asked for the class of an object of its own."""


_ask_type = remote.asked("type", type)
_SOLUTION = "solution"  # the module that tests import the submission as


class _Solution(types.ModuleType):
    def __init__(self, link: Link) -> None:
        super().__init__(_SOLUTION)
        vars(self).update(_link=link, __all__=())  # any name is found without an import

    def __getattr__(self, name: str) -> Any:
        if name[:2] != "__":
            with contextlib.suppress(KeyError):
                return self._link.look_up(name)
        raise AttributeError(f"module {_SOLUTION!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._link.ask("setglobal", name, value)

    def __delattr__(self, name: str) -> None:
        self._link.ask("delglobal", name)


_FUNCTIONS = ("FunctionDef", "AsyncFunctionDef")
_DEFINITIONS = (*_FUNCTIONS, "ClassDef")


def _keep_apart(code: Any, entry_point: str) -> None:
    """A function of the test's that is named as the submission's, as in ``check(check)``.

    What the test calls outside of functions is its own, what it gives to that the submission's.
    """
    own = [n for n in code.body if type(n).__name__ in _FUNCTIONS and n.name == entry_point]
    for function in own:
        function.name = f"{entry_point} of the test"
    for called in _calls(code) if own else ():
        if getattr(called, "id", "") == entry_point:
            called.id = own[0].name


def _calls(code: Any, within: bool = False) -> list[Any]:
    """What a test calls outside of functions and classes, or within them."""
    import ast

    statements = (n for n in code.body if (type(n).__name__ in _DEFINITIONS) is within)
    nodes = (node for statement in statements for node in ast.walk(statement))
    return [node.func for node in nodes if isinstance(node, ast.Call)]


def _name_of(called: Any) -> str:
    return str(getattr(called, "id", getattr(called, "attr", "")))


def _place(error: BaseException, test: dict[str, Any]) -> str:
    """The line of the submission, or else of the test, where an exception was raised."""
    if line := vars(error).get("_line"):
        return f" (line {line} of the submission)"
    lines = {"test": test["code"].splitlines(), "setup": test["setup"].splitlines()}
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, number) for frame, number in frames]
    found = [(name, number) for name, number in places if number <= len(lines.get(name, ()))]
    if not found:
        return ""
    name, number = found[-1]
    return f" ({lines[name][number - 1].strip()[:_MAX_MESSAGE_TEXT]})"
