"""From published files to a trained and tested model, on the command line as a user does it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from mcbench.data.schema import DIFFICULTIES
from mcbench.data.storage import iter_dataset

from . import published
from .generated import generate
from .published import jsonl, parquet
from .test_problem_sets import HUMANEVAL

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"

pytestmark = pytest.mark.slow


def mcbench(folder, *arguments):
    """What the command printed, standard error too."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mcbench", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def byte_level_model(folder):
    """A model of a few thousand random weights that reads and writes any text, byte by byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: n for n, token in enumerate(["<pad>", "<eos>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    named = {"pad_token": "<pad>", "eos_token": "<eos>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(vocabulary), **sizes, **heads, max_position_embeddings=8192,
            pad_token_id=0, eos_token_id=1, bos_token_id=None,
        )
    ).save_pretrained(folder)  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of every set that the shipped configurations name, below the sets' names."""
    folder = tmp_path_factory.mktemp("files")
    pool = iter(generate(60))

    def rows(count):
        for problem in (next(pool) for _ in range(count)):
            io = {
                "inputs": [test["stdin"] for test in problem.tests],
                "outputs": [test["expected"] for test in problem.tests],
            }
            yield problem.statement, io, list(problem.references)

    def tests(io):
        pairs = zip(io["inputs"], io["outputs"], strict=True)
        return [{"input": given, "output": answer} for given, answer in pairs]

    levels = ("EASY", "MEDIUM", "HARD", "VERY_HARD")
    taco = [
        published.taco(question=text, input_output=json.dumps(io), solutions=json.dumps(code),
                       difficulty=levels[n % 4], name=f"Problem {n}")
        for n, (text, io, code) in enumerate(rows(12))
    ]  # fmt: skip
    parquet(folder / "taco" / "ALL" / "train-00000-of-00001.parquet", *taco)
    apps = [
        published.apps(problem_id=n, question=text, input_output=json.dumps(io),
                       solutions=json.dumps(code))
        for n, (text, io, code) in enumerate(rows(4))
    ]  # fmt: skip
    jsonl(folder / "apps" / "train.jsonl", *apps)
    for subset in ("primeintellect", "taco"):
        coder = [
            {"problem": text, "tests": json.dumps(io), "solutions": code}
            for text, io, code in rows(4)
        ]
        parquet(folder / "deepcoder" / subset / "train-00000-of-00001.parquet", *coder)
    contests = [
        published.code_contests(
            name=f"{n}_A. Problem", description=text, public_tests={"input": [], "output": []},
            private_tests={"input": io["inputs"], "output": io["outputs"]},
            solutions={"language": [3], "solution": code}, cf_rating=2100,
        )
        for n, (text, io, code) in enumerate(rows(4))
    ]  # fmt: skip
    parquet(folder / "codecontests" / "data" / "train-00000-of-00001.parquet", *contests)
    checker = (
        "import sys\na, b = (open(p).read().split() for p in sys.argv[2:4])\nprint(int(a == b))"
    )
    forces = [
        published.codeforces(id=f"{1900 + n}/A", description=text, official_tests=tests(io),
                             input_format=None, output_format=None, examples=[], note=None,
                             contest_start=1_700_000_000, rating=1500, generated_checker=checker)
        for n, (text, io, code) in enumerate(rows(4))
    ]  # fmt: skip
    parquet(folder / "codeforces" / "verifiable" / "train-00000-of-00001.parquet", *forces)
    for n, (text, io, (code, *_)) in enumerate(rows(3)):
        cases = {}
        for number, (given, answer) in enumerate(zip(io["inputs"], io["outputs"], strict=True)):
            cases |= {f"data/secret/{number:02}.in": given, f"data/secret/{number:02}.ans": answer}
        published.package(
            folder / "problem-package" / f"p{n}", f"name: Problem {n}\nsource: NCPC 2021\n",
            **{"problem_statement/problem.en.tex": f"\\problemname{{Problem {n}}}\n{text}",
               "data/sample/1.in": io["inputs"][0], "data/sample/1.ans": io["outputs"][0],
               "submissions/accepted/sum.py": code, **cases},
        )  # fmt: skip
    jsonl(folder / "leetcode" / "LeetCodeDataset-train.jsonl", published.leetcode())
    functions = [
        published.mbpp(
            task_id=601 + k, text=f"Write a function to {told}.",
            code=f"def {name}(a):\n  return {code}",
            test_list=[f"assert {name}({a!r}) == {eval(code, {'a': a})!r}"
                       for a in ([3, 5, 8], [2, 2], [9, 1, 4, 7], [6])],
        )
        for k, (name, told, code) in enumerate((
            ("spread", "find the difference between the largest and the smallest entry",
             "max(a) - min(a)"),
            ("squares", "sum the squares of the numbers in a list", "sum(v * v for v in a)"),
            ("odd_ones", "count the odd members of a given list", "sum(v % 2 for v in a)"),
        ))
    ]  # fmt: skip
    jsonl(folder / "mbpp" / "mbpp.jsonl", *functions, published.mbpp(), published.mbpp(task_id=512))
    jsonl(folder / "livecodebench" / "test6.jsonl", published.lcb(), published.lcb_call())
    jsonl(folder / "humaneval" / "HumanEval.jsonl.gz", published.humaneval())
    jsonl(folder / "humanevalplus" / "HumanEvalPlus.jsonl.gz", published.evalplus())
    return folder


