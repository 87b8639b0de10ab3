"""Find the program in a model's response: the rule is in `extract_code`.

Fenced blocks are found as CommonMark has them, line by line in one pass, and a little more
leniently: a fence may follow words on its line, close on the line of the last statement, and be
followed by tags. A Python block may begin within one that is Markdown.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import warnings
from collections.abc import Iterable
from itertools import islice

_TAGS = "(?:seed:)?(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)"
_THOUGHT = re.compile(
    rf"\s*(?:(?:[<[◁]|<\|begin_of_){_TAGS}\|?[]>▷]|<\|channel\|>analysis)", re.IGNORECASE
)
_END = rf"(?:(?:[<[◁]/|<\|end_of_){_TAGS}\|?[]>▷]|<\|channel\|>final<\|message\|>)"
_THOUGHT_ENDS = re.compile(f"(?<!`){_END}", re.IGNORECASE)
_ENDS_ON_A_LINE = re.compile(rf"^[ \t]*+{_END}", re.IGNORECASE | re.MULTILINE)
_OF_INTEREST = re.compile(r"```|~~~|[<[◁]/|<\|(?:end_of_|channel)")
# Indented, quoted or in a list item; possessive, so that no line takes longer than its length.
_FENCE = re.compile(r"((?:[ \t>]|(?:[-*+]|[0-9]{1,9}[.)])[ \t])*+)(`{3,}+|~{3,}+)(.*)")
_AFTER_WORDS = re.compile(r"([^`]*)(`{3,}+)([\w+#.-]*)\s*")
_BEFORE_FENCES = " \t:>*"  # on their line; before one tagged as Python anything
_LAST_TAGS = re.compile(r"(?:<[^<>\s]{1,40}>\s*+){1,4}$")  # </answer>, <|im_end|>
_TAG = re.compile(r"[\s{.=]*([\w+#.-]*)")
_PYTHON = re.compile(r"(?:lang(?:uage)?-)?(?:python|py|pypy|cpython|ipython)[0-9.]*|.*\.py")
_MARKDOWN = ("markdown", "md")
# What shows input, output or data.
_SHOWN = (
    *("text", "txt", "plaintext", "plain", "output", "input", "console", "terminal", "bash", "sh"),
    *("shell", "zsh", "json", "yaml", "csv", "diff", "pycon", "math", *_MARKDOWN),
)
_LIKE_CODE = re.compile(
    r"import [\w., ]+(?:$|[;#])|from [\w.]+ import |(?:async )?def \w+\(|class \w+ ?[(:]|@\w|"
    r"\*?[A-Za-z_][\w.]*(?:\[[^]]*\])?(?:, ?\*?\w+)*,? ?(?::[^=]+)?[-+*/%&|^@]?=(?!=)|"
    r"[\w.]+\(.*[](){}\[,:]$|for [^:]+ in .*:$|(?:if|while|with) \S.*:$|try:|\"\"\"|'''"
)
# What a program does that is more than a formula, a trace or data.
_DOES = re.compile(r"\b(?:def|class|import|lambda)\b|\b(?:print|input|open|exec|main)\(|\bsys\.")
_DEFINES = re.compile(r"^(?:async )?(?:def|class) +(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_BINDING = ("name", "arg", "rest")  # fields of the syntax tree that hold a bound name
_STATEMENT = re.compile(r"[^#]*?[^\W\d]")  # with a letter before any comment
# Before what is typed to Python, IPython or a shell.
_PROMPTS = (">>> ", "In [", "%", "!", "$ ")
_GIVEN = {*dir(builtins), "ListNode", "TreeNode", "Node"}  # names that any program has
_MOST_SHOWN = 4000  # characters of an example or a formula; in what is longer none is looked for
_CODE, _UNCLEAR, _NO_CODE = 2, 1, 0


def extract_code(response: str) -> str | None:
    """The last complete fenced block that is tagged as Python, or not tagged and begins like it.

    An example after the program is none: a block that uses a function or class that only an
    earlier one defines, repeats up to half of its lines, has no name in it, or begins with a
    prompt (``>>>``). Nor is a formula or a trace: an untagged block that is not Python, or does
    nothing (`_DOES`: define, import, read, print) where an earlier one does.

    Where no block is Python, the last one whose tag is none or that of a language, then any. None
    where there is none, and where the last block of any kind is unfinished: a response that was cut
    off must not be scored on an earlier draft. A response that begins with code and closes a fence
    that it did not open (the prompt did) is the program up to there.

    What a model thinks before its answer holds no program: up to the first ``</think>`` (the words
    and marks of `_TAGS` and `_END`) that is neither in a block's code nor quoted. A thought that
    begins the response and does not end has no answer. Without one at the beginning, a tag that
    nothing follows is a stray one.

    Indentation that a block has from its fence (in a list item, say) is taken off. Takes linear
    time, whatever the response is.
    """
    lines = response.replace("\r\n", "\n").split("\n")
    scan = _Scan(lines, thinking=_THOUGHT.match(response) is not None)
    for number, line in enumerate(lines):
        if _OF_INTEREST.search(line):
            scan.see(number, line)
        scan.note_strings(line)
    ends = list(_ENDS_ON_A_LINE.finditer(response)) if scan.thinking else []
    if ends:  # within a draft that was given up, in the middle of a text
        return extract_code(response[ends[-1].end() :])
    return None if scan.thinking or scan.fence or not scan.found else scan.found[max(scan.found)]


class _Scan:
    """What is known of a response up to a line."""

    def __init__(self, lines: list[str], thinking: bool) -> None:
        self.lines = lines
        self.thinking = thinking  # in a thought that began the response
        self.thought = False  # one has ended
        self.begin = 0  # the answer's first line
        self.fence = ""  # of the open block
        self.prefix, self.tag, self.start = "", "", 0  # what it is in, what it says, its first line
        self.outer = ""  # the fence of the Markdown that it is in
        self.in_string = False  # of the open block, one in triple quotes
        self.forget()

    def forget(self) -> None:
        """Of the blocks so far."""
        self.found: dict[int, str] = {}  # the last complete one of each kind
        self.defined: set[str] = set()  # by those that are code
        self.program: set[str] = set()  # lines of the last of these
        self.does = False  # whether one of these does something

    def note_strings(self, line: str) -> None:
        """Whether the next line of an open block is in a text of several lines."""
        if self.fence and (line.count('"""') + line.count("'''")) % 2:
            self.in_string = not self.in_string

    def see(self, number: int, line: str) -> None:
        """A line that may have a fence or end a thought."""
        if not self.thought:
            for ends in _THOUGHT_ENDS.finditer(line):
                if not self.fence or self._is_bare(line[: ends.start()]):
                    line = line[ends.end() :]
                    self._end_thought(number, line)
                    break
        if tags := _LAST_TAGS.search(line):
            line = line[: tags.start()]
        fence = _FENCE.match(line)
        if self.fence:
            self._inside(number, line, fence)
        elif fence is None:
            fence = _AFTER_WORDS.fullmatch(line)
            if fence and (fence[1][-1] in _BEFORE_FENCES or _PYTHON.fullmatch(fence[3].lower())):
                self._begin_block(number, "", *fence.group(2, 3))
        elif not (fence[2][0] == "`" and "`" in fence[3]):  # else inline code
            first = islice(self.lines, self.begin, number)
            if not (fence[3].strip() or self.found) and _begins_like_code(first):
                self.prefix = ""
                self._note("python", self.lines[self.begin : number])
            else:
                self._begin_block(number, *fence.groups())

    def _end_thought(self, number: int, rest: str) -> None:
        stray = (
            not self.thinking
            and not rest.strip()
            and not any(map(str.strip, islice(self.lines, number + 1, None)))
        )
        self.thought = True
        if not stray:
            self.thinking, self.fence, self.outer, self.begin = False, "", "", number + 1
            self.forget()

    def _begin_block(self, number: int, prefix: str, marks: str, info: str) -> None:
        self.fence, self.in_string = marks, False
        self.prefix, self.start, self.tag = prefix, number + 1, _tag_in(info)

    def _inside(self, number: int, line: str, fence: re.Match[str] | None) -> None:
        """Close the open block where its fence stands alone, or ends a statement's line; begin one
        where no line of the open block can have this fence.
        """
        bare = line.rstrip()
        if fence is not None:
            near = len(fence[1].expandtabs(4)) <= len(self.prefix.expandtabs(4)) + 3
            alone = not (fence[1].strip(" \t>") or fence[3].strip())
            if fence[2].startswith(self.fence) and near and alone:
                self._close(number)
            elif _PYTHON.fullmatch(_tag_in(fence[3])) and not self.in_string:
                if self.tag in _MARKDOWN:
                    self.outer = self.fence
                    self._begin_block(number, *fence.groups())
                elif _PYTHON.fullmatch(self.tag):
                    self._begin_block(number, *fence.groups())
        elif bare.endswith(self.fence):
            tail = bare.rstrip(self.fence[0])
            if self._is_bare(tail) and not tail.rstrip().endswith(":"):
                self._close(number, tail)

    def _close(self, number: int, tail: str = "") -> None:
        self._note(self.tag, [*self.lines[self.start : number], *filter(None, [tail])])
        self.fence, self.tag, self.outer = self.outer, "markdown" if self.outer else "", ""

    def _is_bare(self, before: str) -> bool:
        """Whether what follows on the line is in no text and no comment of the program."""
        quotes = before.count('"') % 2 or before.count("'") % 2
        return not (self.in_string or quotes or "#" in before)

    def _note(self, tag: str, lines: list[str]) -> None:
        """A complete block."""
        lines = _without(self.prefix, lines)
        kind, code = _kind_of(tag, lines), "\n".join(lines)
        if kind == _CODE:
            does = _DOES.search(code) is not None
            if self._is_example(code) or (self.does and not (tag or does)):
                return
            self.does |= does
        self.found[kind] = "\n".join([*lines, ""]) or "\n"

    def _is_example(self, code: str) -> bool:
        """Whether it shows the use or lines of an earlier block; else that is noted of it."""
        stripped = set(filter(None, map(str.strip, code.split("\n"))))
        repeats = stripped <= self.program and 2 * len(stripped) <= len(self.program)
        used = self.defined.intersection(_WORD.findall(code)) - _GIVEN
        if repeats or (used and used & _free_names(code)):
            return True
        self.defined.update(_DEFINES.findall(code))
        self.program = stripped
        return False


