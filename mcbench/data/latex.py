"""LaTeX in statements as plain text: formulas in otherwise plain text, and whole documents.

pylatexenc turns LaTeX into Unicode. What it loses is put right here, since in a problem it changes
the meaning: powers and indices, fractions of more than one term, text macros, the comment sign in
"50% of". Code blocks are left alone.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pylatexenc import latex2text, latexwalker, macrospec  # type: ignore[import-untyped]
from pylatexenc.latexwalker import LatexWalkerError  # type: ignore[import-untyped]

from mcbench.data.text import outside_code, raised, tidy

_TEXT_MACROS = "texttt text textbf textit textrm textsf mathtt mathrm mathbf mathit operatorname"
_MATH = re.compile(
    r"\$\$\$(.+?)\$\$\$|\$\$(.+?)\$\$|(?<![\\$])\$((?:[^$\n]|\n(?!\s*\n)){1,400}?)\$", re.DOTALL
)
_BRACKETS = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_COMMAND = re.compile(r"\\([A-Za-z]{2,})")
_STRUCTURE = frozenset(
    ["begin", "end", "item", "section", "subsection", "problemname", "illustration"]
)


def has_latex(text: str) -> bool:
    """Whether the text holds formulas in dollar signs or brackets, or known LaTeX commands."""
    return any(_is_math(m) for m in _MATH.finditer(text)) or bool(
        _BRACKETS.search(text) or _known(text)
    )


def _known(text: str) -> bool:
    """Whether a command in the text is one of LaTeX's."""
    return any(_is_command(match[1]) for match in _COMMAND.finditer(text))


@cache
def _is_command(name: str) -> bool:
    known = _WRITER.get_macro_spec(name)
    return name in _STRUCTURE or (known is not None and known.macroname == name)


def _is_math(match: re.Match[str]) -> bool:
    """Whether dollars enclose a formula: "costs $5 and he has $7" does not."""
    if match[3] is None:
        return True
    inner, text = match[3], match.string
    before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    after = re.match(r"[^\n]*", text[match.end() :])
    if "\n" not in inner and not before.strip() and after and not after[0].strip():
        return True  # a line of its own, perhaps a sentence in dollars
    if re.search(r"[\\^_<>=≤≥]", inner):
        return True
    prose = re.findall(r"[A-Za-z]{3,}", inner)
    return len(prose) < 2 and not re.search(r"^\S.*\s$", inner, re.DOTALL)  # between two prices


def _wrap(inner: str) -> str:
    return inner if re.fullmatch(r"\w+", inner) else f"({inner})"


def _fraction(node: Any, l2tobj: Any) -> str:
    top, bottom = (l2tobj.nodelist_to_text([n]).strip() for n in node.nodeargs[-2:])
    return f"{_wrap(top)}/{_wrap(bottom)}"


def _root(node: Any, l2tobj: Any) -> str:
    return f"sqrt({l2tobj.nodelist_to_text([node.nodeargs[-1]]).strip()})"


_WORDS = {
    "mod": " mod ", "bmod": " mod ", "land": " and ", "lor": " or ", "gcd": "gcd", "oplus": "⊕",
    "leq": "≤", "geq": "≥", "ne": "≠", "neq": "≠", "lt": "<", "gt": ">", "lvert": "|",
    "rvert": "|", "{": "{", "}": "}", "quad": " ", "qquad": " ", "limits": "", "displaystyle": "",
    "ldots": "...", "dots": "...", "cdots": "...",
}  # fmt: skip


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
    writer.add_context_category(
        "statements",
        prepend=True,
        macros=[
            *(latex2text.MacroTextSpec(name, simplify_repl="%s") for name in names),
            *(latex2text.MacroTextSpec(name, simplify_repl=_fraction) for name in fractions),
            latex2text.MacroTextSpec("sqrt", simplify_repl=_root),
            *(latex2text.MacroTextSpec(name, simplify_repl=text) for name, text in _WORDS.items()),
        ],
    )
    # A macro that is not known is somebody's own word: it must not vanish from a formula.
    writer.set_unknown_macro_spec(
        latex2text.MacroTextSpec("", simplify_repl=lambda node: node.macroname)
    )
    return walker, writer


_WALKER, _WRITER = _contexts()
_to_text = latex2text.LatexNodes2Text(latex_context=_WRITER, strict_latex_spaces="based-on-source")
_SCRIPT = re.compile(r"([\^_])\s*\{([^{}]*)\}")
_INNER = re.compile(r"\\(?:text\w*|math\w+|operatorname)\s*\{([^{}]*)\}")


def _formula(text: str) -> str:
    """One formula as text; what pylatexenc cannot parse is left as it is."""
    try:
        return _parsed(text)
    except (LatexWalkerError, ValueError, LookupError, TypeError, AttributeError):
        return text


def _parsed(text: str) -> str:
    text = re.sub(r"(?<!\\)%", r"\\%", text)
    text = _INNER.sub(r"\1", text)
    previous = ""
    while previous != text:  # innermost first, so that a^{b_{i}} keeps its brackets
        previous = text
        text = _SCRIPT.sub(lambda m: raised(m[1], m[2]), text)
    walker = latexwalker.LatexWalker(text, latex_context=_WALKER, tolerant_parsing=True)
    nodes, _, _ = walker.get_latex_nodes()
    converted: str = _to_text.nodelist_to_text(nodes)
    converted = re.sub(r"(?<=\S)\s*([≤≥≠×])\s*(?=\S)", r" \1 ", converted)
    return re.sub(r"[ \t]+", " ", converted).strip()


