"""Find the program in a model's response."""

from __future__ import annotations

import re

# CommonMark fences: at least three backticks or tildes, indented by at most three spaces. Only the
# lines that have one are looked at: responses may be long, and hostile.
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)\n?", re.MULTILINE)


def extract_code(response: str) -> str | None:
    """The content of the last complete fenced block, whatever its language tag.

    None when there is no block, and None when the last one is unfinished: a response that was cut
    off must not be scored on an earlier draft. What a model thinks before its answer, up to
    ``</think>``, holds no program, and a thought that does not end has no answer. Takes linear
    time, whatever the response is.
    """
    thought, ended, answer = response.partition("</think>")
    if not ended and thought[:1000].lstrip().startswith("<think>"):
        return None
    text = (answer if ended else response).replace("\r\n", "\n")
    found: tuple[int, int] | None = None
    fence, start = "", 0
    for match in _FENCE.finditer(text):
        marks, rest = match[1], match[2]
        if not fence:
            if not (marks[0] == "`" and "`" in rest):  # else inline code
                fence, start = marks, match.end()
        elif marks.startswith(fence) and not rest.strip():
            found = start, match.start()
            fence = ""
    if fence or found is None:
        return None
    return text[slice(*found)] or "\n"
