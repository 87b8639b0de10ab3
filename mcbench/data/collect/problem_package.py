"""Problem packages of Kattis and ICPC from a folder: the legacy format and 2023-07 to 2025-09.

Specification: https://www.kattis.com/problem-package-format. A package is a folder with
problem.yaml. Nothing in it is run; its LaTeX stays LaTeX until the process stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mcbench.data.audit import shorten
from mcbench.data.collect.adapter import RowReader
from mcbench.data.collect.decode import (
    MB,
    TEST_MB,
    TESTS_MB,
    Unusable,
    object_or_none,
    of_type,
    seconds,
)
from mcbench.errors import UserError
from mcbench.files import read_data

_STATEMENT = re.compile(r"problem(?:\.([a-z]{2,3}(?:-[A-Za-z]{2})?))?\.(tex|md)")
_SAMPLE_MB = 0.01
_NO_ANSWER_FILE = {"interactive", "multi-pass", "submit-answer"}


def package_row(row: dict[str, Any], reader: RowReader) -> dict[str, Any]:
    """A package of type pass-fail, or scoring where full points count as passing."""
    package = _Package(row["folder"], row["root"])
    settings = _yaml(package, package.folder / "problem.yaml")
    kinds = set(_words(settings.get("type"))) | set(_words(settings.get("validation")))
    if refused := sorted(kinds & _NO_ANSWER_FILE):
        raise Unusable(f"{refused[0]}: answers cannot be compared with a file", "unsupported")
    language, statement = _statement(package)
    checker, checker_language = _checker(package, kinds)
    flags = _words(settings.get("validator_flags"))
    found: dict[Path, list[str]] = {}
    for part in ("sample", "secret"):
        found.update(_cases(package, package.folder / "data" / part, flags))
    for path in _fitting(list(found), reader):
        options = {"checker_args": found[path]} if checker else _options(found[path])
        _add_test(reader, package, path, options)
    limits = object_or_none(settings.get("limits"))
    source = settings.get("source")
    source = source[0] if isinstance(source, list) and source else source
    if not isinstance(source, dict):
        source = {"name": source, "url": settings.get("source_url")}
    name = settings.get("name")
    name = (name.get(language) or name.get("en")) if isinstance(name, dict) else name
    contest = _text(source.get("name"))
    return {
        "id": row["name"] if row["name"] != "." else package.folder.resolve().name,
        "statement": statement + _samples(package),
        "checker": checker,
        "checker_language": checker_language,
        "checker_protocol": "icpc" if checker else "",
        "date": _date(contest, row["name"]),
        "time_limit_s": _time_limit(package, limits),
        "memory_limit_mb": _number(limits.get("memory")),
        "url": _text(source.get("url")),
        "language": language,
        "tags": tuple(_words(settings.get("keywords"))),
        "references": _references(package, reader),
        "metadata": {
            "title": _text(name),
            "contest": contest,
            "type": " ".join(sorted(kinds)),
            "package_licence": _text(settings.get("license")),
        },
    }


@dataclass(frozen=True)
class _Package:
    """A package and the folder of the source that it lies in: links inside may lead no further."""

    folder: Path
    root: Path


def _yaml(package: _Package, path: Path) -> dict[str, Any]:
    text = _read(package, path, 1.0) if path.is_file() else ""
    try:
        data = read_data(text)
    except UserError as error:
        raise Unusable(f"{path.name} is {shorten(str(error))}") from None
    settings: dict[str, Any] = of_type(dict, {} if data is None else data, path.name, "a map")
    return settings


def _text(value: Any) -> str:
    """Text, and nothing else: YAML can hold a list of lists that is endless when written out."""
    return value if isinstance(value, str) else ""


def _words(value: Any) -> list[str]:
    """The words of a text or of a list of texts and numbers, such as a validator's arguments."""
    if isinstance(value, str):
        return value.split()
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items if type(item) in (str, int, float)]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _time_limit(package: _Package, limits: dict[str, Any]) -> float | None:
    """From problem.yaml (2023-07 on), Kattis' .timelimit or DOMjudge's domjudge-problem.ini."""
    if limits.get("time_limit"):
        return _number(limits["time_limit"])
    plain = package.folder / ".timelimit"
    if plain.is_file():
        return seconds(_read(package, plain, 1.0).strip())
    judge = package.folder / "domjudge-problem.ini"
    if judge.is_file():
        match = re.search(r"^\s*timelimit\s*=\s*['\"]?([\d.]+)", _read(package, judge, 1.0), re.M)
        return seconds(match[1]) if match else None
    return None


def _statement(package: _Package) -> tuple[str, str]:
    """Language and text of the statement; the English one where there are several."""
    found: dict[str, Path] = {}
    for folder in ("statement", "problem_statement"):
        for path in sorted((package.folder / folder).glob("problem*")):
            if match := _STATEMENT.fullmatch(path.name):
                found.setdefault(match[1] or "en", path)
    if not found:
        raise Unusable("no statement in LaTeX or Markdown (perhaps only a PDF)", "unsupported")
    language = "en" if "en" in found else sorted(found)[0]
    text = _read(package, found[language], 8.0)
    if not text.strip():
        raise Unusable("the statement is empty")
    return language.partition("-")[0], text


