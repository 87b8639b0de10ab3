"""What the base models of mcbench/tasks can do before any arm is trained, and which bugs the base
of `repair` never fixes in 16 attempts.

    python benchmarks/landscape.py [branches] [recipes] [repair] [traces] [turns] [tab]

Prints pass@1 of each base by kind (it should lie between 5 and 60 %) and what the task tells
beside; for `repair` it also writes mcbench/tasks/repair_unsolved.json, which the curriculum reads,
and for `recipes` mcbench/nano/solvable.json: how often nano-s2 solves what `nano-steady` trains on.
"""

import json
import sys
from functools import partial

from mcbench.evaluator import Evaluator
from mcbench.experiments.graded_sets import REGIME, measure_pass_rates
from mcbench.files import write_json
from mcbench.nano import model_path
from mcbench.nano.graded import SOLVABLE_FILE
from mcbench.runs.evaluate import evaluate
from mcbench.runs.problems import load_problems, model_digest
from mcbench.runs.sampling import load_policy
from mcbench.tasks import task_of
from mcbench.tasks.repair import UNSOLVED

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
    "tab": (("nano-tab", "tab:test", 4),),
}
ATTEMPTS = 16
SOLVED_OF = 8


def main() -> None:
    with Evaluator(workers=2) as evaluator:
        for task in sys.argv[1:] or BASES:
            for model, name, length in BASES[task]:
                problems = load_problems(name)
                make = task_of(problems).environment
                (found,) = evaluate(
                    load_policy(model), problems, lengths=[length], seed=7, evaluator=evaluator,
                    environment=make and partial(make, feedback="failing", training=False),
                )  # fmt: skip
                kinds = {kind[0]: round(100 * rate, 1) for kind, rate in found.by("kind").items()}
                parts = {part: round(value, 3) for part, value in found.parts.items()}
                told = f"length {found.mean_length:.0f}, cut {found.truncated_share:.1%}, {parts}"
                print(f"{model} on {name}: {found.pass_at_1:.1%} {kinds} {told}", flush=True)
        if "repair" in (sys.argv[1:] or BASES):
            unsolved(evaluator)
        if "recipes" in (sys.argv[1:] or BASES):
            solvable()


def solvable() -> None:
    problems = load_problems("nano-balanced:train")
    digest, passes = measure_pass_rates(problems, 0, REGIME, SOLVED_OF)
    counts = "".join(str(passes[problem.id]) for problem in problems)
    found = {"model": digest, "attempts": SOLVED_OF, "passes": counts}
    SOLVABLE_FILE.write_text(json.dumps(found, indent=0) + "\n")
    never, always = (counts.count(str(n)) for n in (0, SOLVED_OF))
    print(f"{len(counts)} problems, {never} never and {always} always solved")


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
