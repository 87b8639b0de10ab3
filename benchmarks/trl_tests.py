"""TRL's own tests of its GRPO trainer, each with TRL's classes and with ours in their place.

    python benchmarks/trl_tests.py TRL QWEN.TIKTOKEN [--updates 4] [--keep FOLDER] [-k NAMES]

TRL is a checkout of huggingface/trl: its tests are in no package. The tiny models and the sets that
they load from the hub are made here by that checkout's own scripts, with one vocabulary for all
models (``qwen.tiktoken`` of the package dashscope, because some tests name token ids) and TRL's
chat templates. Tests of tools need jmespath, those with images pillow and torchvision.

Further arguments are pytest's. Where a test trains for epochs it makes ``--updates``. A test is the
same with both where it has the same outcome, and each of its trainings ends with the same weights
bit for bit and the same numbers under every name that TRL logs but times. Ends with status 1 where
something is not the same.
"""

import argparse
import base64
import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SIDES = ("trl", "ours")
ORGANISATION = "trl-internal-testing"
REVISION = "0" * 40  # transformers takes nothing else for one
UNCUT = "test_prepare_input_called_with_correct_data"  # counts its updates
MODELS = {  # scripts of TRL, and the chat template of what they make
    "causal_lm.cohere2_for_causal_lm": "cohere2",
    "causal_lm.gemma2_for_causal_lm": "gemma",
    "causal_lm.glm4_moe_for_causal_lm": "glm4moe",
    "causal_lm.gpt_oss_for_causal_lm": "gptoss",
    "causal_lm.llama_for_causal_lm_3_2": "llama3_2",
    "causal_lm.mistral_for_causal_lm_0_2": "qwen2_5",
    "causal_lm.nemotron_3_nano_for_causal_lm": "nemotron_3_nano",
    "causal_lm.qwen2_for_causal_lm_2_5": "qwen2_5",
    "causal_lm.qwen3_for_causal_lm": "qwen3",
    "causal_lm.qwen3_moe_for_causal_lm": "qwen3",
    "causal_lm.remote_for_causal_lm": "llama3_2",
    "sequence_classification.llama_for_sequence_classification_3_2": "llama3_2",
    "sequence_classification.qwen2_for_sequence_classification_2_5": "qwen2_5",
    "sequence_classification.qwen3_for_sequence_classification": "qwen3",
    "conditional_generation.qwen2_vl_for_conditional_generation": "qwen2_5_vl",
    "conditional_generation.qwen2_5_vl_for_conditional_generation": "qwen2_5_vl",
}
SETS = ("generate_zen_dataset", "generate_zen_image_dataset", "generate_zen_multi_image_dataset")
# Qwen3's tokens after the 151,643 of the file; those that it does not call special are text.
SPECIAL = [
    f"<|{name}|>"
    for name in (
        *("endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start"),
        *("box_end", "quad_start", "quad_end", "vision_start", "vision_end", "vision_pad"),
        *("image_pad", "video_pad"),
    )
]
TEXT = ["<tool_call>", "</tool_call>"]
TEXT += [f"<|{n}|>" for n in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name")]
TEXT += ["<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


# What the tests load ------------------------------------------------------------------------------


def vocabulary(path: Path) -> Any:
    """A tokenizer of the tokens of a ``.tiktoken`` file and of Qwen3's further ones."""
    from tokenizers import AddedToken
    from transformers.convert_slow_tokenizer import TikTokenConverter

    class Converter(TikTokenConverter):
        @staticmethod
        def load_tiktoken_bpe(tiktoken_url: str) -> dict[bytes, int]:
            pairs = (line.split() for line in Path(tiktoken_url).read_text().splitlines())
            return {base64.b64decode(token): int(rank) for token, rank in pairs}

    found = Converter(vocab_file=str(path), pattern=SPLIT).converted()
    found.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    found.add_tokens([AddedToken(token, special=False) for token in TEXT])
    return found


def make_models(checkout: Path, words: Any, into: Path) -> None:
    """Runs TRL's scripts; what they would push to the hub lies ``into`` as in its cache."""
    import transformers
    import trl
    from transformers import AutoConfig, AutoProcessor, AutoTokenizer, GenerationConfig

    templates = Path(trl.__file__).parent / "chat_templates"
    sys.path.insert(0, str(checkout / "scripts"))
    common = importlib.import_module("generate_tiny_models._common")
    for check in ("check_transformers_version", "smoke_test", "check_dtype_pattern"):
        setattr(common, check, lambda *_, **__: None)
    common.print_config_diff = lambda *_: None

    def push(model: Any, processor: Any, generation: Any, prefix: str, suffix: str = "") -> None:
        name = "-".join(part for part in (prefix, type(model).__name__, suffix) if part)
        at = into / f"models--{ORGANISATION}--{name}"
        (at / "refs").mkdir(parents=True, exist_ok=True)
        (at / "refs" / "main").write_text(REVISION)
        tokens = getattr(processor, "tokenizer", processor)
        if model.get_input_embeddings().num_embeddings < len(tokens):
            model.resize_token_embeddings(len(tokens))
        for part in (model, processor, generation):
            if part is not None:
                part.save_pretrained(at / "snapshots" / REVISION)

    common.push_to_hub = push
    patched = [(cls, vars(cls)["from_pretrained"]) for cls in (AutoConfig, AutoProcessor)]
    patched += [(AutoTokenizer, vars(AutoTokenizer)["from_pretrained"])]
    patched += [(GenerationConfig, vars(GenerationConfig)["from_pretrained"])]
    ends = {"eos_token_id": [151645, 151643], "pad_token_id": 151643}
    GenerationConfig.from_pretrained = lambda *_, **__: GenerationConfig(do_sample=True, **ends)
    try:
        for script, template in MODELS.items():
            tokenizer = tokenizer_of(words, (templates / f"{template}.jinja").read_text())
            kind = re.sub(r"_(2_5|3_2)$", "", script.split(".")[1].partition("_for_")[0])
            config_class = transformers.CONFIG_MAPPING[kind] if "causal" not in script else None
            AutoTokenizer.from_pretrained = lambda *_, _of=tokenizer, **__: _of
            AutoProcessor.from_pretrained = lambda *_, _of=tokenizer, _kind=kind: processor_of(
                _of, _kind
            )
            AutoConfig.from_pretrained = lambda _, _of=config_class, **given: _of(
                **({"vocab_size": 151936} if "text_config" not in given else {}), **given
            )
            try:
                importlib.import_module(f"generate_tiny_models.for_{script}")
            except Exception as error:  # the tests that load it say so
                print(f"not made: {script} ({type(error).__name__}: {error})")
    finally:
        for cls, method in patched:
            cls.from_pretrained = method


def tokenizer_of(words: Any, template: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    found = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        padding_side="left", chat_template=template,
    )  # fmt: skip
    if "finetune" in template or "begin_of_text" in template or "Cutting Knowledge" in template:
        found.add_special_tokens({"extra_special_tokens": ["<|finetune_right_pad_id|>"]})
    return found


def processor_of(tokenizer: Any, kind: str) -> Any:
    import transformers

    name = {"qwen2_vl": "Qwen2VLProcessor", "qwen2_5_vl": "Qwen2_5_VLProcessor"}[kind]
    return getattr(transformers, name)(
        image_processor=transformers.Qwen2VLImageProcessor(),
        video_processor=transformers.Qwen2VLVideoProcessor(),
        tokenizer=tokenizer,
        chat_template=tokenizer.chat_template,
    )


def make_sets(into: Path) -> None:
    """Runs TRL's scripts; what they would push lies ``into``, by name and configuration."""
    from datasets import DatasetDict

    def push(rows: Any, name: str, config_name: str = "default") -> None:
        rows.save_to_disk(into / name / config_name)

    before, DatasetDict.push_to_hub = DatasetDict.push_to_hub, push
    try:
        for script in SETS:
            name = script.removeprefix("generate_").removesuffix("_dataset").replace("_", "-")
            try:
                importlib.import_module(script).main(0.1, True, f"{ORGANISATION}/{name}")
            except ImportError as error:
                print(f"not made: {script} ({error})")
    finally:
        DatasetDict.push_to_hub = before


# The tests ----------------------------------------------------------------------------------------


class Sides:
    """A plugin of pytest: every test with TRL's classes, and with ours in their place."""

    def __init__(self, sets: Path, updates: int) -> None:
        self.sets, self.updates = sets, updates
        self.found: dict[str, dict[str, Any]] = {}
        self.counts: Counter[str] = Counter()

    def pytest_configure(self, config: Any) -> None:
        self.plugins = config.pluginmanager

    def pytest_generate_tests(self, metafunc: Any) -> None:
        ids = [f"side:{side}" for side in SIDES]
        metafunc.parametrize("side", SIDES, ids=ids, indirect=True)

    def _of(self, item: Any) -> dict[str, Any]:
        test = re.sub(r"-?side:\w+", "", item.name).replace("[]", "").replace("[-", "[")
        both = self.found.setdefault(test, {})
        return both.setdefault(item.callspec.params["side"], {"trainings": [], "outcome": ("", "")})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any) -> Any:
        report = yield
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.splitlines()[0][:150] if crash else ""
            if report.outcome == "skipped":
                why = str(report.longrepr[2])
            self._of(item)["outcome"] = report.outcome, why
        return report

    @pytest.fixture(autouse=True)
    def side(self, request: Any, monkeypatch: Any) -> None:
        """Puts one side's classes in the test's module and watches its trainings."""
        import transformers

        from mcbench.grpo import MicroCoderGRPOConfig, MicroCoderGRPOTrainer

        transformers.set_seed(0)  # for adapters that a test makes before its trainer
        monkeypatch.setattr(request.module, "load_dataset", self._load)
        # Of a bare object: 1.16 reads what tests of an earlier version do not set.
        monkeypatch.setattr(request.module.GRPOTrainer, "eos_token_ids", [2], raising=False)
        if request.param == "ours":
            monkeypatch.setattr(request.module, "GRPOTrainer", MicroCoderGRPOTrainer)
            monkeypatch.setattr(request.module, "GRPOConfig", MicroCoderGRPOConfig)
        train = transformers.Trainer.train

        def observed(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            if trainer.args.max_steps <= 0 and UNCUT not in request.node.name:
                trainer.args.max_steps = self.updates
            result = train(trainer, *args, **kwargs)
            self._of(request.node)["trainings"].append(
                (digest(trainer.model), [numbers(line) for line in trainer.state.log_history])
            )
            return result

        monkeypatch.setattr(transformers.Trainer, "train", observed)

    def _load(self, name: str, config: str = "default", split: Any = None, **how: Any) -> Any:
        from datasets import load_from_disk

        rows = load_from_disk(str(self.sets / name / config))
        rows = rows if split is None else rows[split]
        return rows.to_iterable_dataset() if how.get("streaming") else rows

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Says what became of a test once both sides are known."""
        for test in [name for name, sides in self.found.items() if len(sides) == len(SIDES)]:
            trl, ours = (self.found[test][side] for side in SIDES)
            if not (trl["outcome"][0] and ours["outcome"][0]):
                continue
            why = differing(trl["trainings"], ours["trainings"])
            if trl["outcome"][0] != ours["outcome"][0]:
                why = f"{trl['outcome']} and {ours['outcome']}"
            what = "DIFFERENT" if why else f"{trl['outcome'][0]} with both"
            self.counts[what] += 1
            self.counts["equal trainings"] += 0 if why else len(trl["trainings"])
            told = why or ours["outcome"][1] or f"{len(trl['trainings'])} equal trainings"
            terminal = self.plugins.get_plugin("terminalreporter")
            terminal.write_line(f"\n{what}: {test}: {told}")
            del self.found[test]


def digest(model: Any) -> str:
    """Of all weights, bit for bit."""
    found = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        found.update(name.encode() + weight.detach().cpu().contiguous().float().numpy().tobytes())
    return found.hexdigest()


def numbers(line: dict[str, Any]) -> dict[str, Any]:
    """A line of the log without what a clock says."""
    return {k: str(v) for k, v in line.items() if not re.search("time|per_second", k.lower())}


def differing(trl: list[Any], ours: list[Any]) -> str:
    """What differs between two lists of trainings, under the names that TRL has; empty: nothing."""
    if len(trl) != len(ours):
        return f"{len(trl)} and {len(ours)} trainings"
    for (weights, lines), (own_weights, own_lines) in zip(trl, ours, strict=True):
        if len(lines) != len(own_lines):
            return f"{len(lines)} and {len(own_lines)} lines"
        for line, own in zip(lines, own_lines, strict=True):
            for name in (name for name in line if line[name] != own.get(name)):
                return f"{name} {line[name]} and {own.get(name)} at step {line.get('step')}"
        if weights != own_weights:
            return "weights"
    return ""


def _know_optional_packages(utilities: Path) -> None:
    """The tests of one version of TRL ask for packages that another does not look for."""
    from trl import import_utils

    for name in re.findall(r"\bis_(\w+)_available\b", utilities.read_text()):
        if not hasattr(import_utils, f"is_{name}_available"):
            found = importlib.util.find_spec(name) is not None
            setattr(import_utils, f"is_{name}_available", lambda found=found: found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trl", type=Path, help="a checkout of huggingface/trl")
    parser.add_argument("vocabulary", type=Path, help="qwen.tiktoken")
    parser.add_argument("--updates", type=int, default=4, help="of a test that trains for epochs")
    parser.add_argument("--keep", type=Path, help="where models and sets are made, or lie already")
    args, of_pytest = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        made = (args.keep or Path(name)).resolve()
        os.environ |= {"HF_HUB_CACHE": str(made), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        checkout = args.trl.resolve()
        if not (made / "sets").is_dir():
            make_models(checkout, vocabulary(args.vocabulary), made)
            make_sets(made / "sets")
        sides = Sides(made / "sets", args.updates)
        _know_optional_packages(checkout / "tests" / "testing_utils.py")
        os.chdir(checkout)
        sys.path.insert(0, str(checkout))
        tests = "tests/test_grpo_trainer.py"
        options = ["-q", "--tb=no", "-p", "no:cacheprovider", "-c", os.devnull]
        options += ["--rootdir", str(checkout), *of_pytest]
        pytest.main([*options, tests], plugins=[sides])
        print(", ".join(f"{count} {what}" for what, count in sorted(sides.counts.items())))
        sys.exit(min(1, sides.counts["DIFFERENT"]))


if __name__ == "__main__":
    main()
