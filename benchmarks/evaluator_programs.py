"""The programs that benchmarks/evaluator.py and benchmarks/soak.py run: right answers only.

Pipelines of the nano world and small contest programs on inputs of the size of a problem's
samples. All read standard input in the ways that LiveCodeBench's method supports.
"""

import contextlib
import io
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mcbench.evaluator import CallTest, StdioTest, Submission
from mcbench.worlds import described


@dataclass(frozen=True)
class Program:
    """``cases`` are pairs (standard input, output) or, with ``fn_name``, (arguments, value)."""

    code: str
    fn_name: str | None
    cases: tuple[tuple[Any, Any], ...]

    @property
    def submission(self) -> Submission:
        if self.fn_name is None:
            return Submission(self.code, [StdioTest(*case) for case in self.cases])
        return Submission(self.code, [CallTest(self.fn_name, *case) for case in self.cases])

    @property
    def script(self) -> str:
        """A plain script: a call-based program gets its arguments and prints its value as JSON."""
        if self.fn_name is None:
            return self.code
        call = f"print(json.dumps(Solution().{self.fn_name}(*json.load(sys.stdin))))"
        return f"{self.code}\nimport json, sys\n{call}\n"

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Standard input and output of the script, per test."""
        if self.fn_name is None:
            return list(self.cases)
        return [(json.dumps(args), json.dumps(value)) for args, value in self.cases]

    def first(self, count: int) -> "Program":
        """The program with its first tests only."""
        return replace(self, cases=self.cases[:count])

    def marked(self, mark: object) -> "Program":
        """The same program, but not an equal one."""
        return replace(self, code=f"{self.code}# {mark}\n")


def _numbers(rng: random.Random, count: int, low: int = -1000, high: int = 1000) -> str:
    return " ".join(str(rng.randint(low, high)) for _ in range(count))


def _list(rng: random.Random) -> str:
    count = rng.randint(5, 200)
    return f"{count}\n{_numbers(rng, count)}\n"


def _grid(rng: random.Random) -> str:
    rows = ["".join(rng.choice("...#") for _ in range(12)) for _ in range(12)]
    return "12 12\n" + "\n".join(rows) + "\n"


def _graph(rng: random.Random) -> str:
    edges = [(rng.randint(1, 30), rng.randint(1, 30), rng.randint(1, 99)) for _ in range(80)]
    return "30 80\n" + "".join(f"{a} {b} {c}\n" for a, b, c in edges)


def _queries(rng: random.Random) -> str:
    queries = [sorted(rng.sample(range(51), 2)) for _ in range(40)]
    return f"50 40\n{_numbers(rng, 50)}\n" + "".join(f"{a} {b}\n" for a, b in queries)


def _words(rng: random.Random) -> str:
    return "".join("".join(rng.choices("abc", k=25)) + "\n" for _ in range(2))


def _knapsack(rng: random.Random) -> str:
    return "12 60\n" + "".join(_numbers(rng, 2, 1, 30) + "\n" for _ in range(12))


# A contest program and what draws its input.
STDIN: list[tuple[str, Callable[[random.Random], str]]] = [
    (
        "from bisect import bisect_left\nn = int(input())\nbest = []\n"
        "for x in map(int, input().split()):\n    i = bisect_left(best, x)\n"
        "    best[i:i + 1] = [x]\nprint(len(best))\n",
        _list,
    ),
    (
        "n = int(input())\na = list(map(int, input().split()))\nbest = here = a[0]\n"
        "for x in a[1:]:\n    here = max(x, here + x)\n    best = max(best, here)\nprint(best)\n",
        _list,
    ),
    (
        "from collections import Counter\nimport sys\ndata = sys.stdin.read().split()\n"
        "count = Counter(map(int, data[1:]))\n"
        "for value, times in sorted(count.items(), key=lambda p: (-p[1], p[0]))[:10]:\n"
        "    print(value, times)\n",
        _list,
    ),
    (
        "from collections import deque\nh, w = map(int, input().split())\n"
        "g = [input() for _ in range(h)]\nd = {(0, 0): 0}\nq = deque(d)\n"
        "while q:\n    r, c = q.popleft()\n"
        "    for y, x in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):\n"
        "        if 0 <= y < h and 0 <= x < w and g[y][x] == '.' and (y, x) not in d:\n"
        "            d[y, x] = d[r, c] + 1\n            q.append((y, x))\n"
        "print(d.get((h - 1, w - 1), -1))\n",
        _grid,
    ),
    (
        "import heapq, sys\ninput = sys.stdin.readline\n\ndef main():\n"
        "    n, m = map(int, input().split())\n    graph = [[] for _ in range(n + 1)]\n"
        "    for _ in range(m):\n        a, b, c = map(int, input().split())\n"
        "        graph[a].append((b, c))\n        graph[b].append((a, c))\n"
        "    dist = [10**18] * (n + 1)\n    dist[1] = 0\n    heap = [(0, 1)]\n"
        "    while heap:\n        d, u = heapq.heappop(heap)\n        if d > dist[u]:\n"
        "            continue\n        for v, c in graph[u]:\n            if d + c < dist[v]:\n"
        "                dist[v] = d + c\n                heapq.heappush(heap, (d + c, v))\n"
        "    print(*dist[1:])\n\nmain()\n",
        _graph,
    ),
    (
        "import sys\nsys.setrecursionlimit(10**6)\nn, m = map(int, input().split())\n"
        "parent = list(range(n + 1))\n\ndef find(x):\n    if parent[x] != x:\n"
        "        parent[x] = find(parent[x])\n    return parent[x]\n\n"
        "for _ in range(m // 4):\n    a, b, c = map(int, input().split())\n"
        "    parent[find(a)] = find(b)\nprint(len({find(x) for x in range(1, n + 1)}))\n",
        _graph,
    ),
    (
        "from itertools import accumulate\nimport sys\n"
        "data = list(map(int, sys.stdin.read().split()))\n"
        "n, q = data[:2]\nsums = [0, *accumulate(data[2:2 + n])]\nit = iter(data[2 + n:])\n"
        "print('\\n'.join(str(sums[b] - sums[a]) for a, b in zip(it, it)))\n",
        _queries,
    ),
    (
        "a = input()\nb = input()\nrow = list(range(len(b) + 1))\n"
        "for i, x in enumerate(a, 1):\n    last, row[0] = row[0], i\n"
        "    for j, y in enumerate(b, 1):\n"
        "        last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))\n"
        "print(row[-1])\n",
        _words,
    ),
    (
        "n, w = map(int, input().split())\nbest = [0] * (w + 1)\nfor _ in range(n):\n"
        "    weight, value = map(int, input().split())\n    for c in range(w, weight - 1, -1):\n"
        "        best[c] = max(best[c], best[c - weight] + value)\nprint(best[w])\n",
        _knapsack,
    ),
]
# A method of class Solution and what draws its arguments.
CALLS: list[tuple[str, str, Callable[[random.Random], list[Any]]]] = [
    (
        "from typing import List\n\nclass Solution:\n"
        "    def merge(self, intervals: List[List[int]]) -> List[List[int]]:\n"
        "        merged = []\n        for a, b in sorted(intervals):\n"
        "            if merged and a <= merged[-1][1]:\n"
        "                merged[-1][1] = max(merged[-1][1], b)\n"
        "            else:\n                merged.append([a, b])\n        return merged\n",
        "merge",
        lambda rng: [[sorted(rng.sample(range(100), 2)) for _ in range(20)]],
    ),
    (
        "class Solution:\n    def twoSum(self, nums, target):\n        seen = {}\n"
        "        for i, x in enumerate(nums):\n            if target - x in seen:\n"
        "                return [seen[target - x], i]\n            seen[x] = i\n"
        "        return []\n",
        "twoSum",
        lambda rng: [[rng.randint(0, 99) for _ in range(40)], rng.randint(0, 198)],
    ),
]


def _printed(code: str, text: str) -> str:
    stdin, stdout = sys.stdin, io.StringIO()
    limit = sys.getrecursionlimit()
    sys.stdin = io.StringIO(text)
    try:
        with contextlib.redirect_stdout(stdout):
            exec(code, {"__name__": "__main__"})
    finally:
        sys.stdin = stdin
        sys.setrecursionlimit(limit)
    return stdout.getvalue()


def _returned(code: str, fn_name: str, args: list[Any]) -> Any:
    names: dict[str, Any] = {}
    exec(code, names)
    return getattr(names["Solution"](), fn_name)(*json.loads(json.dumps(args)))


def _contest(rng: random.Random, tests: int) -> Program:
    if rng.random() < 0.7:
        code, draw = rng.choice(STDIN)
        inputs = [draw(rng) for _ in range(tests)]
        return Program(code, None, tuple((text, _printed(code, text)) for text in inputs))
    code, fn_name, draw_args = rng.choice(CALLS)
    args = [draw_args(rng) for _ in range(tests)]
    return Program(code, fn_name, tuple((a, _returned(code, fn_name, a)) for a in args))


def _nano(rng: random.Random, tests: int) -> Program:
    task = described.draw(rng)
    code = described.program(task.steps, task.final, task.form)
    inputs = [described.draw_input(rng) for _ in range(tests)]
    if task.form == "call":
        return Program(code, "solve", tuple(([a], _returned(code, "solve", [a])) for a in inputs))
    texts = [" ".join(map(str, a)) + "\n" for a in inputs]
    return Program(code, None, tuple((text, _printed(code, text)) for text in texts))


def draw_programs(count: int, seed: int = 0) -> list[Program]:
    """Right programs with 1 to 10 tests each, no two equal; six of ten are nano pipelines."""
    rng = random.Random(seed)
    kinds = (_nano, _nano, _nano, _contest, _contest)
    return [kinds[i % 5](rng, rng.randint(1, 10)).marked(i) for i in range(count)]
