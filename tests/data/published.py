"""Rows exactly as the sets publish them, and files of them. The problems are made up."""

import base64
import gzip
import json
import pickle
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = "a, b = map(int, input().split())\nprint(a + b)\n"
STDIO = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}


def jsonl(path: Path, *rows) -> Path:
    """JSON lines; a row that is text is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def parquet(path: Path, *rows, rows_per_group: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path, row_group_size=rows_per_group)
    return path


def packed(tests) -> str:
    """LiveCodeBench's encoding of private tests."""
    return pack(pickle.dumps(json.dumps(tests)))


def pack(pickled: bytes) -> str:
    return base64.b64encode(zlib.compress(pickled)).decode()


def taco(**changes) -> dict:
    row = {
        "question": "Print the sum of two numbers.",
        "solutions": json.dumps([PROGRAM]),
        "starter_code": "",
        "input_output": json.dumps(STDIO),
        "difficulty": "MEDIUM_HARD",
        "raw_tags": "['maths', 'greedy']",
        "name": "Sum",
        "source": "codeforces",
        "tags": "['Mathematics', 'Greedy algorithms']",
        "skill_types": "['Greedy algorithms']",
        "url": "https://example.org/sum",
        "Expected Auxiliary Space": None,
        "time_limit": "2.0 seconds",
        "date": "2019-12-31",
        "picture_num": "0",
        "memory_limit": "256.0 megabytes",
        "Expected Time Complexity": None,
    }
    return {**row, **changes}


def lcb(**changes) -> dict:
    row = {
        "question_title": "Sum",
        "question_content": "Print the sum of two numbers.",
        "platform": "atcoder",
        "question_id": "abc400_a",
        "contest_id": "abc400",
        "contest_date": "2025-04-05T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
        "private_test_cases": packed([{"input": "3 4\n", "output": "7\n", "testtype": "stdin"}]),
        "metadata": "{}",
    }
    return {**row, **changes}


def lcb_call(**changes) -> dict:
    row = {
        "question_title": "Two Sum II",
        "question_content": "Return the sum of the list times k.",
        "platform": "leetcode",
        "question_id": "3500",
        "contest_id": "weekly-contest-440",
        "contest_date": "2025-03-09T00:00:00",
        "starter_code": "class Solution:\n    def total(self, nums: List[int], k: int) -> int:\n",
        "difficulty": "hard",
        "public_test_cases": json.dumps(
            [{"input": "[1, 2]\n3", "output": "9", "testtype": "functional"}]
        ),
        "private_test_cases": packed([{"input": "[]\n5", "output": "0", "testtype": "functional"}]),
        "metadata": json.dumps({"func_name": "total"}),
    }
    return {**row, **changes}


def codeforces(**changes) -> dict:
    row = {
        "id": "1/A",
        "aliases": None,
        "contest_id": "1",
        "contest_name": "Codeforces Beta Round 1",
        "contest_type": "ICPC",
        "contest_start": 1266580800,
        "contest_start_year": 2010,
        "index": "A",
        "time_limit": 1.5,
        "memory_limit": 256.0,
        "title": "Sum",
        "description": "Add two numbers.",
        "input_format": "Two integers.",
        "output_format": "Their sum.",
        "interaction_format": None,
        "note": "Mind the gap.",
        "examples": [{"input": "1 2", "output": "3"}],
        "editorial": None,
        "rating": 1000,
        "tags": ["math"],
        "testset_size": 2,
        "official_tests": [{"input": "1 2", "output": "3"}, {"input": "3 4", "output": "7"}],
        "official_tests_complete": True,
        "input_mode": "stdio",
        "generated_checker": "import sys\nprint(1)\n",
        "executable": True,
        "generated_tests": 0,
    }
    return {**row, **changes}


def verifiable(**changes) -> dict:
    case = {"fn_name": None, "input": "1 2\n", "output": "3\n", "type": "stdin_stdout"}
    row = {
        "source": "taco",
        "task_type": "verifiable_code",
        "in_source_id": "taco_1",
        "problem_statement": "Print the sum of two numbers.",
        "gold_standard_solution": f"```python\n{PROGRAM}```",
        "problem_id": "vfc_1",
        "metadata": {
            "difficulty": "INTERVIEW",
            "memory_limit": "256 megabytes",
            "memory_limit_bytes": 268435456,
            "problem_url": "https://example.org/sum",
            "time_limit": "1 second",
        },
        "verification_info": {"language": "python", "test_cases": [case]},
    }
    return {**row, **changes}


