"""Filter: text quality, relevance, recency, and number and size of tests.

A rule about text drops a problem only where it was right in at least nine of ten cases on published
statements (`benchmarks/data_real.py` measures it); any other flags it. Which ones drop is the
configuration's choice.

Near-duplicates, contamination and difficulty have their own modules: `dedup`, `decontaminate`,
`difficulty`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from mcbench.data.audit import Ledger, Rule, apply_rules
from mcbench.data.pipeline import BatchStage, Outcome
from mcbench.data.programs import cases
from mcbench.data.schema import Problem
from mcbench.settings import Settings, Share, ordered

Day = Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\d)?$")]  # YYYY-MM-DD, or none


RuleName = Literal[
    "language", "recency", "length", "damaged", "repetitive", "image", "interactive", "database",
    "shell", "other_language", "special_judge",
]  # fmt: skip
RULES: tuple[RuleName, ...] = get_args(RuleName)
DROPPING = tuple(name for name in RULES if name not in ("image", "special_judge"))
"""What drops by default."""


class FilterConfig(Settings):
    """What a problem must have to be kept.

    Args:
        language: of the statement; a record of another (known) one is dropped. Empty: any.
        min_words, max_words: of the statement.
        drop: the rules that drop what they find; others flag it. Rules: `RULES`.
        min_distinct: distinct words per word, over the first 200; below it a text repeats itself.
        min_tests: fewer make answers pass by luck; each assertion counts (DeepCoder wants 5, of
            which every problem of HumanEval and MBPP falls short).
        max_tests: more are cut to the first so many; None keeps all.
        max_test_kb: a test whose JSON is larger is dropped, in KiB.
        first_date, last_date: of publication, ``YYYY-MM-DD``; empty: no bound.
        unknown_date: keep or drop a record without a date, where there is a bound.

    Raises:
        UserError: a value out of range.
    """

    drop: tuple[RuleName, ...] = DROPPING
    language: str = "en"
    min_words: NonNegativeInt = 6
    max_words: int = 3000
    min_distinct: Share = 0.1
    min_tests: PositiveInt = 3
    max_tests: int | None = None
    max_test_kb: PositiveFloat = 1024
    first_date: Day = ""
    last_date: Day = ""
    unknown_date: Literal["keep", "drop"] = "keep"

    _in_order = ordered(("min_words", "max_words"), ("min_tests", "max_tests"))


@dataclass(frozen=True)
class Filter(BatchStage):
    """The stage."""

    config: FilterConfig = field(default_factory=FilterConfig)

    name: ClassVar[str] = "filter"

    def run(self, batch: list[Problem]) -> Outcome:
        """Apply the rules to every problem; what is cheap and certain comes first."""
        rules: list[tuple[str, Rule]] = [
            *((name, partial(_found, name=name, config=self.config)) for name in RULES),
            ("tests", partial(_tests, config=self.config)),
        ]
        return apply_rules(self.name, batch, rules)


def _found(
    problem: Problem, ledger: Ledger, name: RuleName, config: FilterConfig
) -> Problem | None:
    if not (reason := _REASONS[name](problem, config)):
        return problem
    return (ledger.drop if name in config.drop else ledger.flag)(problem, name, reason)


def _language(problem: Problem, config: FilterConfig) -> str:
    if not config.language or problem.language in ("", config.language):
        return ""
    return f"written in {problem.language}, not {config.language}"


def _recency(problem: Problem, config: FilterConfig) -> str:
    if not problem.date:
        bound = config.first_date or config.last_date
        return "no date" if bound and config.unknown_date == "drop" else ""
    if problem.date < config.first_date:
        return f"{problem.date} is before {config.first_date}"
    if config.last_date and problem.date > config.last_date:
        return f"{problem.date} is after {config.last_date}"
    return ""


# Text --------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]+")
_ENOUGH = 40  # words to tell whether a text repeats itself
_MOST_SYMBOLS = 0.25  # of the characters: neither letters, digits, spaces nor usual punctuation


def _length(problem: Problem, config: FilterConfig) -> str:
    words = len(problem.statement.split())
    if words < config.min_words:
        return f"{words} words, fewer than {config.min_words}"
    return f"{words} words, more than {config.max_words}" if words > config.max_words else ""


_ODD = re.compile(r"""[^\w\s.,;:!?'"()\[\]{}<>=+*/^%|&$#@~`\\≤≥≠×·…–—-]""")


def _repetitive(problem: Problem, config: FilterConfig) -> str:
    """Few different words; a short text has too few to tell."""
    prose = re.sub(r"```.*?```", " ", problem.statement, flags=re.DOTALL)
    words = [word.lower() for word in _WORD.findall(prose)][:200]
    distinct = len(set(words)) / len(words) if len(words) >= _ENOUGH else 1.0
    told = f"only {distinct:.0%} of the words are distinct"
    return told if distinct < config.min_distinct else ""


def _damaged(problem: Problem, config: FilterConfig) -> str:
    text = problem.statement
    lost = text.count("\ufffd")
    if lost > 2:
        return f"{lost} characters were lost (replacement characters)"
    odd = len(_ODD.findall(text))
    if odd > _MOST_SYMBOLS * len(text):
        return f"{odd} of {len(text)} characters are odd symbols"
    return ""


def _image(problem: Problem, config: FilterConfig) -> str:
    return "the statement had an image" if "image_removed" in problem.flags else ""


# Not programs, or not judged by comparing one output.
_OTHER: dict[str, re.Pattern[str]] = {
    "interactive": re.compile(
        r"\binteractive\s+(?:problem|task)\b|\bflush\s+(?:the\s+|your\s+)?(?:output|stdout)"
        r"|\binteractor\b|\byou\s+(?:can|may)\s+ask\s+(?:at\s+most|up\s+to)\s+\d+\s+quer", re.I),
    "database": re.compile(
        r"\bwrite\s+(?:an?|the)\s+(?:sql|mysql|pandas)\b|\bsql\s+query\b"
        r"|\btable:\s*\w+\n\+-", re.I),
    "shell": re.compile(r"\bwrite\s+a\s+(?:bash|shell)\s+script\b", re.I),
    "other_language": re.compile(
        r"\b(?:write|implement|complete)\b(?:\s+(?:a|an|the|this|your|following|below)\b)*\s+"
        r"(?:\w+\s+){0,2}?(?:program|function|method|class|code|solution|script)\b[^.\n]{0,24}?"
        r"\bin\s+(?-i:Java|JavaScript|TypeScript|C|C\+\+|C#|Rust|Go|Haskell|Ruby|PHP|Kotlin|Scala"
        r"|Swift)(?![\w+#]|\s+or\b|,)", re.I),
}  # fmt: skip


def _other(problem: Problem, config: FilterConfig, name: str) -> str:
    found = _OTHER[name].search(problem.statement)
    return repr(found[0].strip()) if found else ""


_ANY = re.compile(  # of the answer: "choose any two" and "perform them in any order" are moves
    r"\b(?:(?<!not\s)(?<!n't\s)(?<!never\s)(?<!without\s)"
    r"(?:print|output|return|report|display)(?:ing)?\s+any(?:one)?\b"
    r"|(?:find|choose)\s+any\s+(?:one\s+)?of\s+(?:them|these|those)\b"
    r"(?!\s+and\s+(?!print|output|return|report))"
    r"|(?:(?<=^)|(?<=[.!?:;,]\s)|(?<=\bto\s)|(?<=\band\s))find\s+any(?:\s+\w+){0,2}\s*\."
    r"|(?:find|construct)\s+any\s+(?:one\b|such\b|valid\b|correct\b|suitable\b|possible\b"
    r"|[^.\n]{0,60}\b(?:that|which|where|satisf\w+|or\s+(?:report|state|determine))\b)"
    r"|any\s+(?:valid|correct|possible|suitable|such|optimal)\s+(?:answer|solution|output)"
    r"|any\s+of\s+(?:them|these)\s+(?:is|will\s+be|are)\b"
    r"|(?:(?:print|output|return|report|display)\w*|(?:may|can)\s+list)\b[^.\n]{0,80}"
    r"\bin\s+any\s+order"
    r"|(?:may|can)\s+be\s+(?:given|listed)\s+in\s+any\s+order\b"
    r"(?![\s\S]*^[\W_]*output[\W_]*$)"  # else it is of the input
    r"|(?:multiple|several|more\s+than\s+one|many)\s+(?:\w+\s+){0,2}"
    r"(?:answers?|solutions?|ways|sequences|strings)\b[^.\n]{0,60}\bany\b)",
    re.IGNORECASE | re.MULTILINE,
)


def _special_judge(problem: Problem, config: FilterConfig) -> str:
    """Several right answers and no rule to judge them: right programs would fail."""
    if problem.checker or any(test.get("any_order") for test in problem.tests):
        return ""
    found = _ANY.search(problem.statement)
    return f"{found[0]!r}, and no checker" if found else ""


_REASONS: dict[RuleName, Callable[[Problem, FilterConfig], str]] = {
    "language": _language,
    "recency": _recency,
    "length": _length,
    "damaged": _damaged,
    "repetitive": _repetitive,
    "image": _image,
    **{name: partial(_other, name=name) for name in _OTHER},  # type: ignore[misc]
    "special_judge": _special_judge,
}


# Tests -------------------------------------------------------------------------------------------


def _input_of(test: dict[str, Any]) -> str:
    """What a test gives to the program, white space at line ends aside."""
    if "stdin" in test:
        return "\n".join(line.rstrip() for line in test["stdin"].strip().split("\n"))
    given = test["args"] if "args" in test else [test["code"], test.get("setup")]
    return json.dumps(given, sort_keys=True)


def _answer_of(test: dict[str, Any]) -> str:
    if "stdin" in test:
        return " ".join(test["expected"].split())
    return json.dumps(test.get("expected"), sort_keys=True)  # assertions have none


def _tests(problem: Problem, ledger: Ledger, config: FilterConfig) -> Problem | None:
    """Drop tests that are too large, repeated or contradictory; then there must be enough left."""
    kept, notes = _usable(problem.tests, config)
    if config.max_tests is not None and len(kept) > config.max_tests:
        notes["beyond max_tests"] = len(kept) - config.max_tests
        kept = kept[: config.max_tests]
    told = ", ".join(f"{number} {reason}" for reason, number in sorted(notes.items()) if number)
    if (usable := sum(map(cases, kept))) < config.min_tests:
        left = f"{usable} usable tests, fewer than {config.min_tests}"
        return ledger.drop(problem, "tests", f"{left} ({told})" if told else left)
    if not told:
        return problem
    return ledger.change(problem, "tests", f"dropped {told}", tests=tuple(kept))


def _usable(
    tests: tuple[dict[str, Any], ...], config: FilterConfig
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The tests that are small, of different inputs and of one mind; how many are not, and why."""
    small = [test for test in tests if len(json.dumps(test)) <= config.max_test_kb * 1024]
    first: dict[str, dict[str, Any]] = {}
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for test in small:
        given = _input_of(test)
        first.setdefault(given, test)
        answers[given].add(_answer_of(test))
    kept = [test for given, test in first.items() if len(answers[given]) == 1]
    return kept, {
        "too large": len(tests) - len(small),
        "repeated": len(small) - len(first),
        "contradictory": len(first) - len(kept),
    }
