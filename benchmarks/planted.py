"""A pool with known defects: what every stage of the pipeline ought to find is written down.

The pool for measuring precision and recall. A record is planted with one defect or none; `TRUTH`
says which stage has to drop it (or, for what can be repaired, bring back the clean record).
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mcbench.data.config import STAGES
from mcbench.data.schema import Problem
from mcbench.data.storage import iter_dataset
from mcbench.errors import UserError, unknown

_TRUTH = (
    ("process", "repair", "mojibake html noise spaces"),
    ("process", "drop", "cut_off empty"),
    ("filter", "drop", "foreign short repetitive irrelevant"),
    ("filter", "drop", "few_tests contradictory_tests"),
    ("dedup", "drop", "copy reworded_copy"),
    ("decontaminate", "drop", "contaminated"),
    ("verify", "drop", "wrong_reference"),
    ("verify", "drop_test", "broken_test"),
    ("verify", "drop", "constant"),
)
TRUTH = {name: (stage, action) for stage, action, names in _TRUTH for name in names.split()}
"""Defect -> the stage that has to act, and what it has to do."""
FEW = 2  # tests that "few_tests" leaves, at most


@dataclass(frozen=True)
class Pool:
    """Records in random order, the evaluation set, and the truth.

    ``defects``: record id -> defect, for planted ones. ``clean``: record id -> the record as it
    has to come out, for those that can be repaired or lose a test. ``pairs``: copy -> original.
    """

    records: tuple[Problem, ...]
    evaluation: tuple[Problem, ...]
    defects: dict[str, str]
    clean: dict[str, Problem]
    pairs: dict[str, str]

    def dropped_by(self, stage: str) -> set[str]:
        """Ids that a stage has to drop. Of a pair of copies the original counts, too."""
        return {i for i, d in self.defects.items() if TRUTH[d] == (stage, "drop")}


def plant(
    clean: Iterable[Problem], share: float = 0.02, seed: int = 0, defects: Sequence[str] = ()
) -> Pool:
    """Plant each defect in ``share`` of the records.

    Copies are added to the pool; for the other defects a record is changed in place.

    Args:
        clean: records without defects. The references of those that get "wrong_reference" print
            their answer.
        share: of the records, for each defect.
        seed: of the choice.
        defects: which ones; all when empty.

    Raises:
        UserError: an unknown defect, or more defects than records.
    """
    rng = random.Random(f"plant-{seed}")
    records = list(clean)
    names = list(defects) or list(TRUTH)
    if strange := sorted(set(names) - TRUTH.keys()):
        raise unknown("defect", strange[0], TRUTH)
    each = max(round(share * len(records)), 1)
    if each * len(names) > len(records):
        raise UserError(f"{each} records for each of {len(names)} defects are more than there are")
    order = list(range(len(records)))
    rng.shuffle(order)
    pool = Pool((), (), {}, {}, {})
    evaluation: list[Problem] = []
    for name in names:
        for _ in range(each):
            number = order.pop()
            record = records[number]
            if name in ("copy", "reworded_copy"):
                copy = DEFECTS[name](replace(record, id=f"{record.id}-{name}"), rng)
                records.append(copy)
                pool.pairs[copy.id] = record.id
                pool.defects[copy.id] = name
                continue
            if name == "mojibake":  # needs something to damage
                text = record.statement.replace("and", "and – it’s true –", 1)
                record = replace(record, statement=text)
            if name == "contaminated":
                evaluation.append(replace(record, id=f"evaluation/{record.id}"))
            pool.clean[record.id] = record
            records[number] = DEFECTS[name](record, rng)
            if name == "broken_test":  # what is right about it is all the rest
                left = [test for test in record.tests if test in records[number].tests]
                pool.clean[record.id] = replace(record, tests=tuple(left))
            pool.defects[record.id] = name
    rng.shuffle(records)
    return replace(pool, records=tuple(records), evaluation=tuple(evaluation))


# Statements --------------------------------------------------------------------------------------


def _mojibake(record: Problem, rng: random.Random) -> Problem:
    """UTF-8 read as Windows-1252, with invisible characters."""
    text = record.statement.encode().decode("cp1252", "ignore")
    return replace(record, statement="\ufeff" + text.replace(" ", " \u200b", 2))


def _html(record: Problem, rng: random.Random) -> Problem:
    text = record.statement.replace("≤", "&le;")
    paragraphs = "".join(f"<p>{p}</p>\n" for p in text.strip().split("\n\n"))
    return replace(record, statement=f"<div class='statement'>{paragraphs}</div>")


def _noise(record: Problem, rng: random.Random) -> Problem:
    before = "Source: https://judge.example.org/problem/17\n"
    after = "\nAccepted: 1,204\nSubmissions: 3,991\nhttps://judge.example.org/discuss\n"
    return replace(record, statement=before + record.statement + after)


def _spaces(record: Problem, rng: random.Random) -> Problem:
    text = record.statement.replace("\n", "   \r\n").replace("\r\n   \r\n", "\r\n\r\n\r\n\r\n")
    return replace(record, statement=text)


def _cut_off(record: Problem, rng: random.Random) -> Problem:
    text = record.statement.rstrip()
    end = text.rfind(" the ") if " the " in text else 2 * len(text) // 3
    return replace(record, statement=text[:end] + " the")


def _empty(record: Problem, rng: random.Random) -> Problem:
    texts = ("  \n", "Problem statement is not available.", "***", "[deleted]")
    return replace(record, statement=rng.choice(texts))


_FOREIGN = (
    "Дан список из n целых чисел. Прибавьте к каждому числу {k}, затем отсортируйте список по "
    "возрастанию и выведите сумму первых чисел. В первой строке записано число n, во второй "
    "строке записаны сами числа через пробел. Ответ выведите одним числом.",
    "给定一个包含 n 个整数的列表。将每个数加上 {k}，然后按升序排列，输出前几个数的总和。第一行"
    "包含 n，第二行包含 n 个整数，用空格分隔。请输出一个整数作为答案。",
    "Se da una lista de n números enteros. Sume {k} a cada uno de ellos, ordene la lista de menor "
    "a mayor y muestre la suma de los primeros elementos. La primera línea contiene n y la segunda "
    "línea contiene los números separados por espacios. La respuesta es un solo número.",
)


def _foreign(record: Problem, rng: random.Random) -> Problem:
    return replace(record, statement=rng.choice(_FOREIGN).format(k=rng.randint(2, 99)), language="")


def _short(record: Problem, rng: random.Random) -> Problem:
    return replace(record, statement=f"Read n numbers, or {rng.randint(1, 10**6)}.\n")


def _repetitive(record: Problem, rng: random.Random) -> Problem:
    word = rng.choice(("print", "number", "input", "value"))
    text = f"Read the {word} and print the {word}. " * 12
    return replace(record, statement=f"{text}{rng.randint(1, 10**6)}\n")


_IRRELEVANT = (
    "Write an SQL query to report the names of all customers in {place}. Table: orders.",
    "This is an interactive problem. You may ask at most {k} queries about {place}.",
    "Write a program in Haskell that does so for the {k} people of {place}.",
    "Write a bash script that counts the words of all files below the folder {place}. {k}",
)


def _irrelevant(record: Problem, rng: random.Random) -> Problem:
    text = rng.choice(_IRRELEVANT).format(
        place=f"town {rng.randint(1, 10**6)}", k=rng.randint(5, 50)
    )
    story = record.statement.split(". ")[0]
    return replace(record, statement=f"{story}. {text}\n")


# Tests -------------------------------------------------------------------------------------------


def _another(answer: Any) -> Any:
    """An answer that is not this one."""
    if isinstance(answer, str):
        return f"{int(answer) + 1}\n" if re.fullmatch(r"-?\d+\s*", answer) else f"{answer}1\n"
    return answer + 1 if type(answer) is int else [answer, 1]


def _few_tests(record: Problem, rng: random.Random) -> Problem:
    return replace(record, tests=record.tests[: rng.randint(0, FEW)])


def _contradictory_tests(record: Problem, rng: random.Random) -> Problem:
    other = tuple({**test, "expected": _another(test["expected"])} for test in record.tests)
    return replace(record, tests=record.tests + other)


# Copies ------------------------------------------------------------------------------------------


def _copy(record: Problem, rng: random.Random) -> Problem:
    return replace(record, references=(), statement=record.statement.replace("\n\n", "\n"))


_SYNONYMS = (("wants to know", "would like to know"), ("print", "output"), ("Then", "Afterwards"),
             ("holds", "contains"), ("values", "numbers"), ("entries", "elements"),
             ("First", "To begin with"), ("integers", "whole numbers"))  # fmt: skip


def _reworded_copy(record: Problem, rng: random.Random) -> Problem:
    """Two words exchanged, other case and punctuation, a sentence more; half of the tests."""
    text = record.statement
    usable = [pair for pair in _SYNONYMS if pair[0] in text]
    for old, new in rng.sample(usable, min(2, len(usable))):
        text = text.replace(old, new, 1)
    text = text.replace(". ", " - ") if rng.random() < 0.5 else text.upper()
    kept = record.tests[: (len(record.tests) + 1) // 2 + 1]
    return replace(record, references=(), statement=f"Practice task.\n{text}", tests=kept)


def _contaminated(record: Problem, rng: random.Random) -> Problem:
    """Other numbers and other case than in the evaluation set."""
    text = re.sub(r"\d+", lambda m: str(int(m[0]) + rng.randint(1, 9)), record.statement)
    text = text.upper() if rng.random() < 0.5 else text.lower()
    return replace(record, statement=text.replace("\n\n", "\n"))


# References and what they judge ------------------------------------------------------------------


def _wrong_reference(record: Problem, rng: random.Random) -> Problem:
    code = record.references[0]
    head, _, tail = code.rpartition("print(")
    return replace(record, references=(f"{head}print(7919 + {tail}",))


def needs_program(tests: Sequence[Mapping[str, Any]]) -> bool:
    """Whether neither one answer nor the input itself passes all of the tests."""
    given = [test["stdin"] if "stdin" in test else next(iter(test["args"]), None) for test in tests]
    answers = [test["expected"] for test in tests]
    echo = all(str(a).strip() == str(b).strip() for a, b in zip(given, answers, strict=True))
    return not echo and len({str(answer).strip() for answer in answers}) > 1


def _broken_test(record: Problem, rng: random.Random) -> Problem:
    """One that can be spared, so that the others are worth keeping."""
    tests = list(record.tests)
    everywhere = range(len(tests))
    spared = [i for i in everywhere if needs_program(tests[:i] + tests[i + 1 :])]
    number = rng.choice(spared or everywhere)
    tests[number] = {**tests[number], "expected": _another(tests[number]["expected"])}
    return replace(record, tests=tuple(tests))


def _constant(record: Problem, rng: random.Random) -> Problem:
    value = rng.randint(1, 99)
    if record.form == "call":
        code = f"class Solution:\n    def {record.fn_name}(self, *given):\n        return {value}\n"
        tests = tuple({**test, "expected": value} for test in record.tests)
        return replace(record, references=(code,), tests=tests)
    code = re.sub(r"print\(.*\)\n$", f"print(0 * len(str(0)) + {value})\n", record.references[0])
    tests = tuple({**test, "expected": f"{value}\n"} for test in record.tests)
    return replace(record, references=(code,), tests=tests)


Plant = Callable[[Problem, random.Random], Problem]
DEFECTS: dict[str, Plant] = {name: globals()[f"_{name}"] for name in TRUTH}
"""Defect -> what plants it; a defect of your own is added here and in `TRUTH`."""


def content(record: Problem) -> str:
    """Statement and tests without layout, to compare a repaired record with the clean one."""
    tests: list[Any] = [dict(sorted(test.items())) for test in record.tests]
    return json.dumps([" ".join(record.statement.split()), tests])


# Precision and recall -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """How one stage did: ``found`` of ``planted`` defects, and ``wrong`` ones it saw elsewhere."""

    stage: str
    planted: int
    found: int
    wrong: int

    @property
    def precision(self) -> float:
        """Found / all that the stage acted on; 1 where it did nothing."""
        return self.found / (self.found + self.wrong) if self.found + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Found / planted; 1 where nothing was planted."""
        return self.found / self.planted if self.planted else 1.0


