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
        (f"<thinking>\n{DRAFT}", None),
        (f"<thinking>\n{DRAFT}</thinking>\n{ANSWER}", "answer\n"),
        (f"<think>\n{DRAFT[:-4]}</think>\n{ANSWER}", "answer\n"),  # a draft that was given up
        (f"<think>\n{DRAFT[:-5]}</think>\n{ANSWER}", "answer\n"),
        (f"<think>\n{DRAFT}</think>", None),
        (f'<think>\n```python\ndef f():\n    """Returns\n</think>\n{ANSWER}', "answer\n"),
        (f"<think>\n```python\nprint('</think>')\n```\nBetter:\n{DRAFT}", None),
        (f"[THINK]\n{DRAFT}", None),
        (f"[THINK]\n{DRAFT}[/THINK]\n{ANSWER}", "answer\n"),
        (f"<|begin_of_thought|>\n{DRAFT}", None),
        (f"<|begin_of_thought|>{DRAFT}<|end_of_thought|>{ANSWER}", "answer\n"),
        (f"<seed:think>{DRAFT}", None),
        (f"◁think▷{DRAFT}◁/think▷{ANSWER}", "answer\n"),
        # In code, quoted, a second one, and a stray one after the answer, it ends no thought.
        ("```python\nprint('</think>')\n```", "print('</think>')\n"),
        ('```python\ns = """\n</think>\n"""\n```', 's = """\n</think>\n"""\n'),
        (f"<think>\n```python\nx = '</think>'\n```\n</think>\n{ANSWER}", "answer\n"),
        (f"{ANSWER}The tag `</think>` is printed.", "answer\n"),
        (f"<think>a</think>\n{ANSWER}</think>\nThat is all.", "answer\n"),
        (f"{DRAFT}</think>\n{ANSWER}</think>", "answer\n"),
        (f"{ANSWER}</think>\n", "answer\n"),
    ],
)
def test_only_the_answer_counts(response, program):
    assert extract_code(response) == program
