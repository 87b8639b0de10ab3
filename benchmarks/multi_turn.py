"""What the rollout of several turns costs outside the model and the tests.

    python benchmarks/multi_turn.py [--check]

Plays one generation of 128 episodes with the base model and prints the seconds of each; with
--check it fails where the rest is more than a tenth.
"""

import sys

from mcbench.evaluator import Evaluator
from mcbench.runs.problems import load_problems
from mcbench.runs.rollout import evaluation_episodes
from mcbench.runs.sampling import load_policy
from mcbench.tasks.multi_turn import Played, play
from mcbench.tasks.turns import Attempts

MOST = 0.1


def measured() -> Played:
    policy = load_policy("nano-turns")
    problems = [problem for problem in load_problems("turns:train")[:16] for _ in range(8)]

    def sample(contexts, limit):
        return [(ids, [], []) for ids in policy.sampler(contexts, limit, 1.0, len(contexts))]

    with Evaluator(workers=2) as evaluator:
        evaluation_episodes(policy, Attempts(evaluator), problems[:8], 32, 1.0, 0)  # warm
        return play(Attempts(evaluator), problems, sample, policy.tokenizer, 128)


def main() -> int:
    played = measured()
    seconds, whole = played.seconds, sum(played.seconds.values())
    turns = sum(len(one.turns) for one in played.episodes)
    told = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    print(f"{len(played.episodes)} episodes, {turns} turns: {told}")
    print(f"outside model and environment: {seconds['rest'] / whole:.1%}")
    return int("--check" in sys.argv and seconds["rest"] > MOST * whole)


if __name__ == "__main__":
    sys.exit(main())