def offline(name, files, folder):
    """A shipped configuration whose entries read the files, as its first lines tell."""
    settings = yaml.safe_load((CONFIGS / name).read_text())
    for entry in (*settings["sources"], *settings.get("against", ())):
        entry["path"] = str(files / entry["adapter"])
    path = folder / name
    path.write_text(yaml.safe_dump({**settings, "workers": 2}))
    return path, folder / settings["out"]


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("paper-mix.yaml", {"deepcoder", "taco", "codecontests", "codeforces"}),
        ("functions.yaml", {"mbpp", "leetcode"}),
        ("packages.yaml", {"problem-package"}),
    ],
)
def test_a_shipped_configuration_builds_from_files_of_the_published_names(
    name, sources, files, tmp_path
):
    path, out = offline(name, files, tmp_path)
    dry = mcbench(tmp_path, "data", "build", path, "--dry-run")
    assert "MB" in dry or "packages, about" in dry
    mcbench(tmp_path, "data", "build", path)
    problems = list(iter_dataset(out))
    assert {problem.source for problem in problems} == sources
    assert all(not problem.unjudged() for problem in problems)
    assert "what the build did" in (out / "funnel.html").read_text()
    if name == "paper-mix.yaml":
        shares = [sum(p.difficulty == level for p in problems) for level in DIFFICULTIES]
        assert [n / len(problems) for n in shares] == pytest.approx([0.2, 0.4, 0.4], abs=0.05)


def test_a_build_from_four_sources_trains_and_is_tested_on_humaneval(files, tmp_path):
    """Eight updates of a model that reads bytes, and HumanEval before, between and after them."""
    sources = [
        {"adapter": name, "path": str(files / name)}
        for name in ("taco", "apps", "mbpp", "problem-package")
    ]
    sources[2]["subset"] = "full-train"
    test_set = HUMANEVAL if HUMANEVAL.exists() else files / "humaneval" / "HumanEval.jsonl.gz"
    against = [{"adapter": "humaneval", "path": str(test_set)}]
    config = {"name": "mix", "out": "mix", "sources": sources, "against": against}
    (tmp_path / "mix.yaml").write_text(yaml.safe_dump(config))
    mcbench(tmp_path, "data", "build", "mix.yaml")
    assert len({problem.source for problem in iter_dataset(tmp_path / "mix")}) == 4
    chosen = {
        "model": byte_level_model(tmp_path / "bytes"),
        "train_set": "mix",
        "test_set": f"humaneval:{test_set}",
        "eval_every": 8,
        "test_limit": "null",
    }
    settings = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    mcbench(tmp_path, "train", "--profile", "tiny", "--steps", "8", *settings)
    (run,) = (path.parent for path in (tmp_path / "runs").glob("*/run.json"))
    assert json.loads((run / "run.json").read_text())["state"] == "finished"
    assert len((run / "steps.jsonl").read_text().splitlines()) == 8
    evaluations = [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]
    published_problems = 164 if test_set == HUMANEVAL else 1
    assert {(e["step"], len(e["per_problem"])) for e in evaluations} == {
        (0, published_problems), (8, published_problems),
    }  # fmt: skip
    again = ("--limit", "3", "--attempts", "1", "--lengths", "16")
    told = mcbench(tmp_path, "evaluate", run, "--test-set", f"humaneval:{test_set}", *again)
    assert "plain prompts (its tokenizer has no chat template)" in told
