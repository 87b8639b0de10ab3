"""LiveCodeBench: public tests are JSON text, private ones base64 of zlib of a pickled JSON text,
which is parsed without unpickling (:mod:`mcbench.data.collect.decode`). Its rows are also among
DeepCoder's.
"""

from __future__ import annotations

from mcbench.data.collect.adapter import RowReader, column, text_field
from mcbench.data.collect.decode import Unusable, parse_json, type_name, unpack_pickled_json
from mcbench.data.collect.listed import Row, add_functional

# Problems that its ERRATA.md names; their scores count all the same, as on the leaderboard.
_ERRATA = {
    "errata_several_answers": (
        "abc311_c abc326_d abc327_b abc333_e abc343_e abc362_c arc185_c abc343_a "
        "find-words-containing-character find-the-peaks "
        "generate-binary-strings-without-adjacent-zeros"
    ),
    "errata_wrong_tests": (
        "abc350_c apply-operations-to-make-string-empty most-frequent-ids arc189_a"
    ),
    "errata_interactive": "abc337_e abc355_e",
}


def livecodebench_row(row: Row, reader: RowReader) -> Row:
    """All tests together, the public ones first."""
    columns = ("public_test_cases", "private_test_cases")
    tests = [test for name in columns for test in _tests_of(row, name)]
    kinds = {test.get("testtype") for test in tests}
    fn_name = ""
    if kinds == {"functional"}:
        fn_name = add_functional(reader, tests, column(row, "metadata.func_name"))
    elif kinds == {"stdin"}:
        for test in tests:
            reader.stdio(test.get("input"), test.get("output"))
    else:
        found = ", ".join(sorted(map(str, kinds))) or "no tests"
        raise Unusable("malformed", f"tests should be all stdin or all functional, found {found}")
    title = str(row.get("question_title") or "")
    known = {text_field(row, "question_id"), "-".join(title.lower().split())}
    flags = tuple(flag for flag, problems in _ERRATA.items() if known & set(problems.split()))
    return {"fn_name": fn_name, "flags": flags, "language": "en"}


def _tests_of(row: Row, name: str) -> list[Row]:
    text = row.get(name)
    if not isinstance(text, str):
        raise Unusable("malformed", f"{name} should be text, found {type_name(text)}")
    read = parse_json if text.lstrip()[:1] == "[" else unpack_pickled_json
    tests = read(text, name)
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise Unusable("malformed", f"{name} should hold a list of objects")
    return tests
