"""What the rollout of several turns costs outside the model and the environment's tests and tools.

    python benchmarks/multi_turn.py [--check] [--output FILE]

Plays generations of 128 episodes with the base models of attempts and of searches, in turn, and
prints the median seconds of each part; with --check it fails where the rest is more than a tenth.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median

from mcbench.evaluator import Evaluator
from mcbench.runs.problems import load_problems
from mcbench.runs.rollout import evaluation_episodes
from mcbench.runs.sampling import load_policy
from mcbench.worlds import TASKS
from mcbench.worlds.multi_turn import Played, play

MOST, ROUNDS = 0.1, 3
BUDGETS = {"turns": 128, "search": 64}


def generation(task: str, policy, evaluator: Evaluator) -> Played:
    told = TASKS[task].feedback[0]
    environment = TASKS[task].environment(evaluator, told, True, TASKS[task].rewards[-1])
    problems = [one for one in load_problems(f"{task}:train")[:16] for _ in range(8)]

    def sample(contexts, limit):
        return [(ids, [], []) for ids in policy.sampler(contexts, limit, 1.0, len(contexts))]

    return play(environment, problems, sample, policy.tokenizer, BUDGETS[task])


def measure() -> dict[str, dict[str, float]]:
    policies = {task: load_policy(f"nano-{task}") for task in BUDGETS}
    found = {task: [] for task in BUDGETS}
    with Evaluator(workers=2) as evaluator:
        for task, policy in policies.items():
            environment = TASKS[task].environment(evaluator, TASKS[task].feedback[0], True)
            problems = load_problems(f"{task}:train")[:8]
            evaluation_episodes(policy, environment, problems, 32, 1.0, 0)  # warm
        for _ in range(ROUNDS):
            for task, policy in policies.items():
                found[task].append(generation(task, policy, evaluator))
    told = {}
    for task, rounds in found.items():
        seconds = {part: median(one.seconds[part] for one in rounds) for part in rounds[0].seconds}
        turns = sum(len(one.turns) for one in rounds[0].episodes)
        share = median(one.seconds["rest"] / sum(one.seconds.values()) for one in rounds)
        told[task] = {
            "episodes": len(rounds[0].episodes),
            "turns": turns,
            **seconds,
            "share": share,
        }
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = measure()
    for task, one in found.items():
        print(f"{task}: {', '.join(f'{name} {value:.3g}' for name, value in one.items())}")
    if options.output:
        options.output.write_text(json.dumps(found, indent=2) + "\n")
    return int(options.check and max(one["share"] for one in found.values()) > MOST)


if __name__ == "__main__":
    sys.exit(main())