def _checker(package: _Package, kinds: set[str]) -> tuple[str, str]:
    """Source and language of the output validator, where the package brings one.

    Raises:
        Unusable: it is no single file in Python or C++.
    """
    folders = [package.folder / name for name in ("output_validator", "output_validators")]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    if not files or "default" in kinds:  # a validator that problem.yaml does not ask for
        if "custom" in kinds:
            raise Unusable("validation is custom, but there is no output validator")
        return "", ""
    languages = {".py": "python", ".cpp": "c++", ".cc": "c++"}
    sources = [path for path in files if path.suffix in languages]
    if len(sources) != 1:
        raise Unusable("its output validator is not one file in Python or C++", "unsupported")
    return _read(package, sources[0], 1.0), languages[sources[0].suffix]


def _date(contest: str, path: str) -> str:
    """The first day of the contest's year, from its name or the package's path; packages tell no
    day."""
    years = re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d)", f"{path} {contest}")
    return f"{years[-1]}-01-01" if years else ""


def _samples(package: _Package) -> str:
    """The sample data as the problem's page shows it: it is no part of the statement's file."""
    parts = []
    for path in sorted((package.folder / "data" / "sample").glob("*.in")):
        try:
            texts = [_read(package, file, _SAMPLE_MB) for file in (path, path.with_suffix(".ans"))]
        except Unusable:
            continue
        if "```" not in "".join(texts):
            parts.append((texts[0].rstrip("\n"), texts[1].rstrip("\n")))
    return "".join(
        f"\n\n## Sample Input {number}\n\n```\n{given}\n```\n\n"
        f"## Sample Output {number}\n\n```\n{answer}\n```\n"
        for number, (given, answer) in enumerate(parts, 1)
    )


def _cases(package: _Package, folder: Path, flags: list[str]) -> Iterator[tuple[Path, list[str]]]:
    """The input files of a data folder and of the groups below it, with the validator's flags.

    A group's replace the outer.
    """
    if not folder.is_dir():
        return
    for name in ("testdata.yaml", "test_group.yaml"):
        settings = _yaml(package, folder / name)
        own = settings.get("output_validator_flags", settings.get("output_validator_args"))
        flags = _words(own) if own else flags
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.suffix != ".files":
            yield from _cases(package, path, flags)
        elif path.suffix == ".in":
            yield path, flags


def _fitting(found: list[Path], reader: RowReader) -> list[Path]:
    """The tests that are not too much together, the smaller ones first, in their order."""
    left = TESTS_MB
    kept = set()
    for path in sorted(found, key=_size_mb):
        size = _size_mb(path)
        left -= size
        if left >= 0 or size > TEST_MB:  # that alone is refused with reason
            kept.add(path)
        else:
            reader.leave_out(f"beyond {TESTS_MB:g} MB of tests ({path.name})")
    return [path for path in found if path in kept]


def _size_mb(path: Path) -> float:
    """Of a test's input and answer."""
    files = (file for file in (path, path.with_suffix(".ans")) if file.is_file())
    return sum(file.stat().st_size for file in files) / MB


def _add_test(reader: RowReader, package: _Package, path: Path, options: dict[str, Any]) -> None:
    name = path.relative_to(package.folder / "data").with_suffix("").as_posix()
    try:
        for suffix in (".args", ".files"):
            if path.with_suffix(suffix).exists():
                raise Unusable(f"needs {suffix}, not only standard input", "unsupported")
        stdin = _read(package, path, TEST_MB)
        expected = _read(package, path.with_suffix(".ans"), TEST_MB)
    except Unusable as error:
        reader.left_out.append(f"test {name}: {error}")
        return
    reader.stdio(stdin, expected, **options)


def _options(flags: list[str]) -> dict[str, Any]:
    """The default validator's flags as our comparison's options; it ignores case by default."""
    options: dict[str, Any] = {"case_sensitive": "case_sensitive" in flags}
    if "space_change_sensitive" in flags:
        options["space_sensitive"] = True
    for name, value in pairwise(flags):
        with suppress(ValueError):
            options |= dict.fromkeys(_TOLERANCES.get(name, ()), float(value))
    return options


_TOLERANCES = {
    "float_tolerance": ("rtol", "atol"),
    "float_relative_tolerance": ("rtol",),
    "float_absolute_tolerance": ("atol",),
}


def _references(package: _Package, reader: RowReader) -> tuple[str, ...]:
    """The accepted submissions that are one Python file."""
    files = sorted((package.folder / "submissions" / "accepted").glob("*.py"))
    found = []
    for path in files:
        try:
            found.append(_read(package, path, 1.0))
        except Unusable as error:
            reader.left_out.append(f"submission {path.name}: {error}")
    return tuple(found)


def _read(package: _Package, path: Path, limit_mb: float) -> str:
    """The text of a file that lies in the package.

    Raises:
        Unusable: missing, no plain file (a pipe would block), a link out of the package, too large,
            or not UTF-8.
    """
    if not path.is_file():
        raise Unusable(f"{path.name} is missing or no plain file")
    place = path.resolve()
    if not any(place.is_relative_to(f.resolve()) for f in (package.folder, package.root)):
        raise Unusable(f"{path.name} is a link to a file outside the source", "hostile")
    size = path.stat().st_size / MB
    if size > limit_mb:
        raise Unusable(f"{path.name} has {size:.1f} MB, more than {limit_mb:g} MB", "oversized")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise Unusable(f"{path.name} is not UTF-8") from None