def _free_names(code: str) -> set[str]:
    """What a block uses and binds nowhere; to import it from a module that is not the library's
    binds nothing.
    """
    used, bound = set[str](), set[str]()
    for node in ast.walk(_parsed(code) or ast.Module([], [])):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
            module = getattr(node, "module", None) or node.names[0].name
            known = module.partition(".")[0] in sys.stdlib_module_names
            bound.update(names if known else ())
        elif not isinstance(node, ast.alias):
            bound.update(str(getattr(node, field, "")) for field in _BINDING)
    return used - bound


def _parsed(code: str) -> ast.Module | None:
    """What is short, if it is Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code) if len(code) <= _MOST_SHOWN else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _tag_in(info: str) -> str:
    tag = _TAG.match(info)
    return tag[1].lower() if tag else ""


def _begins_like_code(lines: Iterable[str]) -> bool:
    """By the first line that is no comment."""
    some = [line for line in map(str.strip, islice(lines, 100)) if line]
    first = next((line for line in some if line[0] != "#"), "")
    return _LIKE_CODE.match(first[:500]) is not None


def _kind_of(tag: str, lines: list[str]) -> int:
    if next(filter(str.strip, lines), "").startswith(_PROMPTS):
        return _NO_CODE
    if _PYTHON.fullmatch(tag):
        return _CODE if any(map(_STATEMENT.match, lines)) else _UNCLEAR
    if not tag:
        code, begins = "\n".join(lines), _begins_like_code(lines)
        short = len(code) <= _MOST_SHOWN
        if (begins or (short and _DOES.search(code))) and (_parsed(code) or not short):
            return _CODE
    return _NO_CODE if tag in _SHOWN else _UNCLEAR


def _without(prefix: str, lines: list[str]) -> list[str]:
    """The lines less the quote signs of a fence, and as much indentation as their first one has."""
    for _ in range(min(prefix.count(">"), 9)):
        lines = [re.sub(r"^[ \t]*> ?", "", line) for line in lines]
    first = next(filter(str.strip, lines), "")
    most = min(len(prefix.expandtabs(4)), len(first) - len(first.lstrip(" \t")))
    return [line[min(most, len(line) - len(line.lstrip(" \t"))) :] for line in lines]
