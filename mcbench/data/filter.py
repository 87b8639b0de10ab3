"""Filter: text quality, relevance, recency, and number and size of tests.

Near-duplicates, contamination and difficulty have their own modules: `dedup`, `decontaminate`,
`difficulty`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from mcbench.data.audit import Ledger, Rule, apply_rules
from mcbench.data.pipeline import Outcome, Stage
from mcbench.data.schema import Problem
from mcbench.settings import Settings, Share, ordered

Day = Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\d)?$")]  # YYYY-MM-DD, or none


class FilterConfig(Settings):
    """What a problem must have to be kept.

    Args:
        language: of the statement; a record of another (known) one is dropped. Empty: any.
        min_words, max_words: of the statement.
        min_distinct: distinct words per word, over the first 200; below it a text repeats itself.
        max_symbols: share of characters that are neither letters, digits, white space nor usual
            punctuation.
        images: whether a statement that lost an image is kept.
        min_tests: fewer make answers pass by luck (DeepCoder drops up to 4).
        max_tests: more are cut to the first so many; None keeps all.
        max_test_kb: a test whose JSON is larger is dropped, in KiB.
        need_reference: whether a problem without a reference solution is dropped.
        first_date, last_date: of publication, ``YYYY-MM-DD``; empty: no bound.
        unknown_date: keep or drop a record without a date, where there is a bound.

    Raises:
        UserError: a value out of range.
    """

    language: str = "en"
    min_words: NonNegativeInt = 15
    max_words: int = 3000
    min_distinct: Share = 0.2
    max_symbols: Share = 0.25
    images: bool = False
    min_tests: PositiveInt = 5
    max_tests: int | None = None
    max_test_kb: PositiveFloat = 1024
    need_reference: bool = False
    first_date: Day = ""
    last_date: Day = ""
    unknown_date: Literal["keep", "drop"] = "keep"

    _in_order = ordered(("min_words", "max_words"), ("min_tests", "max_tests"))


@dataclass(frozen=True)
class Filter(Stage):
    """The stage."""

    config: FilterConfig = field(default_factory=FilterConfig)

    name: ClassVar[str] = "filter"
    modules: ClassVar[tuple[str, ...]] = ("mcbench.data.filter",)

    def run(self, batch: list[Problem]) -> Outcome:
        """Apply the rules to every problem; what is cheap and certain comes first."""
        rules: list[tuple[str, Rule]] = [
            *((name, partial(_dropped, name=name, config=self.config)) for name in _DROPS),
            ("any_answer", _any_answer),
            ("tests", partial(_tests, config=self.config)),
            ("reference", partial(_reference, config=self.config)),
        ]
        return apply_rules(self.name, batch, rules)


def _dropped(problem: Problem, ledger: Ledger, name: str, config: FilterConfig) -> Problem | None:
    reason = _DROPS[name](problem, config)
    return ledger.drop(problem, name, reason) if reason else problem


def _language(problem: Problem, config: FilterConfig) -> str:
    if not config.language or problem.language in ("", config.language):
        return ""
    return f"written in {problem.language}, not {config.language}"


def _recency(problem: Problem, config: FilterConfig) -> str:
    if not (config.first_date or config.last_date):
        return ""
    if not problem.date:
        return "no date" if config.unknown_date == "drop" else ""
    if problem.date < config.first_date:
        return f"{problem.date} is before {config.first_date}"
    if config.last_date and problem.date > config.last_date:
        return f"{problem.date} is after {config.last_date}"
    return ""


# Text --------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]+")


def _length(problem: Problem, config: FilterConfig) -> str:
    words = len(problem.statement.split())
    if words < config.min_words:
        return f"{words} words, fewer than {config.min_words}"
    return f"{words} words, more than {config.max_words}" if words > config.max_words else ""


_ODD = re.compile(r"""[^\w\s.,;:!?'"()\[\]{}<>=+*/^%|&$#@~`\\≤≥≠×·…–—-]""")


def _quality(problem: Problem, config: FilterConfig) -> str:
    """Text that is damaged, or says the same again and again."""
    text = problem.statement
    prose = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    words = [word.lower() for word in _WORD.findall(prose)][:200]
    distinct = len(set(words)) / len(words) if words else 0.0
    if distinct < config.min_distinct:
        return f"only {distinct:.0%} of the words are distinct"
    odd = len(_ODD.findall(text)) + text.count("\ufffd") * 5
    if odd > config.max_symbols * len(text):
        return f"{odd} of {len(text)} characters are odd symbols"
    if text.count("\ufffd") > 2:
        return "characters were lost (replacement characters)"
    paragraphs = Counter(p.strip() for p in prose.split("\n\n") if len(p.split()) >= 12)
    repeated = [p for p, n in paragraphs.items() if n > 1]
    return f"a paragraph is repeated: {repeated[0][:80]!r}" if repeated else ""


def _images(problem: Problem, config: FilterConfig) -> str:
    needed = not config.images and "image_removed" in problem.flags
    return "the statement needs an image" if needed else ""


# Not programs, or not judged by comparing one output.
_OTHER = (
    ("interactive", re.compile(
        r"\binteractive\s+(?:problem|task)\b|\bflush\s+(?:the\s+)?(?:output|stdout)"
        r"|\binteractor\b|\bask\s+(?:at\s+most|up\s+to)\s+\d+\s+quer", re.I)),
    ("database", re.compile(
        r"\bwrite\s+(?:an?|the)\s+(?:sql|mysql|pandas)\b|\bsql\s+query\b"
        r"|\btable:\s*\w+\n\+-", re.I)),
    ("shell", re.compile(r"\bwrite\s+a\s+(?:bash|shell)\s+script\b", re.I)),
    ("other language", re.compile(
        r"\b(?:write|implement|complete)\b[^.\n]{0,60}\bin\s+(?-i:Java|JavaScript|TypeScript|C\+\+|C#"
        r"|Rust|Go|Haskell|Ruby|PHP|Kotlin|Scala|Swift)(?![\w+])", re.I)),
    ("multiple choice", re.compile(
        r"^\s*\(?a[).]\s.+\n\s*\(?b[).]\s.+\n\s*\(?c[).]\s", re.I | re.M)),
    ("essay", re.compile(  # as an order; "you can prove that" is a remark
        r"\b(?:write|prepare)\s+(?:a|an)\s+(?:essay|report|summary|proof|letter|poem)\b"
        r"|(?:^|[.!?:]\s+)(?:prove\s+that|explain\s+(?:why|how|the\s+difference))\b", re.I | re.M)),
    ("user interface", re.compile(
        r"\b(?:web\s*page|html\s+form|react\s+component|css\s+style|gui\s+application)\b", re.I)),
)  # fmt: skip
_TASK = re.compile(
    r"\b(?:print|output|return|compute|calculate|find|determine|count|read|input|write|complete"
    r"|implement|decide|sort|given|answer|construct|generate|convert|check|create|how\s+many"
    r"|what\s+is|minimum|maximum|min|max|sum|number\s+of)\w*\b",
    re.IGNORECASE,
)


def _relevance(problem: Problem, config: FilterConfig) -> str:
    """A task that a program with one output per input solves."""
    for name, pattern in _OTHER:
        if found := pattern.search(problem.statement):
            return f"{name}: {found[0].strip()!r}"
    if problem.form == "stdin" and not _TASK.search(problem.statement):  # a signature asks, too
        return "nothing is asked for"
    return ""


# Reasons to drop a problem; empty: it is kept.
_DROPS: dict[str, Callable[[Problem, FilterConfig], str]] = {
    "language": _language,
    "recency": _recency,
    "length": _length,
    "quality": _quality,
    "images": _images,
    "relevance": _relevance,
}

_ANY = re.compile(
    r"\b(?:(?:print|output|return|report|find)\s+any(?:\s+(?:one|of\s+them|such|valid|correct))?\b"
    r"|any\s+(?:valid|correct|possible)\s+(?:answer|solution|output|order)"
    r"|(?:multiple|several|more\s+than\s+one)\s+(?:\w+\s+)?(?:answers?|solutions?)\b[^.\n]{0,40}"
    r"\bany\b)",
    re.IGNORECASE,
)


def _any_answer(problem: Problem, ledger: Ledger) -> Problem:
    """Several right answers and no rule to judge them: right programs would fail."""
    if problem.checker or any(test.get("any_order") for test in problem.tests):
        return problem
    if found := _ANY.search(problem.statement):
        return ledger.flag(problem, "any_answer", f"{found[0]!r}, and no checker")
    return problem


# Tests -------------------------------------------------------------------------------------------


def _input_of(test: dict[str, Any]) -> str:
    """What a test gives to the program, white space at line ends aside."""
    if "stdin" in test:
        return "\n".join(line.rstrip() for line in test["stdin"].strip().split("\n"))
    return json.dumps(test.get("args", test.get("code")), sort_keys=True)


def _answer_of(test: dict[str, Any]) -> str | None:
    if "expected" not in test:
        return None
    expected = test["expected"]
    return " ".join(expected.split()) if "stdin" in test else json.dumps(expected, sort_keys=True)


def _tests(problem: Problem, ledger: Ledger, config: FilterConfig) -> Problem | None:
    """Drop tests that are too large, repeated or contradictory; then there must be enough left."""
    kept, notes = _usable(problem.tests, config)
    if config.max_tests is not None and len(kept) > config.max_tests:
        notes["beyond max_tests"] = len(kept) - config.max_tests
        kept = kept[: config.max_tests]
    told = ", ".join(f"{number} {reason}" for reason, number in sorted(notes.items()) if number)
    if len(kept) < config.min_tests:
        left = f"{len(kept)} usable tests, fewer than {config.min_tests}"
        return ledger.drop(problem, "tests", f"{left} ({told})" if told else left)
    if not told:
        return problem
    return ledger.change(problem, "tests", f"dropped {told}", tests=tuple(kept))


def _usable(
    tests: tuple[dict[str, Any], ...], config: FilterConfig
) -> tuple[list[dict[str, Any]], Counter[str]]:
    notes: Counter[str] = Counter()
    answers: dict[str, set[str]] = {}
    first: dict[str, dict[str, Any]] = {}
    for test in tests:
        size = len(json.dumps(test))
        if size > config.max_test_kb * 1024:
            notes["too large"] += 1
            continue
        given, answer = _input_of(test), _answer_of(test)
        if given in first:
            notes["repeated"] += 1
        if given not in first or "expected" not in first[given]:
            first[given] = test
        if answer is not None:
            answers.setdefault(given, set()).add(answer)
    contradictory = {given for given, told in answers.items() if len(told) > 1}
    notes["contradictory"] = len(contradictory)
    return [test for given, test in first.items() if given not in contradictory], notes


def _reference(problem: Problem, ledger: Ledger, config: FilterConfig) -> Problem | None:
    if config.need_reference and not problem.references:
        return ledger.drop(problem, "reference", "no reference solution")
    return problem
