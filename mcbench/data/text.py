"""Statements as plain text: HTML and LaTeX to what a person would type.

markdownify turns HTML into Markdown and pylatexenc LaTeX into Unicode. What they lose is put right
here, since in a problem it changes the meaning: powers and indices (10<sup>5</sup> must not become
105), fractions of more than one term, text macros, the comment sign in "50% of".
"""

from __future__ import annotations

import re
from typing import Any

from markdownify import MarkdownConverter
from pylatexenc import latex2text, latexwalker, macrospec  # type: ignore[import-untyped]

# Only names of real elements count as HTML: statements are full of a < b and vector<int>.
_TAGS = (
    "p|br|div|span|pre|code|var|sub|sup|ul|ol|li|b|i|em|strong|tt|h[1-6]|table|thead|tbody|tr|td"
    "|th|img|a|section|center|font|hr|blockquote|kbd|samp|u|math|nobr|dl|dt|dd|figure|html|body"
)
_ATTRIBUTES = r"""(?:\s+[\w:-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>=]+)))*\s*"""
_TAG = re.compile(rf"<(?:{_TAGS}){_ATTRIBUTES}/?>|</(?:{_TAGS})\s*>", re.IGNORECASE)
_NO_TAG = re.compile(rf"<(?!/?(?:{_TAGS}){_ATTRIBUTES}/?>)", re.IGNORECASE)
_LETTER = re.compile(r"<([abiu])>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:lt|gt|amp|nbsp|le|ge|ne|quot|times|#\d{2,5}|#x[0-9a-fA-F]{2,5});")


def has_html(text: str) -> bool:
    """Whether the text holds HTML elements."""
    return _TAG.search(_without_letters(text)) is not None


def _without_letters(text: str) -> str:
    """The comparison in "x<i>y" is no element: one-letter elements must be closed somewhere."""
    lower = text.lower()
    return _LETTER.sub(lambda m: m[0] if f"</{m[1].lower()}>" in lower else f"&lt;{m[1]}>", text)


def has_entities(text: str) -> bool:
    """Whether the text holds HTML character references."""
    return _ENTITY.search(text) is not None


def _raised(mark: str, content: str) -> str:
    content = content.strip()
    if not content:
        return ""
    return f"{mark}{content}" if re.fullmatch(r"[^\W_]+|[+*-]", content) else f"{mark}({content})"


class _Converter(MarkdownConverter):
    def convert_sup(self, el: Any, text: str, parent_tags: Any) -> str:
        return _raised("^", text)

    def convert_sub(self, el: Any, text: str, parent_tags: Any) -> str:
        return _raised("_", text)

    def convert_pre(self, el: Any, text: str, parent_tags: Any) -> str:
        return f"\n\n```\n{text.strip(chr(10))}\n```\n\n" if text.strip() else ""

    def convert_code(self, el: Any, text: str, parent_tags: Any) -> str:
        return text if "pre" in parent_tags else f"`{text.strip()}`" if text.strip() else ""

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:
        return text

    def convert_b(self, el: Any, text: str, parent_tags: Any) -> str:
        return text

    convert_strong = convert_i = convert_em = convert_u = convert_var = convert_b


_converter = _Converter(
    heading_style="ATX",
    escape_asterisks=False,
    escape_underscores=False,
    escape_misc=False,
    bullets="-",
    newline_style="backslash",
)


def html_to_text(text: str) -> str:
    """HTML as Markdown with plain powers and indices; scripts and styles are left out."""
    text = re.sub(r"(?is)<(script|style)\b.*?</\1\s*>", "", text)
    text = re.sub(r"<br\s*/?>", "\n", text, flags=re.IGNORECASE)
    text = _NO_TAG.sub("&lt;", _without_letters(text))
    return tidy(_converter.convert(text).replace("\\\n", "\n")).strip()


# LaTeX -------------------------------------------------------------------------------------------

_TEXT_MACROS = "texttt text textbf textit textrm textsf mathtt mathrm mathbf mathit operatorname"
_MACRO = re.compile(r"\\(?:[a-zA-Z]+|[,;:!_%&#$|])|\^\{|_\{")
_MATH = re.compile(r"\$\$\$(.+?)\$\$\$|\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+?)\$", re.DOTALL)
_BRACKETS = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_KNOWN = re.compile(
    r"\\(?:le|leq|ge|geq|ne|neq|times|cdot|ldots|dots|cdots|frac|sum|prod|begin|end|item|lfloor|rfloor|lceil|rceil|oplus|leftarrow|rightarrow|in|infty|sqrt"
    r"|bmod|pmod|mod|log|min|max|left|right|alpha|beta|pi|dfrac|tfrac)(?![a-zA-Z])"
    r"|\\(?:text\w*|math\w+|operatorname|emph)\{"
)