def kodcode(**changes) -> dict:
    row = {
        "version": "v1.1",
        "style": "Instruct",
        "subset": "Algorithm",
        "question_id": "Algorithm_1_I",
        "question": "Write a function `add` that adds two numbers.",
        "solution": "def add(a, b):\n    return a + b\n",
        "test": (
            "from solution import add\n\ndef test_small():\n    assert add(1, 2) == 3\n\n"
            "def test_zero():\n    assert add(0, 0) == 0\n"
        ),
        "test_info": [
            {
                "docstring": "Adds.",
                "function_declaration": "def add(a, b):",
                "function_name": "add",
                "parameter_list": "(a, b)",
            }
        ],
        "gpt_pass_sequence": [1, 0],
        "gpt_pass_trial_num": 2,
        "gpt_difficulty": "medium",
        "gpt_pass_percentage": 0.5,
    }
    return {**row, **changes}


def humaneval(**changes) -> dict:
    row = {
        "task_id": "HumanEval/7",
        "prompt": 'def half(x):\n    return x / 2\n\ndef quarter(x):\n    """A quarter of x."""\n',
        "entry_point": "quarter",
        "canonical_solution": "    return half(half(x))\n",
        "test": "def check(candidate):\n    assert candidate(4) == half(2)\n",
    }
    return {**row, **changes}


def mbpp(**changes) -> dict:
    row = {
        "text": "Write a function to add.\r\n",
        "code": "def add(a, b):\r\n  return a + b",
        "task_id": 11,
        "test_setup_code": "import math",
        "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0"],
        "challenge_test_list": [],
    }
    return {**row, **changes}


def package(folder: Path, settings: str, **files: str) -> Path:
    """A problem package of the legacy format; ``files`` adds some or replaces them by path."""
    texts = {
        "problem.yaml": settings,
        "problem_statement/problem.en.tex": "\\problemname{Sum}\nAdd $a$ and $b$.\n",
        "data/sample/1.in": "1 2\n",
        "data/sample/1.ans": "3\n",
        "data/secret/01.in": "3 4\n",
        "data/secret/01.ans": "7\n",
        "submissions/accepted/sum.py": PROGRAM,
        **files,
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def apps(**changes) -> dict:
    row = {
        "problem_id": 17,
        "question": "Print the sum of two numbers.",
        "solutions": json.dumps(["print 1\n", PROGRAM]),
        "input_output": json.dumps(STDIO),
        "difficulty": "introductory",
        "url": "https://example.org/sum",
        "starter_code": "",
    }
    return {**row, **changes}


def code_contests(**changes) -> dict:
    tests = {"input": ["1 2\n"], "output": ["3\n"]}
    row = {
        "name": "1_A. Sum",
        "description": "Print the sum of two numbers.",
        "public_tests": tests,
        "private_tests": {"input": ["3 4\n"], "output": ["7\n"]},
        "generated_tests": {"input": [], "output": []},
        "source": 2,
        "difficulty": 7,
        "solutions": {"language": [2, 1, 3], "solution": ["int main(){}", "print 1", PROGRAM]},
        "cf_rating": 800,
        "cf_tags": ["maths"],
        "time_limit": {"seconds": 1, "nanos": 500_000_000},
        "memory_limit_bytes": 256 << 20,
        "input_file": "",
        "output_file": "",
    }
    return {**row, **changes}


LEETCODE_HEADER = """from typing import *
class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next
def list_node(values):
    head = None
    for value in reversed(values):
        head = ListNode(value, head)
    return head
def is_same_list(a, b):
    return a is b or (a and b and a.val == b.val and is_same_list(a.next, b.next))
"""


def leetcode(**changes) -> dict:
    row = {
        "task_id": "double-list",
        "question_id": 9001,
        "difficulty": "Easy",
        "tags": ["Linked List"],
        "problem_description": "Double every value of a linked list.\n",
        "starter_code": "class Solution:\n    def double(self, head: ListNode):\n        ",
        "estimated_date": "2024-08-04",
        "prompt": LEETCODE_HEADER,
        "completion": (
            "class Solution:\n    def double(self, head: Optional[ListNode]) -> Optional[ListNode]:"
            "\n        node = head\n        while node:\n            node.val *= 2\n"
            "            node = node.next\n        return head\n"
        ),
        "entry_point": "Solution().double",
        "test": (
            "def check(candidate):\n"
            "    assert is_same_list(candidate(head = list_node([1,2,3])),list_node([2,4,6]))\n"
            "    assert is_same_list(candidate(head = list_node([])),list_node([]))\n"
            "    assert is_same_list(candidate(head = list_node([5])),list_node([10]))\n"
        ),
        "query": "You are an expert.\n\n### Question:\nDouble it.\n\n### Format: x\n",
    }
    return {**row, **changes}


def evalplus(**changes) -> dict:
    row = {
        "task_id": "HumanEval/7",
        "prompt": 'def halves(xs):\n    """Half of every number."""\n',
        "entry_point": "halves",
        "canonical_solution": "    return [x / 2 for x in xs]\n",
        "test": "def check(candidate):\n"
        "    for xs in ([1, 2], [], [3.3]):\n"
        "        assert candidate(xs) == [x / 2 for x in xs]\n",
    }
    return {**row, **changes}
