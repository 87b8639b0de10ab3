"""What a model thinks before it answers holds no program."""

import pytest

from mcbench.evaluator import extract_code

DRAFT, ANSWER = "```python\ndraft\n```\n", "```python\nanswer\n```\n"


@pytest.mark.parametrize(
    ("response", "program"),
    [
        (f"<think>\n{DRAFT}</think>\n{ANSWER}", "answer\n"),
        (f"{DRAFT}</think>\n{ANSWER}", "answer\n"),  # the template began the thought
        (f"<think>\n{DRAFT}", None),  # cut while thinking
        (f"<think>\n{DRAFT}</think>\nNo program.", None),
        (f"<think>\n\n</think>\n\n{ANSWER}", "answer\n"),
        (ANSWER, "answer\n"),
    ],
)
def test_only_the_answer_counts(response, program):
    assert extract_code(response) == program
