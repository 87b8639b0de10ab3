"""Find the program in a model's response: the rule is in `extract_code`.

Fenced blocks are found as CommonMark has them, line by line in one pass, and a little more
leniently: a fence may follow words on its line, and close on the line of the last statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

_TAGS = "think|thinking|thought|reasoning"
_THOUGHT = re.compile(rf"\s*<(?:{_TAGS})>", re.IGNORECASE)
_THOUGHT_ENDS = re.compile(rf"(?<!`)</(?:{_TAGS})>", re.IGNORECASE)
_ENDS_ON_A_LINE = re.compile(rf"^[ \t]*+</(?:{_TAGS})>", re.IGNORECASE | re.MULTILINE)
# Indented, quoted or in a list item; possessive, so that no line takes longer than its length.
_FENCE = re.compile(r"((?:[ \t>]|(?:[-*+]|[0-9]{1,9}[.)])[ \t])*+)(`{3,}+|~{3,}+)(.*)")
_AFTER_WORDS = re.compile(r"([^`]*[\s:])(`{3,}+)([\w+#.-]*)\s*")
_TAG = re.compile(r"[\s{.=]*([\w+#.-]*)")
_PYTHON = re.compile(r"|(?:python|py|pypy|cpython|ipython)[0-9.]*|.*\.py")
_LIKE_CODE = re.compile(
    r"import [\w., ]+$|from [\w.]+ import |(async )?def \w+\(|class \w+[(:]|@\w|[a-z_]\w* = "
)


def extract_code(response: str) -> str | None:
    """The last complete fenced block that is tagged as Python or not at all.

    Where no block is, the last one with another tag. None where there is none, and where the last
    block of any kind is unfinished: a response that was cut off must not be scored on an earlier
    draft. A response that begins with code and closes a fence that it did not open (the prompt
    did) is the program up to there.

    What a model thinks before its answer holds no program: up to the first ``</think>`` (or
    ``thinking``, ``thought``, ``reasoning``) that is neither in a block's code nor quoted. A
    thought that begins the response and does not end has no answer. Without one at the beginning, a
    tag that nothing follows is a stray one.

    Indentation that a block has from its fence (in a list item, say) is taken off. Takes linear
    time, whatever the response is.
    """
    lines = response.replace("\r\n", "\n").split("\n")
    scan = _Scan(lines, thinking=_THOUGHT.match(response) is not None)
    for number, line in enumerate(lines):
        if "```" in line or "~~~" in line or "</" in line:
            scan.see(number, line)
        scan.note_strings(line)
    ends = list(_ENDS_ON_A_LINE.finditer(response)) if scan.thinking else []
    if ends:  # within a draft that was given up, in the middle of a text
        return extract_code(response[ends[-1].end() :])
    return scan.program()


@dataclass(frozen=True)
class _Block:
    """Lines from ``start`` up to ``end`` and, where it closes on its last line, ``tail``."""

    start: int
    end: int
    prefix: str
    tail: str = ""


class _Scan:
    """What is known of a response up to a line."""

    def __init__(self, lines: list[str], thinking: bool) -> None:
        self.lines = lines
        self.thinking = thinking  # in a thought that began the response
        self.thought = False  # one has ended
        self.begin = 0  # the answer's first line
        self.fence = ""  # of the open block
        self.open = _Block(0, 0, "")
        self.is_python = False
        self.in_string = False  # of the open block, one in triple quotes
        self.found: dict[bool, _Block] = {}  # the last complete block, by whether it is Python

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
        fence = _FENCE.match(line)
        if self.fence:
            self._inside(number, line, fence)
        elif fence is None:
            fence = _AFTER_WORDS.fullmatch(line)
            if fence:
                self._begin_block(number, "", *fence.group(2, 3))
        elif not (fence[2][0] == "`" and "`" in fence[3]):  # else inline code
            if not fence[3].strip() and not self.found and self._begins_with_code(number):
                self.found[True] = _Block(self.begin, number, "")
            else:
                self._begin_block(number, *fence.groups())

    def _begins_with_code(self, number: int) -> bool:
        first = next(filter(str.strip, islice(self.lines, self.begin, number)), "")
        return _LIKE_CODE.match(first) is not None

    def _end_thought(self, number: int, rest: str) -> None:
        stray = (
            not self.thinking
            and not rest.strip()
            and not any(map(str.strip, self.lines[number + 1 :]))
        )
        self.thought = True
        if not stray:
            self.thinking, self.fence, self.found, self.begin = False, "", {}, number + 1

    def _begin_block(self, number: int, prefix: str, marks: str, info: str) -> None:
        self.fence, self.in_string = marks, False
        self.open = _Block(number + 1, 0, prefix)
        tag = _TAG.match(info)
        self.is_python = _PYTHON.fullmatch(tag[1].lower() if tag else "") is not None

    def _inside(self, number: int, line: str, fence: re.Match[str] | None) -> None:
        """Close the open block where its fence stands alone, or ends a statement's line."""
        opened, bare = self.open, line.rstrip()
        if fence is not None:
            near = len(fence[1].expandtabs(4)) <= len(opened.prefix.expandtabs(4)) + 3
            alone = not (fence[1].strip(" \t>") or fence[3].strip())
            if fence[2].startswith(self.fence) and near and alone:
                self._close(_Block(opened.start, number, opened.prefix))
        elif bare.endswith(self.fence):
            tail = bare.rstrip(self.fence[0])
            if self._is_bare(tail) and not tail.rstrip().endswith(":"):
                self._close(_Block(opened.start, number, opened.prefix, tail))

    def _close(self, block: _Block) -> None:
        self.found.pop(self.is_python, None)
        self.found[self.is_python] = block
        self.fence = ""

    def _is_bare(self, before: str) -> bool:
        """Whether what follows on the line is in no text and no comment of the program."""
        quotes = before.count('"') % 2 or before.count("'") % 2
        return not (self.in_string or quotes or "#" in before)

    def program(self) -> str | None:
        """The program, at the end of the response."""
        block = self.found.get(True) or self.found.get(False)
        if self.thinking or self.fence or block is None:
            return None
        lines = self.lines[block.start : block.end] + ([block.tail] if block.tail else [])
        return "\n".join([*_without(block.prefix, lines), ""]) or "\n"


def _without(prefix: str, lines: list[str]) -> list[str]:
    """The lines less the quote signs of a fence, and as much indentation as their first one has."""
    for _ in range(min(prefix.count(">"), 9)):
        lines = [re.sub(r"^[ \t]*> ?", "", line) for line in lines]
    first = next(filter(str.strip, lines), "")
    most = min(len(prefix.expandtabs(4)), len(first) - len(first.lstrip(" \t")))
    return [line[min(most, len(line) - len(line.lstrip(" \t"))) :] for line in lines]
