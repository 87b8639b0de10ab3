"""``mcbench evaluate``: pass@1 of a model on held-out problems."""

from __future__ import annotations

from typing import Any

import click

from mcbench.cli.options import Integers


@click.command()
@click.argument("model")
@click.option(
    "--test-set",
    help="livecodebench, humaneval, mbpp, evalplus, mbppplus (from the hub, or a local copy as "
    "humaneval:PATH), nano:test, easy:test, a folder that mcbench data build wrote, or a .jsonl "
    "file of problems (default: that of the model's run or profile, else nano:test).",
)
@click.option(
    "--data", default="", metavar="PATH", help="A local copy of the benchmark (see above)."
)
@click.option("--from", "start", default="", metavar="DATE", help="Only problems from that day on.")
@click.option("--to", "end", default="", metavar="DATE", help="Only problems up to that day.")
@click.option("--limit", type=int, help="Only this many problems, evenly spread.")
@click.option("--attempts", type=int, help="Per problem (default: the profile's, or 4).")
@click.option(
    "--lengths",
    type=Integers(),
    metavar="96,192",
    help="Maximum response lengths in tokens (default: 4096,8192 for benchmarks, those of the "
    "model's run or profile, else of nano, for any other set).",
)
@click.option("--temperature", type=float, help="Default: the profile's, or 1.")
@click.option(
    "--prompt-style",
    type=click.Choice(["plain", "chat"]),
    help="Default: chat where the model's tokenizer has a chat template, else plain.",
)
@click.option(
    "--enable-thinking/--disable-thinking",
    default=None,
    help="Of the chat template (default: what a run was trained with, else the template's).",
)
@click.option(
    "--stop-at-fence/--no-stop-at-fence",
    default=None,
    help="Responses end with their first code block (default: as in the model's run or profile).",
)
@click.option("--backend", type=click.Choice(["transformers", "vllm"]), default="transformers")
@click.option("--batch-size", type=int, default=256, help="Responses sampled at once, at most.")
@click.option("--workers", type=int, default=2, help="Sandboxes that run programs.")
@click.option("--seed", type=int, default=0)
@click.option("--folder", help="Where samples and verdicts are kept.")
@click.option("--dry-run", is_flag=True, help="Check, print what would be sampled, do nothing.")
@click.option("-o", "--output", help="Also write the results to this JSON file.")
def evaluate(**options: Any) -> None:
    """pass@1 of MODEL (nano-s, smollm2-135m, a checkpoint or run directory, a GGUF file, a hub id)
    on a problem set.

    Without a network a benchmark is read from files of their published names, in a folder or named
    themselves, with --data PATH or NAME:PATH:

    \b
      livecodebench  test6.jsonl (release v6; test.jsonl to test6.jsonl for release_v6)
      humaneval      HumanEval.jsonl.gz
      mbpp           mbpp.jsonl, or sanitized-mbpp.json for mbpp:sanitized
      evalplus       HumanEvalPlus.jsonl.gz
      mbppplus       MbppPlus.jsonl.gz
    """
    from mcbench.report.table import paper_rows
    from mcbench.runs.evaluate_command import evaluate_request

    evaluate_request(**options, published=paper_rows)
