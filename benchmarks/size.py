"""Lines of code by sub-package: no blank lines, no lines of comment alone, no docstrings. What is
not Python is counted beside it, tables (TOML) by what they are of.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1] / "mcbench"
BESIDE = {".js": "//", ".css": "/*", ".html": "{#", ".toml": "#"}  # and what begins a comment
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> int:
    """Lines of a file that are code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            docstrings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in docstrings
        for number, line in lines
    )


def main() -> None:
    """Print the figure of each sub-package and of all."""
    counts: Counter[str] = Counter()
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts
        counts[part[0] if len(part) > 1 else "(top)"] += code_lines(path.read_text())
    for name, count in counts.most_common():
        print(f"{count:7,}  mcbench/{name}")
    print(f"{counts.total():7,}  in all")
    print("beside it")
    beside: Counter[str] = Counter()
    for path in ROOT.rglob("*"):
        if (comment := BESIDE.get(path.suffix)) is not None:
            lines = [line.strip() for line in path.read_text().splitlines()]
            name = f"{path.parent.name}/*.toml" if path.suffix == ".toml" else path.suffix[1:]
            beside[name] += sum(bool(line) and not line.startswith(comment) for line in lines)
    for name, count in beside.most_common():
        print(f"{count:7,}  {name}")
    print(f"{beside.total():7,}  in all")


if __name__ == "__main__":
    main()
