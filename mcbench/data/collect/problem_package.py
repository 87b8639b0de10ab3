"""Problem packages of Kattis and ICPC from a folder: the legacy format and 2023-07 to 2025-09.

Specification: https://www.kattis.com/problem-package-format. A package is a folder with
problem.yaml. Nothing in it is run; its LaTeX stays LaTeX until the process stage.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from mcbench.data.audit import shorten
from mcbench.data.collect.adapter import Adapter, RowReader, texts
from mcbench.data.collect.decode import MB, Unusable, object_or_none, seconds, type_name
from mcbench.data.schema import Problem

_STATEMENT = re.compile(r"problem(?:\.([a-z]{2,3}(?:-[A-Za-z]{2})?))?\.(tex|md)")
_NO_ANSWER_FILE = {"interactive", "multi-pass", "submit-answer"}


def convert(row: dict[str, Any], reader: RowReader) -> Problem:
    """A package of type pass-fail, or scoring where full points count as passing."""
    package: Path = row["folder"]
    settings = _yaml(package, package / "problem.yaml")
    kinds = set(_words(settings.get("type"))) | set(_words(settings.get("validation")))
    if refused := sorted(kinds & _NO_ANSWER_FILE):
        raise Unusable("unsupported", f"{refused[0]}: answers cannot be compared with a file")
    language, statement = _statement(package)
    checker, checker_language = _checker(package, kinds)
    flags = _words(settings.get("validator_flags"))
    for part in ("sample", "secret"):
        _add_tests(reader, package, package / "data" / part, flags)
    limits = object_or_none(settings.get("limits"))
    source = settings.get("source")
    source = source[0] if isinstance(source, list) and source else source
    url = source.get("url") if isinstance(source, dict) else settings.get("source_url")
    name = settings.get("name")
    name = (name.get(language) or name.get("en")) if isinstance(name, dict) else name
    return reader.record(
        row["name"] if row["name"] != "." else package.resolve().name,
        {
            "title": _text(name),
            "contest": _text(source.get("name") if isinstance(source, dict) else source),
            "type": " ".join(sorted(kinds)),
            "package_licence": _text(settings.get("license")),
            "checker_protocol": "icpc" if checker else None,
        },
        statement=statement,
        checker=checker,
        checker_language=checker_language,
        time_limit_s=_time_limit(package, limits),
        memory_limit_mb=_number(limits.get("memory")),
        url=_text(url),
        language=language,
        tags=tuple(_words(settings.get("keywords"))),
        references=_references(package, reader),
    )


def _yaml(package: Path, path: Path) -> dict[str, Any]:
    text = _read(package, path, 1.0) if path.is_file() else ""
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Unusable("malformed", f"{path.name} is no YAML ({shorten(str(error))})") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise Unusable("malformed", f"{path.name} should be a map, found {type_name(data)}")
    return data


def _text(value: Any) -> str:
    """Text, and nothing else: YAML can hold a list of lists that is endless when written out."""
    return value if isinstance(value, str) else ""


def _words(value: Any) -> list[str]:
    """The words of a text or of a list of texts."""
    return value.split() if isinstance(value, str) else list(texts(value))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def _time_limit(package: Path, limits: dict[str, Any]) -> float | None:
    """From problem.yaml (2023-07 on), Kattis' .timelimit or DOMjudge's domjudge-problem.ini."""
    if limits.get("time_limit"):
        return _number(limits["time_limit"])
    plain = package / ".timelimit"
    if plain.is_file():
        return seconds(_read(package, plain, 1.0).strip())
    judge = package / "domjudge-problem.ini"
    if judge.is_file():
        match = re.search(r"^\s*timelimit\s*=\s*['\"]?([\d.]+)", _read(package, judge, 1.0), re.M)
        return seconds(match[1]) if match else None
    return None


def _statement(package: Path) -> tuple[str, str]:
    """Language and text of the statement; the English one where there are several."""
    found: dict[str, Path] = {}
    for folder in ("statement", "problem_statement"):
        for path in sorted((package / folder).glob("problem*")):
            if match := _STATEMENT.fullmatch(path.name):
                found.setdefault(match[1] or "en", path)
    if not found:
        raise Unusable("unsupported", "no statement in LaTeX or Markdown (perhaps only a PDF)")
    language = "en" if "en" in found else sorted(found)[0]
    text = _read(package, found[language], 8.0)
    if not text.strip():
        raise Unusable("malformed", "the statement is empty")
    return language.partition("-")[0], text


def _checker(package: Path, kinds: set[str]) -> tuple[str, str]:
    """Source and language of the output validator, where the package brings one.

    Raises:
        Unusable: it is no single file in Python or C++.
    """
    folders = [package / name for name in ("output_validator", "output_validators")]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    if not files:
        if "custom" in kinds:
            raise Unusable("malformed", "validation is custom, but there is no output validator")
        return "", ""
    languages = {".py": "python", ".cpp": "c++", ".cc": "c++"}
    sources = [path for path in files if path.suffix in languages]
    if len(sources) != 1:
        raise Unusable("unsupported", "its output validator is not one file in Python or C++")
    return _read(package, sources[0], 1.0), languages[sources[0].suffix]


def _add_tests(reader: RowReader, package: Path, folder: Path, flags: list[str]) -> None:
    """The tests of a data folder and of the groups below it; a group's flags replace the outer."""
    if not folder.is_dir():
        return
    for name in ("testdata.yaml", "test_group.yaml"):
        settings = _yaml(package, folder / name)
        own = settings.get("output_validator_flags", settings.get("output_validator_args"))
        flags = _words(own) if own else flags
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.suffix != ".files":
            _add_tests(reader, package, path, flags)
        elif path.suffix == ".in":
            _add_test(reader, package, path, _options(flags))


