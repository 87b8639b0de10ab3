"""MicroCoder-Dataset: from published problems to a verified set, in four stages.

    collect -> process -> filter -> verify          (§3 of the paper)

What travels is a `Problem` (`mcbench.data.schema`): everything a source says about it, complete or
not. Training and evaluation use the same type.

- `collect`: adapters yield `Problem | Rejected` from sources as they are published.
- `process`: repairs, converts and normalises text; every change is recorded with its rule.
- `filter`, `dedup`, `decontaminate`: rules that drop records or tests, each with its reason.
- `verify`: runs reference solutions, trivial programs and mutants through the evaluator.
- `difficulty`: predict -> calibrate -> select, over five weighted dimensions that are ours.

A stage is a function of a batch of records. `pipeline` runs stages over parquet shards, keeps what
they give under the hash of input, code and configuration, and writes every file in one step: a
build that was killed and started again ends in the same bytes. Beside the records every stage
leaves an audit log (record, rule, action keep | change | drop | flag, detail), from which the
funnel is counted.
"""

from mcbench.data.schema import Problem, Rejected

__all__ = ["Problem", "Rejected"]
