"""Which natural language a statement is written in."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

_LANGUAGES = (
    "ar bg cs da de el en es fa fi fr he hi hu id it ja ko nl no pl pt ro ru sv th tr uk vi zh"
)
LANGUAGES = _LANGUAGES.split()
_MIN_WORDS = 12
_MIN_PROBABILITY = 0.95
_READ = 2000  # characters that are looked at
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\$[^$\n]*\$", re.DOTALL)
_WORD = re.compile(r"[^\W\d_]{2,}")
# One look at the letters settles these, however short the text is.
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u4e00-\u9fff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("cyrillic", re.compile(r"[\u0400-\u04ff]")),
    ("arabic", re.compile(r"[\u0600-\u06ff]")),
)
_USUAL = {"cyrillic": "ru", "arabic": "ar"}


@cache
def _identifier() -> Any:
    from py3langid.langid import (  # type: ignore[import-untyped]
        MODEL_FILE,
        LanguageIdentifier,
    )

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(LANGUAGES)
    return identifier


def detect_language(text: str) -> str:
    """ISO 639-1 code; empty when the text is too short or too mixed to tell.

    Code and formulas are left out. A script of its own decides by a fifth of the letters (Japanese
    statements are full of Latin variable names); otherwise langid must be 95 % sure.
    """
    prose = _CODE.sub(" ", text[:_READ])
    letters = sum(map(str.isalpha, prose))
    for name, script in _SCRIPTS:
        if letters and len(script.findall(prose)) > max(letters / 5, 3):
            if name not in _USUAL:
                return name
            return _classified(prose) or _USUAL[name]
    if len(_WORD.findall(prose)) < _MIN_WORDS:
        return ""
    return _classified(prose)


def _classified(prose: str) -> str:
    language, probability = _identifier().classify(" ".join(_WORD.findall(prose)))
    return str(language) if probability >= _MIN_PROBABILITY else ""
