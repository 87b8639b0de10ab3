"""Find the program in a model's response."""

from __future__ import annotations

import re

# CommonMark fences: at least three backticks or tildes, indented by at most three spaces.
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")


def extract_code(response: str) -> str | None:
    """The content of the last complete fenced block, whatever its language tag.

    None when there is no block, and None when the last one is unfinished: a response that was cut
    off must not be scored on an earlier draft. What a model thinks before its answer, up to
    ``</think>``, holds no program, and a thought that does not end has no answer.
    """
    thought, ended, answer = response.partition("</think>")
    if not ended and thought.lstrip().startswith("<think>"):
        return None
    response = answer if ended else response
    found: str | None = None
    fence = ""
    block: list[str] = []
    for line in response.replace("\r\n", "\n").split("\n"):
        match = _FENCE.match(line)
        if not fence:
            if match and not (match[1][0] == "`" and "`" in match[2]):  # else inline code
                fence, block = match[1], []
        elif match and match[1].startswith(fence) and not match[2].strip():
            found = "\n".join(block) + "\n"
            fence = ""
        else:
            block.append(line)
    return None if fence else found
