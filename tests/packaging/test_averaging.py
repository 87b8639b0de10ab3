"""Recipes whose losses are averaged differently are never set against each other in silence.

GRPO averaged per response and GRPO+ averaged over tokens differ in that beside KL and clip. A
passage that tells a contrast of plain GRPO with another recipe says how the loss is averaged.
"""

import html
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN = re.compile(r"(?<![\w.-])(?<!Dr\. )GRPO(?![+\w])(?! averaged)(?! per response)(?!, )")
OTHERS = re.compile(r"GRPO\+|MicroCoder-GRPO|\bmask(?:ing)? all\b|\bGSPO\b|Dr\. GRPO")
CONTRAST = re.compile(
    r"\b(ends?|ended|gain(s|ed)?|beats?|minus|peaks?|level with|told (apart|from)|ahead|points)\b"
)
NAMED = re.compile(r"per response|over (all )?tokens|averag", re.IGNORECASE)


def silent(passage):
    """Whether a passage tells a contrast and not how the losses are averaged."""
    told = PLAIN.search(passage) and OTHERS.search(passage) and CONTRAST.search(passage)
    return bool(told) and not NAMED.search(passage)


def passages_of_text(text):
    """Paragraphs, list items and table rows, each in one line."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=\s*[-*] )|\n(?=\|)", text)
    return [" ".join(part.split()) for part in parts]


def passages_of_page(text):
    """What stands in a paragraph, list item, heading or table row of a page."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    found = re.findall(r"<(p|li|h\d|tr|figcaption|summary|dd)\b[^>]*>(.*?)</\1>", text, re.DOTALL)
    return [" ".join(html.unescape(re.sub(r"<[^>]+>", " ", one)).split()) for _, one in found]


def passages_of_notebook(text):
    cells = json.loads(text)["cells"]
    return [p for one in cells for p in passages_of_text("".join(one["source"]))]


READ = {".md": passages_of_text, ".html": passages_of_page, ".ipynb": passages_of_notebook}
FILES = [
    path
    for folder, pattern in (
        (".", "*.md"),
        ("docs", "*.md"),
        ("reports", "*.html"),
        ("notebooks", "*.ipynb"),
    )
    for path in sorted((ROOT / folder).glob(pattern))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_contrast_of_recipes_names_how_their_losses_are_averaged(path):
    found = [one for one in READ[path.suffix](path.read_text(encoding="utf-8")) if silent(one)]
    assert not found


@pytest.mark.parametrize(
    ("passage", "expected"),
    [
        ("GRPO ends 3.2 above GRPO+ (1.6 to 4.7).", True),
        ("Plain GRPO ends highest, 4.8 above MicroCoder-GRPO.", True),
        ("GRPO+ ends 1.6 above MicroCoder-GRPO.", False),
        ("With averaging over tokens GRPO ends level with GRPO+.", False),
        ("GRPO per response ends 3.2 above GRPO+.", False),
        ("Dr. GRPO ends below GRPO+.", False),
        ("GSPO ends level with GRPO without KL.", True),
    ],
)
def test_what_is_silent(passage, expected):
    assert silent(passage) == expected
