"""HTML statements as plain text, what a person would type.

markdownify turns HTML into Markdown. What it loses is put right here, since in a problem it changes
the meaning: powers and indices (10<sup>5</sup> must not become 105).
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from markdownify import MarkdownConverter

# Only names of real elements count as HTML: statements are full of a < b and vector<int>.
_TAGS = (
    "p|br|div|span|pre|code|var|sub|sup|ul|ol|li|b|i|em|strong|tt|h[1-6]|table|thead|tbody|tr|td"
    "|th|img|a|section|center|font|hr|blockquote|kbd|samp|u|math|nobr|dl|dt|dd|figure|html|body"
)
_ATTRIBUTES = r"""(?:\s+[\w:-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>=]+)))*\s*"""
_NO_TAG = re.compile(rf"<(?!/?(?:{_TAGS}){_ATTRIBUTES}/?>)", re.IGNORECASE)
_LETTER = re.compile(r"<([abiu])>", re.IGNORECASE)


_BLOCK = re.compile(
    r"</?(?:p|div|pre|ul|ol|table|section|center|blockquote|h[1-6])\b[^<>]*>|</li>|<br\s*/?>", re.I
)
_ABOUT_HTML = re.compile(r"\b(?:html|xml|markup|tags?|entit(?:y|ies))\b", re.I)
_CODE = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]*`)", re.DOTALL)


_BLOCKS = re.compile(r"(^```.*?^```[ \t]*$)", re.DOTALL | re.MULTILINE)


def outside_code(convert: Callable[[str], str], text: str, blocks: bool = False) -> str:
    """The text with everything but its code blocks converted, and its code words likewise.

    With ``blocks``, code words are converted.
    """
    parts = (_BLOCKS if blocks else _CODE).split(text)
    return "".join(part if n % 2 else convert(part) for n, part in enumerate(parts))


def is_html(text: str) -> bool:
    """Whether the text is an HTML document: it begins with an element or has several of blocks.

    A statement that is about HTML shows elements as data, so it has to begin with one.
    """
    prose = _CODE.sub("", text)
    if _BLOCK.match(prose.lstrip()):
        return True
    return len(_BLOCK.findall(prose)) > 1 and not _ABOUT_HTML.search(prose)


_SCRIPT = re.compile(r"<(sup|sub)>([^<>\n]{1,24})</\1>", re.IGNORECASE)
_NAMED = re.compile(r"<var>([^<>\n]{1,24})</var>", re.IGNORECASE)
_COMPARED = re.compile(
    r"(?<=[\w)\]}])(\s?)&(?:lt|gt|le|ge|ne|times);(=?\s?)(?=[\w(\[{-])|&nbsp;", re.IGNORECASE
)


def repair_inline(text: str) -> str:
    """Powers, indices and comparisons that a plain text holds in HTML's notation."""
    if _ABOUT_HTML.search(text):
        return text
    text = _SCRIPT.sub(lambda m: raised("^" if m[1].lower() == "sup" else "_", m[2]), text)
    text = _NAMED.sub(r"\1", text)
    return _COMPARED.sub(lambda m: html.unescape(m[0]).replace("\u00a0", " "), text)


def _without_letters(text: str) -> str:
    """The comparison in "x<i>y" is no element: one-letter elements must be closed somewhere."""
    lower = text.lower()
    return _LETTER.sub(lambda m: m[0] if f"</{m[1].lower()}>" in lower else f"&lt;{m[1]}>", text)


def raised(mark: str, content: str) -> str:
    """A power or index, in brackets where it is more than one word."""
    content = content.strip()
    if not content:
        return ""
    return f"{mark}{content}" if re.fullmatch(r"[^\W_]+|[+*-]", content) else f"{mark}({content})"


class _Converter(MarkdownConverter):
    def convert_sup(self, el: Any, text: str, parent_tags: Any) -> str:
        return raised("^", text)

    def convert_sub(self, el: Any, text: str, parent_tags: Any) -> str:
        return raised("_", text)

    def convert_pre(self, el: Any, text: str, parent_tags: Any) -> str:
        return f"\n\n```\n{text.strip(chr(10))}\n```\n\n" if text.strip() else ""

    def convert_code(self, el: Any, text: str, parent_tags: Any) -> str:
        return text if "pre" in parent_tags else f"`{text.strip()}`" if text.strip() else ""


_converter = _Converter(
    strip=["a", "b", "strong", "i", "em", "u", "var"],
    heading_style="ATX",
    escape_asterisks=False,
    escape_underscores=False,
    escape_misc=False,
    bullets="-",
    newline_style="backslash",
)


def html_to_text(text: str) -> str:
    """HTML as Markdown with plain powers and indices; scripts and styles are left out.

    What is fenced as code already stays as it is.
    """
    return outside_code(_converted, text, blocks=True).strip()


def _converted(text: str) -> str:
    if not text.strip():
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", "", text)
    text = re.sub(r"<br\s*/?>", "\n", text, flags=re.IGNORECASE)
    text = _NO_TAG.sub("&lt;", _without_letters(text))
    inner = tidy(_converter.convert(text).replace("\\\n", "\n")).strip()
    return f"{before}{inner}{after}"


def tidy(text: str) -> str:
    """Unix line ends, no white space at their ends, at most one empty line in a row."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text)