def latex_to_text(text: str) -> str:
    """Formulas and LaTeX commands as Unicode text; code blocks are left alone.

    Outside formulas only known commands are converted, so that a path or an escape stays.
    """
    return tidy(outside_code(_latex_part, text)).strip()


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
    return "\n".join(_line(line) if _known(line) else line for line in lines)


def _line(line: str) -> str:
    """A line with commands outside formulas; how far it is indented stays."""
    return line[: len(line) - len(line.lstrip())] + _formula(line)


# Documents ---------------------------------------------------------------------------------------

_DOCUMENT = re.compile(
    r"\\(?:problemname|(?:sub)*section\*?|begin\{(?:document|problem|tabular|figure|Input))\b"
)
_VERBATIM = re.compile(r"\\begin\{(verbatim|lstlisting|minted|alltt)\}(?:[\[{][^\]}\n]*[\]}])*")
_ARGUMENT = r"\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
_HEADINGS = ((r"problemname", "# "), (r"section\*?", "## "), (r"(?:sub)+section\*?", "### "))
# With their arguments: nothing of them is text.
_WITHOUT_TEXT = re.compile(
    r"\\(?:vspace|hspace|label|ref|pagestyle|thispagestyle|setlength|addtolength|input|usepackage"
    r"|documentclass|renewcommand|bibliography|definecolor|color)\*?(?:\[[^\]]*\])?(?:"
    + _ARGUMENT
    + r")+"
)
_LAYOUT = re.compile(
    r"\\(?:noindent|hline|centering|medskip|bigskip|smallskip|newpage|clearpage|par|toprule|midrule"
    r"|bottomrule|raggedright|small|footnotesize|large|Large|tiny|normalsize|maketitle|indent"
    r"|remainingsamples|nextsample|vfill|hfill|linewidth|textwidth|itshape|bfseries|ttfamily)"
    r"(?![a-zA-Z])(?:\{\})?[ \t]*"
)
_PICTURE = re.compile(
    r"\\illustration(?:" + _ARGUMENT + r"){2,3}|\\includegraphics\*?(?:\[[^\]]*\])?" + _ARGUMENT
)


def is_latex_document(text: str) -> bool:
    """Whether a statement is a LaTeX document, and no text with formulas."""
    return _DOCUMENT.search(text) is not None


def latex_document_to_text(text: str) -> str:
    """A statement in LaTeX as Markdown; a picture becomes "[image]"."""
    return tidy(outside_code(_document, _fenced(text))).strip() + "\n"


def _fenced(text: str) -> str:
    """Verbatim environments as fenced blocks."""
    while match := _VERBATIM.search(text):
        end = text.find(f"\\end{{{match[1]}}}", match.end())
        if end < 0:
            break
        code = text[match.end() : end].strip("\n")
        after = text[end + len(match[1]) + 6 :]
        text = f"{text[: match.start()]}\n```\n{code}\n```\n{after}"
    return text


def _document(text: str) -> str:
    text = re.sub(r"(?<!\\)%.*(?:\n[ \t]*)?", "", text)
    text = _with_definitions(text)
    text = _PICTURE.sub("\n[image]\n", text)
    text = _WITHOUT_TEXT.sub("", text)
    text = _LAYOUT.sub("", text)
    for name, mark in _HEADINGS:
        text = re.sub(rf"\\{name}{_ARGUMENT}", rf"\n\n{mark}\1\n\n", text)
    text = re.sub(r"\\begin\{(Input|Output|Interaction|Note)\}", r"\n\n## \1\n\n", text)
    text = re.sub(r"\\begin\{tabular\*?\}(?:\[[^\]]*\])?" + _ARGUMENT, "\n", text)
    text = re.sub(r"(?<!\\)&(?![a-z#]+;)", " | ", text)
    text = re.sub(r"\\(?:begin|end)\{[A-Za-z]+\*?\}(?:\[[^\]]*\])?", "\n", text)
    text = re.sub(rf"\\(?:caption|footnote|todo)\*?{_ARGUMENT}", r" (\1)", text)
    text = re.sub(rf"\\(?:href|textcolor){_ARGUMENT}{_ARGUMENT}", r"\2", text)
    text = re.sub(
        rf"\\(?:url|texttt|verb\*?|emph|textbf|textit|textsc|underline){_ARGUMENT}", r"\1", text
    )
    text = re.sub(r"\\verb\*?([|!+@])(.*?)\1", r"`\2`", text)
    text = re.sub(r"[ \t]*\\\\(?:\[[^\]]*\])?[ \t]*\n?", "\n", text)
    text = text.replace("~", " ").replace("``", '"').replace("''", '"').replace("---", "–")
    text = re.sub(rf"\\textsuperscript{_ARGUMENT}", lambda m: raised("^", m[1]), text)
    text = "\n".join(line.strip() for line in text.split("\n"))
    return re.sub(r"\\([%&#$_{}])", r"\1", _latex_part(text))


def _with_definitions(text: str) -> str:
    """The text with its own macros, those without arguments, written out."""
    pattern = re.compile(
        rf"\\(?:(?:re)?newcommand\*?\s*\{{?|def)\s*\\([A-Za-z]+)\}}?(\[\d\])?{_ARGUMENT}"
    )
    own = {match[1]: match[3] for match in pattern.finditer(text) if not match[2]}
    text = pattern.sub("", text)
    for _ in range(3):  # in terms of one another
        for name, meaning in own.items():
            plain = meaning.replace("\\", "\\\\")  # as re.sub reads it
            text = re.sub(rf"\\{name}(?![A-Za-z])(?:\{{\}})?", plain, text)
    return text
