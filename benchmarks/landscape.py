"""What the base models of mcbench/worlds can do before any arm is trained, and which bugs the base
of `repair` never fixes in 16 attempts.

    python benchmarks/landscape.py [branches] [recipes] [repair] [traces] [turns] [search] [tab]

Prints pass@1 of each base by kind (it should lie between 5 and 60 %) and what the task tells
beside; for `repair` it also writes mcbench/worlds/repair_unsolved.json, which the curriculum reads.
"""

import random
import sys
from functools import partial
from statistics import mean

from mcbench.evaluator import Evaluator
from mcbench.files import write_json
from mcbench.runs.evaluate import evaluate
from mcbench.runs.problems import load_problems, model_digest
from mcbench.runs.sampling import load_policy
from mcbench.runs.scores import cells_of
from mcbench.worlds import search, task_of
from mcbench.worlds.base import run_programs
from mcbench.worlds.nano import model_path
from mcbench.worlds.repair import UNSOLVED

BASES = {
    "branches": (("nano-branches", "branches:test", 40),),
    "recipes": (("nano-s2", "nano-balanced:test", 96),),
    "repair": (("nano-repair", "repair:test", 64),),
    "traces": (
        ("nano-traced", "traces:test", 96),
        ("nano-traced", "nano:test", 96),
        ("nano-untraced", "nano:test", 96),
    ),
    "turns": (("nano-turns", "turns:test", 128),),
    "search": (("nano-search", "search:test", 64),),
    "tab": (("nano-tab", "tab:test", 4),),
}
ATTEMPTS = 16


def main() -> None:
    with Evaluator(workers=2) as evaluator:
        for task in sys.argv[1:] or BASES:
            for model, name, length in BASES[task]:
                problems = load_problems(name)
                make = task_of(problems).environment
                (found,) = evaluate(
                    load_policy(model), problems, lengths=[length], seed=7, evaluator=evaluator,
                    environment=make and partial(make, feedback=task_of(problems).feedback[0],
                                                 training=False),
                )  # fmt: skip
                cells = cells_of(found.per_problem, "kind", "all")
                kinds = {kind: round(cell, 1) for (kind, of), cell in cells.items() if of == "all"}
                parts = {part: round(value, 3) for part, value in found.parts.items()}
                told = f"length {found.mean_length:.0f}, cut {found.truncated_share:.1%}, {parts}"
                print(f"{model} on {name}: {found.pass_at_1:.1%} {kinds} {told}", flush=True)
        if "search" in (sys.argv[1:] or BASES):
            searches(evaluator)
        if "repair" in (sys.argv[1:] or BASES):
            unsolved(evaluator)


def searches(evaluator: Evaluator) -> None:
    """What answers without a model are worth, and how many let the solver solve the problem."""
    problems, rng = load_problems("search:test"), random.Random(0)

    def lines(ranges):
        return {(path, n) for path, i, j in ranges for n in range(i, j + 1)}

    def anywhere(problem):
        files, wanted = problem.metadata["files"], lines(problem.metadata["needed"])
        every = [(path, n) for path in files for n in range(1, len(files[path]) + 1)]
        return set(rng.sample(every, len(wanted)))

    answers = {
        "all that is needed": lambda problem: lines(problem.metadata["needed"]),
        "the definition alone": lambda problem: lines(problem.metadata["needed"][:1]),
        "every line with the name": search.named,
        "as many lines at random": anywhere,
    }
    for name, answer in answers.items():
        found = [answer(problem) for problem in problems]
        programs = list(map(search.program, problems, found))
        solved = [one.passed for one in run_programs(problems, programs, evaluator)]
        scores = [search.score(*one) for one in zip(found, problems, strict=True)]
        told = {part: round(mean(one[part] for one in scores), 4) for part in scores[0]}
        print(f"{name}: {told}, solves {mean(map(float, solved)):.1%}")


def unsolved(evaluator: Evaluator) -> None:
    (found,) = evaluate(
        load_policy("nano-repair", batch_size=1024), load_problems("repair-fix:train"),
        lengths=[64], attempts=ATTEMPTS, seed=11, evaluator=evaluator,
    )  # fmt: skip
    ids = [row["id"] for row in found.per_problem if not row["passes"]]
    digest = model_digest(str(model_path("nano-repair")))
    write_json(UNSOLVED, {"model": digest, "attempts": ATTEMPTS, "ids": ids})
    print(f"pass@1 {found.pass_at_1:.1%}; {len(ids)} of {len(found.per_problem)} never fixed")


if __name__ == "__main__":
    main()
