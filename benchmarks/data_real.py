"""What the pipeline does to published rows: the figures, and samples for a person to judge.

    python benchmarks/data_real.py FOLDER... [--output benchmarks/data_real.json]

The folders hold files of published sets under their published names (`mcbench data sources`);
sources cannot be redistributed, so whatever is there is taken. For each source: what every rule
dropped or flagged, with samples; the share of first references that get reward 1 as the trainer
judges them; near-duplicates, with samples; and decontamination against rewordings of its own
statements. Figures of the sources that were there before are compared with the committed ones;
these hold counts only, no text, and keep those of the sources that are not there now.
"""

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mcbench.data.collect import ADAPTERS, OpenSource, Source
from mcbench.data.decontaminate import Decontaminate, DecontaminateConfig, Index
from mcbench.data.dedup import Dedup
from mcbench.data.filter import Filter
from mcbench.data.judge import Judge
from mcbench.data.process import Process
from mcbench.data.programs import is_python, missing_module
from mcbench.data.schema import Problem
from mcbench.errors import UserError
from mcbench.evaluator import Evaluator

COMMITTED = Path(__file__).with_suffix(".json")
REWORDED = 100  # statements of a source that are planted in other words
_PART = re.compile(r"-[iv]+$")
TIME_LIMIT_S = 4.0  # of the verification, where a problem states none
# Common words of statements and others that say the same.
WORDS = {
    "given": "you receive", "return": "give back", "print": "output", "find": "determine",
    "write": "create", "function": "routine", "number": "value", "integer": "whole number",
    "array": "sequence", "list": "sequence", "string": "text", "elements": "items", "each": "every",
    "check": "decide", "maximum": "largest", "minimum": "smallest", "input": "data",
}  # fmt: skip


def read(folders: list[Path]) -> dict[str, tuple[list[Problem], Counter]]:
    """The problems of every source that the folders hold, and how many rows a rule refused."""
    found: dict[str, tuple[list[Problem], Counter]] = {}
    for adapter in ADAPTERS.values():
        problems: dict[str, Problem] = {}
        refused: Counter = Counter()
        for folder in folders:
            for subset in adapter.subsets:
                try:
                    opened = OpenSource(
                        Source(adapter=adapter.name, path=str(folder), subset=subset)
                    )
                    for item in opened.items():
                        if isinstance(item.value, Problem):
                            problems.setdefault(item.value.id, item.value)
                        else:
                            refused[item.value.rule] += 1
                except UserError:
                    continue  # none of its files there
        if problems:
            found[adapter.name] = list(problems.values()), refused
    return found


def rules(problems: list[Problem], samples: int) -> dict[str, int]:
    """What process and filter drop or flag, by rule; shows samples."""
    kept, changes = Process().run(problems)
    _, log = Filter().run(kept)
    entries = defaultdict(list)
    for entry in [*changes, *log]:
        if entry.action in ("drop", "flag"):
            entries[f"{entry.stage}/{entry.rule} {entry.action}"].append(entry)
    for name, found in sorted(entries.items()):
        print(f"  {name}: {len(found)}")
        for entry in random.Random(0).sample(found, min(samples, len(found))):
            print(f"      {entry.record}: {entry.detail[:120]}")
    return {name: len(found) for name, found in sorted(entries.items())}


def references(problems: list[Problem], samples: int, workers: int) -> dict[str, int]:
    """First references that parse, through the reward."""
    given, lacking = [], 0
    for problem in problems:
        programs = [code for code in problem.references if is_python(code)]
        if not programs or problem.unjudged():
            continue
        if missing_module(f"{problem.preamble}\n{programs[0]}"):
            lacking += 1
        else:
            given.append((problem, programs[0]))
    with Evaluator(workers) as evaluator:
        jobs = [problem.submission(code, TIME_LIMIT_S) for problem, code in given]
        results = Judge(evaluator).results(jobs, early_exit=True)
    pairs = zip(given, results, strict=True)
    failed = [(p, result.tests[-1]) for (p, _), result in pairs if not result.passed]
    for problem, end in failed[:samples]:
        print(f"      {problem.id}: {end.verdict} {end.message[:100]}")
    rewarded = len(given) - len(failed)
    return {"references": len(given), "rewarded": rewarded, "module_missing": lacking}


