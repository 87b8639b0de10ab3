"""The index's section on other systems: what each adds, and what it showed on its nano task."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mcbench.claims import CLAIMS
from mcbench.report.claims import Results, numbers, place_of
from mcbench.report.page import Link, Section, Table


@dataclass(frozen=True)
class System:
    """A published system: its source, what it adds, and the claims that say so here."""

    name: str
    source: str
    adds: str
    claims: tuple[str, ...]


SYSTEMS = (
    System(
        "SWE-RL",
        "arXiv 2502.18449",
        "patches rewarded by their similarity to the true one, without running anything",
        ("S1",),
    ),
    System(
        "Kimi-Dev",
        "arXiv 2509.23045",
        "one model fixes bugs and writes tests; a curriculum; tests choose the patch",
        ("S2", "S3", "S4"),
    ),
    System(
        "CWM",
        "arXiv 2510.02387",
        "a base trained to predict what programs do, frame by frame, before reinforcement",
        ("X1", "X2"),
    ),
    System("CodeRL", "arXiv 2207.01780", "four outcomes, credited to tokens by a critic", ("V1",)),
    System("RLTF", "arXiv 2307.04349", "blame on the line that broke", ("V2",)),
    System("PPOCoder", "arXiv 2301.13816", "likeness to the reference, adaptive KL", ("V3", "V4")),
    System(
        "StepCoder", "arXiv 2402.01391", "prefixes that shrink, unexecuted lines masked", ("V5",)
    ),
    System(
        "DeepCoder",
        "Luo et al. 2025",
        "difficulty filter, cut answers masked, growing limit",
        ("W1",),
    ),
    System(
        "Polaris",
        "An et al. 2025",
        "T by diversity, solved prompts and flat groups replaced",
        ("W2",),
    ),
    System("SRPO", "arXiv 2504.14286", "long searches first; history resampling", ("W3",)),
    System("DAPO", "arXiv 2503.14476", "dynamic sampling, soft overlong punishment", ("W4",)),
    System("MicroCoder-GRPO", "arXiv 2603.07777", "the paper's own recipe beside them", ("W5",)),
    System(
        "RLEF",
        "arXiv 2410.02089",
        "three attempts at a program, each told which public test the last one failed",
        ("F1",),
    ),
    System(
        "SkyRL",
        "arXiv 2511.16108",
        "asynchronous rollouts: episodes sampled by weights that are some generations old",
        ("F2",),
    ),
    System(
        "SWE-grep",
        "cognition.ai/blog/swe-grep",
        "a sub-agent that finds files and lines in few turns of parallel searches",
        ("F3", "F4"),
    ),
    System(
        "Cursor Tab",
        "cursor.com/blog/tab-rl",
        "suggest or stay silent, learned online from what users accept",
        ("A1", "A2", "A3", "A4", "A5"),
    ),
)


def landscape_section(results: Results) -> Section:
    """A row for every system and claim, with the state that the committed runs give it."""
    rows = []
    for system in SYSTEMS:
        for name in system.claims:
            claim = CLAIMS[name]
            found = results.get(name)
            told = {"State": found.state if found else "not run"}
            if found and found.parts:
                told |= numbers(found.effect, *found.interval, found.unit)
            rows.append(
                {
                    "System": system.name,
                    "Source": system.source,
                    "Adds": system.adds,
                    "Claim": Link(f"{name}: {claim.claim}", place_of(claim)),
                    **told,
                    "Seeds": str(found.n_seeds) if found else "–",
                }
            )
    return Section(
        "landscape",
        "The landscape",
        "Other systems' tasks and rewards, each on a small task from the one generator, beside a "
        "control that could beat it. What is decided otherwise, or not at all, did not beat its "
        "control here; what no runs are there for says so.",
        [Table(pd.DataFrame(rows))],
    )
