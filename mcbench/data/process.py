"""Process: one clean, complete statement per problem; every change is recorded with its rule.

The rules run in the order of `RULES`. A statement that needs nothing keeps its bytes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import ftfy
from pydantic import Field

from mcbench.data.audit import Ledger, Rule, apply_rules
from mcbench.data.language import detect_language
from mcbench.data.latex import has_latex, is_latex_document, latex_document_to_text, latex_to_text
from mcbench.data.pipeline import BatchStage, Outcome
from mcbench.data.programs import parsed
from mcbench.data.prompts import BENCHMARK_PROMPTS
from mcbench.data.schema import Problem
from mcbench.data.text import html_to_text, is_html, outside_code, repair_inline, tidy
from mcbench.data.translate import Chat, Endpoint, translate
from mcbench.errors import UserError
from mcbench.settings import Settings

_FTFY = ftfy.TextFixerConfig(
    unescape_html=False,  # the html rule's work, and "&lt;" in code must stay
    uncurl_quotes=False,
    fix_character_width=False,
    normalization="NFC",
)
# Zero-width and direction marks, byte order marks, and control characters but tab and newline.
_INVISIBLE = re.compile(r"[\u200b-\u200f\u2028-\u202e\u2060\ufeff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class ProcessConfig(Settings):
    """What the process stage may do.

    Args:
        language: ISO 639-1 code that statements are translated to, and expected in by the filter.
        translator: the model that translates; without one foreign statements are flagged.
        state_form: add a sentence that says how input and output go, where a statement does not.

    Raises:
        UserError: no two-letter language code.
    """

    language: Annotated[str, Field(pattern="^[a-z]{2}$")] = "en"
    translator: Endpoint | None = None
    state_form: bool = True


@dataclass(frozen=True)
class Process(BatchStage):
    """The stage; ``answers`` is the folder of kept translations."""

    config: ProcessConfig = field(default_factory=ProcessConfig)
    answers: Path = Path("answers")

    name: ClassVar[str] = "process"

    def configuration(self) -> Any:
        """Where answers are kept and how patient we are with the server decide nothing."""
        patience = {"base_url", "api_key_env", "timeout_s", "attempts"}
        return self.config.model_dump(exclude={"translator": patience})

    def run(self, batch: list[Problem]) -> Outcome:
        """Apply the rules to every record."""
        chat = Chat(self.config.translator, self.answers) if self.config.translator else None
        rules: list[tuple[str, Rule]] = [
            *((name, partial(_rewritten, name=name)) for name in _REWRITES),
            ("language", _language),
            ("translation", partial(_translation, target=self.config.language, chat=chat)),
            ("starter_code", _starter_code),
            ("completeness", _completeness),
        ]
        if self.config.state_form:
            rules.append(("form", _state_form))
        return apply_rules(self.name, batch, rules)


# Text --------------------------------------------------------------------------------------------


def _rewritten(record: Problem, ledger: Ledger, name: str) -> Problem:
    convert, detail = _REWRITES[name]
    statement = convert(record.statement)
    if statement == record.statement:
        return record
    sizes = f"{len(record.statement)} to {len(statement)} characters"
    changed = ledger.change(record, name, f"{detail}; {sizes}", statement=statement)
    if name == "images":
        told = f"{len(_IMAGE.findall(record.statement))} images cannot be shown to a model"
        changed = ledger.flag(changed, "image_removed", told)
    return changed


def _unicode(text: str) -> str:
    return _INVISIBLE.sub("", ftfy.fix_text(text, _FTFY))


def _html(text: str) -> str:
    return html_to_text(text) if is_html(text) else outside_code(repair_inline, text)


def _latex(text: str) -> str:
    if is_latex_document(text):
        return latex_document_to_text(text)
    return latex_to_text(text) if has_latex(text) else text


def _whitespace(text: str) -> str:
    return re.sub(r"\n{2,}\Z", "\n", tidy(text).lstrip("\n"))


# Whole lines that say nothing about the task: links, counters, credits of contest sites.
_NOISE_LINE = re.compile(
    r"""^[ \t>*_#-]*(?:
      (?:https?://|www\.)\S+
    | (?:problem\s+)?(?:source|author|setter|tester|editorial(?:ist)?)s?(?:\s+link)?\s*:\s*
      (?-i:[A-Z]|https?:).{0,120}
    | (?:view|read|see)\s+(?:this\s+)?(?:problem|problems?\s+statements?)\s+(?:on|in)\b.{0,120}
    | (?-i:Share|Tweet|Add\ to\ (?:List|Favorites)|Companies|Related\ Topics|Hide\ Tags)
    | (?:total\s+)?(?:accepted|submissions?|acceptance(?:\s+rate)?|(?:dis)?likes)
      \s*:?\s*\d[\d.,%km]*
    | (?:log\s*in|sign\s*(?:in|up)|register)\s+to\s.{0,80}
    | (?:©|\(c\)|copyright)\s.{0,120}
    | all\s+rights\s+reserved\b.{0,60}
    | (?:memory|time)\s+limit\s+exceeded\s+policy\b.{0,80}
    )[ \t*_]*$\n?""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_LINK = re.compile(r"\[([^\]\n]*)\]\((?:https?://|/)[^)\s]*\)")
_URL = re.compile(r"(?:\s*\(\s*)?\bhttps?://[^\s)>\]]+(?:\s*\))?")


def _noise(text: str) -> str:
    def without(part: str) -> str:
        return _URL.sub("", _LINK.sub(r"\1", _NOISE_LINE.sub("", part)))

    return outside_code(without, text, blocks=True)


_IMAGE = re.compile(
    r"!\[[^\]\n]*\]\([^)\n]*\)|<img\b[^>]*>|\[(?:image|img|figure|picture)(?:[^\]\n]{0,60})\]"
    r"|\\includegraphics(?:\[[^\]]*\])?\{[^}]*\}|<image>",
    re.IGNORECASE,
)

_REWRITES: dict[str, tuple[Callable[[str], str], str]] = {
    "unicode": (_unicode, "repaired encoding or invisible characters"),
    "html": (_html, "converted HTML"),
    "latex": (_latex, "converted LaTeX"),
    "noise": (_noise, "removed links or contest boilerplate"),
    "images": (partial(_IMAGE.sub, ""), "removed images"),
    "whitespace": (_whitespace, "white space"),
}

# Language ----------------------------------------------------------------------------------------


def _language(record: Problem, ledger: Ledger) -> Problem:
    found = detect_language(record.statement)
    if not found or found == record.language:
        return record
    said = record.language or "unknown"
    return ledger.change(record, "language", f"{said} to {found}", language=found)


def _translation(record: Problem, ledger: Ledger, target: str, chat: Chat | None) -> Problem | None:
    if record.language in ("", target):
        return record
    if chat is None:
        return ledger.flag(record, "foreign", f"written in {record.language}; no translator is set")
    try:
        statement = translate(record.statement, target, chat)
    except UserError as error:
        if type(error) is not UserError:
            raise  # the server, not the record
        return ledger.drop(record, "translation", str(error))
    return ledger.change(
        record,
        "translation",
        f"from {record.language} by {chat.endpoint.model}",
        statement=statement,
        language=target,
        metadata={**record.metadata, "original_statement": record.statement},
    )


# Form and completeness ---------------------------------------------------------------------------


def _starter_code(record: Problem, ledger: Ledger) -> Problem:
    """The signature that the tests call, read from a reference solution."""
    if record.form != "call" or record.starter_code:
        return record
    for reference in record.references:
        if code := _signature(reference, record.fn_name):
            return ledger.change(record, "starter_code", "from a reference", starter_code=code)
    return record


def _signature(code: str, name: str) -> str:
    if (tree := parsed(code)) is None:
        return ""
    owners: list[ast.ClassDef | ast.Module] = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    for owner in [*owners, tree]:
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                head = f"def {name}({ast.unparse(node.args)}){returns}:"
                if isinstance(owner, ast.ClassDef):
                    return f"class {owner.name}:\n    {head}\n        pass\n"
                return f"{head}\n    pass\n"
    return ""


_READS = re.compile(
    r"standard\s+(?:in|out)put|\bstd(?:in|out)\b|\binput\b|\b(?:read|print|output)s?\b", re.I
)


def _state_form(record: Problem, ledger: Ledger) -> Problem:
    """Say in the prompt what the tests expect: a program, or a function of this name."""
    statement = record.statement.rstrip("\n")
    if record.form == "stdin":
        if _READS.search(statement):
            return record
        added = "Read the input from standard input and print the answer to standard output."
    elif record.fn_name and record.source not in BENCHMARK_PROMPTS:
        # As code, not as an ordinary word: many a function is called count or merge.
        if re.search(rf"\b{record.fn_name}\s*\(|`{record.fn_name}`", statement):
            return record
        where = "the method" if "class " in record.starter_code else "the function"
        added = f"Complete {where} `{record.fn_name}`."
        if record.starter_code:
            added += f"\n\n```python\n{record.starter_code.rstrip()}\n```"
    else:
        return record
    return ledger.change(
        record, "form", f"stated form {record.form}", statement=f"{statement}\n\n{added}\n"
    )


_EMPTY = re.compile(
    r"(?:problem\s+)?(?:statement|description)\s+(?:is\s+)?(?:not\s+available|missing|deleted)"
    r"|\[(?:deleted|removed)\]|lorem\s+ipsum|\bTBD\b|coming\s+soon",
    re.IGNORECASE,
)


def _completeness(record: Problem, ledger: Ledger) -> Problem | None:
    text = record.statement.strip()
    if not re.search(r"\w", text):
        return ledger.drop(record, "completeness", "the statement is empty")
    if len(text) < 400 and (found := _EMPTY.search(text)):
        return ledger.drop(record, "completeness", f"placeholder for a statement: {found[0]!r}")
    if text.count("```") % 2:
        return ledger.drop(record, "completeness", "cut off inside a code block")
    if re.search(r"[a-z]\s*(?:\.\.\.|…)$|\($|\s(?:the|of|and|an|to|is|are|with)$", text):
        return ledger.drop(record, "completeness", f"cut off: ends with {text[-20:]!r}")
    return record