def score(pool: Pool, out: Path) -> list[Score]:
    """One score per stage for a set built from a pool.

    A defect that calls for dropping is found when its stage dropped the record (of two copies:
    either one). One that can be repaired is found when the record of the finished set as it
    was before (without the test that was broken); one that another stage dropped by mistake counts
    against that stage only.
    """
    log = pq.read_table(out / "audit.parquet").to_pylist()
    dropped = {r["record"]: r["stage"] for r in log if r["action"] == "drop"}
    final = {record.id: record for record in iter_dataset(out)}
    originals = {original: copy for copy, original in pool.pairs.items()}
    scores = []
    for stage in STAGES:
        if stage == "difficulty":  # drops nothing that is wrong
            continue
        planted = pool.dropped_by(stage)
        acted = {record for record, by in dropped.items() if by == stage}
        if stage == "dedup":
            acted = {originals.get(record, record) for record in acted}
        repairs = [
            name
            for name, defect in pool.defects.items()
            if TRUTH[defect][0] == stage and TRUTH[defect][1] != "drop" and name in final
        ]
        restored = sum(content(final[name]) == content(pool.clean[name]) for name in repairs)
        scores.append(
            Score(
                stage,
                planted=len(planted) + len(repairs),
                found=len(planted & acted) + restored,
                wrong=len(acted - planted) + len(repairs) - restored,
            )
        )
    return scores