def _add_test(reader: RowReader, package: Path, path: Path, options: dict[str, Any]) -> None:
    name = path.relative_to(package / "data").with_suffix("").as_posix()
    needs = [suffix for suffix in (".args", ".files") if path.with_suffix(suffix).exists()]
    if needs:
        reader.left_out.append(f"test {name}: needs {needs[0]}, not only standard input")
        return
    try:
        stdin = _read(package, path, reader.limits.test_mb)
        expected = _read(package, path.with_suffix(".ans"), reader.limits.test_mb)
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
        try:
            tolerance = float(value)
        except ValueError:
            continue
        if name in ("float_tolerance", "float_relative_tolerance"):
            options["rtol"] = tolerance
        if name in ("float_tolerance", "float_absolute_tolerance"):
            options["atol"] = tolerance
    return options


def _references(package: Path, reader: RowReader) -> tuple[str, ...]:
    """The accepted submissions that are one Python file."""
    files = sorted((package / "submissions" / "accepted").glob("*.py"))
    found = []
    for path in files:
        try:
            found.append(_read(package, path, 1.0))
        except Unusable as error:
            reader.left_out.append(f"submission {path.name}: {error}")
    return tuple(found)


def _read(package: Path, path: Path, limit_mb: float) -> str:
    """The text of a file that lies in the package.

    Raises:
        Unusable: missing, no plain file (a pipe would block), a link out of the package, too large,
            or not UTF-8.
    """
    if not path.is_file():
        raise Unusable("malformed", f"{path.name} is missing or no plain file")
    if not path.resolve().is_relative_to(package.resolve()):
        raise Unusable("hostile", f"{path.name} is a link to a file outside the package")
    size = path.stat().st_size / MB
    if size > limit_mb:
        raise Unusable("oversized", f"{path.name} has {size:.1f} MB, more than {limit_mb:g} MB")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise Unusable("malformed", f"{path.name} is not UTF-8") from None


PROBLEM_PACKAGE = Adapter(
    name="problem-package",
    about="Kattis/ICPC packages in a folder (https://www.kattis.com/problem-package-format)",
    subsets={"": ()},
    needs=(),
    convert=convert,
)