def duplicates(problems: list[Problem], samples: int) -> dict[str, int]:
    """Problems that the stage calls copies; shows samples."""
    by_id = {problem.id: problem for problem in problems}
    stage = Dedup()
    decided = stage.decide(stage.summarise(problems))
    dropped = {i: d.notes[0][2] for i, d in decided.items() if d.notes[0][0] == "drop"}
    for name in random.Random(0).sample(sorted(dropped), min(samples, len(dropped))):
        other = by_id[dropped[name].rpartition(" similar to ")[2]]
        print(f"      {dropped[name]}")
        for problem in (by_id[name], other):
            print(f"        {problem.id}: {' '.join(problem.statement.split())[:100]}")
    return {"near_duplicates": len(dropped)}


def contamination(problems: list[Problem], samples: int) -> dict[str, int]:
    """Rewordings of some statements that are found, and other problems that are taken for them.

    Of these, parts I and II of one problem are counted apart: they share function and answers.
    Shows all others, which may be the same task after all.
    """
    stage = Dedup()
    decided = stage.decide(stage.summarise(problems))
    single = [p for p in problems if not decided.get(p.id)]
    chosen = random.Random(1).sample(single, min(REWORDED, len(single) // 2))
    names = {problem.id for problem in chosen}
    pool = [replace(p, statement=reworded(p.statement)) if p.id in names else p for p in single]
    config = DecontaminateConfig()
    check = Decontaminate(Index.build(chosen, config), config)
    found = check.decide(check.summarise(pool))
    hit = {name: d.notes[0][2] for name, d in found.items() if d.notes[0][0] == "drop"}
    parts = Counter(_PART.sub("", name) for name in names)
    others = sorted(hit.keys() - names)
    false = [name for name in others if not parts[_PART.sub("", name)]]
    for name in false[: 4 * samples]:
        print(f"      {name}: {hit[name][:200]}")
    return {
        "reworded": len(names),
        "found": len(hit.keys() & names),
        "other_parts": len(others) - len(false),
        "false_hits": len(false),
    }


def reworded(text: str) -> str:
    """Every common word exchanged, and the first sentences in another order."""
    head, gap, rest = text.partition("\n\n")
    sentences = head.split(". ")
    head = ". ".join(sentences[1:] + sentences[:1]) if len(sentences) > 2 else head
    words = (head + gap + rest).split(" ")
    return " ".join(WORDS.get(word.lower(), word) for word in words)


def main() -> None:
    """Measure, print, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    before = json.loads(COMMITTED.read_text()) if COMMITTED.exists() else {}
    figures = {}
    for name, (problems, refused) in read(options.folders).items():
        print(f"{name}: {len(problems)} problems, refused {dict(refused)}")
        about: dict[str, object] = {"problems": len(problems), "refused": dict(refused)}
        about["rules"] = rules(problems, options.samples)
        about |= references(problems, options.samples, options.workers)
        about |= duplicates(problems, options.samples)
        about |= contamination(problems, options.samples)
        figures[name] = about
        told = {key: value for key, value in about.items() if isinstance(value, int)}
        print("  " + ", ".join(f"{key} {value}" for key, value in told.items()))
        if name in before and before[name] != about:
            print(f"  committed: {json.dumps(before[name])}")
    if not figures:
        sys.exit("none of the folders holds a file that is read; see mcbench data sources")
    if options.output:
        kept = json.loads(options.output.read_text()) if options.output.exists() else {}
        told = json.dumps(kept | figures, indent=1, sort_keys=True)
        options.output.write_text(told + "\n")


if __name__ == "__main__":
    main()
