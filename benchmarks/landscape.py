"""What the base models of mcbench/worlds can do before any arm is trained, and which bugs the base
of `repair` never fixes in 16 attempts.

    python benchmarks/landscape.py [TASK ...]

Prints pass@1 of each base by kind (it should lie between 5 and 60 %) and what the task tells
beside; for `self-play` what becomes of the base's injections; for `repair` it also writes
mcbench/worlds/repair_unsolved.json, which the curriculum reads.
"""

import random
import sys
from collections import Counter
from functools import partial
from statistics import mean

from mcbench.evaluator import Evaluator
from mcbench.files import write_json
from mcbench.runs.evaluate import evaluate
from mcbench.runs.problems import load_problems, model_digest
from mcbench.runs.sampling import load_policy
from mcbench.runs.scores import cells_of
from mcbench.worlds import search, self_play, task_of
from mcbench.worlds.base import run_programs
from mcbench.worlds.nano import model_path
from mcbench.worlds.repair import UNSOLVED

BASES = {
    "branches": (("nano-branches", "branches:test", 40),),
    "recipes": (("nano-s2", "nano-balanced:test", 96),),
    "repair": (("nano-repair", "repair:test", 64),),
    "self-play": (("nano-self-play", "self-play:test", 64),),
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
        if "self-play" in (sys.argv[1:] or BASES):
            injections(evaluator)
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


def injections(evaluator: Evaluator) -> None:
    """What becomes of the base's bugs in the programs that are trained on."""
    problems = load_problems("self-play:train")
    asked = [self_play.asked(problem) for problem in problems]
    policy = load_policy("nano-self-play", batch_size=1024)
    prompts = [problem.statement for problem in asked]
    texts = policy.texts(policy.respond(prompts, ATTEMPTS, 64, 1.0, 7, None))
    every = [problem for problem in problems for _ in range(ATTEMPTS)]
    made = self_play.posed(every, texts, evaluator)
    print(Counter(judged.verdict for _, judged in made).most_common())
    bugs = {one.statement for one, _ in made if one is not None}
    mutants = {one.statement for one in load_problems("self-play-mutants:train")}
    print(f"{len(bugs)} different bugs, of which {len(bugs & mutants)} are mutants")


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