def has_latex(text: str) -> bool:
    """Whether the text holds formulas in dollar signs or brackets, or known LaTeX commands."""
    return any(_is_math(m) for m in _MATH.finditer(text)) or bool(
        _BRACKETS.search(text) or _KNOWN.search(text)
    )


def _is_math(match: re.Match[str]) -> bool:
    """Whether dollars enclose a formula: "costs $5 and he has $7" does not."""
    if match[3] is None:
        return True
    inner = match[3]
    if inner != inner.strip():
        return False
    return bool(re.fullmatch(r"[\w.,]{1,12}", inner) or re.search(r"[\\^_=<>+*/()-]", inner))


def _wrap(inner: str) -> str:
    return inner if re.fullmatch(r"\w+", inner) else f"({inner})"


def _fraction(node: Any, l2tobj: Any) -> str:
    top, bottom = (l2tobj.nodelist_to_text([n]).strip() for n in node.nodeargs[-2:])
    return f"{_wrap(top)}/{_wrap(bottom)}"


def _root(node: Any, l2tobj: Any) -> str:
    return f"sqrt({l2tobj.nodelist_to_text([node.nodeargs[-1]]).strip()})"


def _content(node: Any, l2tobj: Any) -> str:
    text: str = l2tobj.nodelist_to_text([node.nodeargs[-1]])
    return text


def _contexts() -> tuple[Any, Any]:
    names = _TEXT_MACROS.split()
    walker = latexwalker.get_default_latex_context_db()
    writer = latex2text.get_default_latex_context_db()
    fractions = ("frac", "dfrac", "tfrac")
    walker.add_context_category(
        "statements",
        prepend=True,
        macros=[
            *(macrospec.MacroSpec(name, "{") for name in names),
            *(macrospec.MacroSpec(name, "{{") for name in fractions),
        ],
    )
    words = {
        "mod": " mod ",
        "bmod": " mod ",
        "oplus": "⊕",
        "leq": "≤",
        "geq": "≥",
        "lvert": "|",
        "rvert": "|",
        "{": "{",
        "}": "}",
        "limits": "",
        "displaystyle": "",
        "ldots": "...",
        "dots": "...",
        "cdots": "...",
        "land": " and ",
        "lor": " or ",
        "gcd": "gcd",
    }
    writer.add_context_category(
        "statements",
        prepend=True,
        macros=[
            *(latex2text.MacroTextSpec(name, simplify_repl=_content) for name in names),
            *(latex2text.MacroTextSpec(name, simplify_repl=_fraction) for name in fractions),
            latex2text.MacroTextSpec("sqrt", simplify_repl=_root),
            *(latex2text.MacroTextSpec(name, simplify_repl=text) for name, text in words.items()),
        ],
    )
    return walker, writer


_WALKER, _WRITER = _contexts()
_to_text = latex2text.LatexNodes2Text(latex_context=_WRITER, strict_latex_spaces="based-on-source")
_SCRIPT = re.compile(r"([\^_])\s*\{([^{}]*)\}")
_INNER = re.compile(r"\\(?:text\w*|math\w+|operatorname)\s*\{([^{}]*)\}")


def _formula(text: str) -> str:
    """One formula as text; what pylatexenc cannot parse is left as it is, by its tolerant mode."""
    text = re.sub(r"(?<!\\)%", r"\\%", text)
    text = _INNER.sub(r"\1", text)
    previous = ""
    while previous != text:  # innermost first, so that a^{b_{i}} keeps its brackets
        previous = text
        text = _SCRIPT.sub(lambda m: _raised(m[1], m[2]), text)
    walker = latexwalker.LatexWalker(text, latex_context=_WALKER, tolerant_parsing=True)
    nodes, _, _ = walker.get_latex_nodes()
    converted: str = _to_text.nodelist_to_text(nodes)
    converted = re.sub(r"(?<=\S)\s*([≤≥≠×])\s*(?=\S)", r" \1 ", converted)
    return re.sub(r"[ \t]+", " ", converted).strip()


def latex_to_text(text: str) -> str:
    """Formulas and LaTeX commands as Unicode text; code blocks are left alone.

    Outside formulas only known commands are converted, so that a path or an escape stays.
    """
    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)
    return tidy("".join(p if p.startswith("`") else _latex_part(p) for p in parts)).strip()


def _latex_part(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        return _formula(next(g for g in match.groups() if g is not None))

    text = re.sub(
        r"\\(?:begin|end)\{(?:itemize|enumerate|center|problem)\}(?:\[[^\]]*\])?", "", text
    )
    text = re.sub(r"\\item\b[ \t]*", "- ", text)
    text = _MATH.sub(lambda m: replaced(m) if _is_math(m) else m[0], text)
    text = _BRACKETS.sub(replaced, text)
    lines = text.split("\n")
    return "\n".join(_formula(line) if _KNOWN.search(line) else line for line in lines)


def tidy(text: str) -> str:
    """Unix line ends, no white space at their ends, at most one empty line in a row."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text)
