"""What a GGUF file is made of."""

import json
import math
import shutil
from pathlib import Path

import pytest

from agentrt import embedded
from agentrt.analysis.model_shape import ModelShape, shape_in
from agentrt.base.errors import UsageError
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.gguf import fields_of, gguf_job, target_of, tensors_of
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.checkpoints.weights import weights_of
from agentrt.lab.errors import BenchFailed

MIXTRAL = ModelShape("moe", "mixtral", 64, 96, 2, 4, 2, 300, False, experts=4, experts_a_token=2)


@pytest.mark.parametrize("shape", [*SHAPES.values(), MIXTRAL], ids=lambda shape: shape.name)
def test_every_weight_is_read_once(shape: ModelShape) -> None:
    sources = [name for tensor in tensors_of(shape) for name in tensor.sources]
    assert sorted(sources) == sorted(fact.name for fact in weights_of(shape))


def test_names_are_those_of_the_format() -> None:
    assert target_of("model.embed_tokens.weight") == "token_embd.weight"
    assert target_of("model.layers.7.self_attn.o_proj.weight") == "blk.7.attn_output.weight"
    assert (
        target_of("model.layers.0.block_sparse_moe.experts.3.w2.weight")
        == "blk.0.ffn_down_exps.weight"
    )


def test_only_llama_rotates_neighbours() -> None:
    """Qwen2 rotates halves in both formats."""
    heads = {
        tensor.target: tensor.rotated_heads
        for tensor in tensors_of(SHAPES["tiny"])
        if tensor.rotated_heads
    }
    assert heads["blk.0.attn_q.weight"] == 6
    assert heads["blk.7.attn_k.weight"] == 2
    assert len(heads) == 16
    assert not any(tensor.rotated_heads for tensor in tensors_of(SHAPES["qwen2.5-0.5b"]))


def test_experts_are_stacked_and_vectors_stay_exact() -> None:
    tensors = {tensor.target: tensor for tensor in tensors_of(MIXTRAL)}
    gates = tensors["blk.1.ffn_gate_exps.weight"]
    assert gates.stacked
    assert [name.split(".")[5] for name in gates.sources] == ["0", "1", "2", "3"]
    assert tensors["blk.0.attn_norm.weight"].exact
    assert tensors["blk.0.ffn_gate_inp.weight"].exact
    assert not tensors["output.weight"].exact


def test_the_file_says_what_the_shape_is(tmp_path: Path) -> None:
    micro = SHAPES["micro"]
    folder = checkpoint(micro, folder=tmp_path)
    told = fields_of(micro, folder)
    assert told["llama.attention.head_count_kv"] == micro.kv_heads
    assert len(told["tokenizer.ggml.tokens"]) == micro.vocabulary
    assert told["tokenizer.ggml.token_type"][257] == 3
    assert "\u0120a b" in told["tokenizer.ggml.merges"]
    job = gguf_job(micro, folder, tmp_path / "x.gguf", "bfloat16")
    assert job["architecture"] == "llama"
    assert Path(job["source"]).is_file()


def test_the_embedded_model_is_written_too() -> None:
    shape = shape_in(embedded.path())
    assert sum(math.prod(fact.shape) for fact in weights_of(shape)) > shape.parameters > 1_000_000
    told = fields_of(shape, embedded.path())
    assert told["tokenizer.ggml.pre"] == "tekken"
    assert told["tokenizer.ggml.tokens"][2] == "<|end|>"
    assert told["tokenizer.ggml.eos_token_id"] == 2
    # What llama.cpp would take for an end goes by another name, in the template as well.
    assert "<|call|>" not in told["tokenizer.ggml.tokens"]
    assert told["tokenizer.ggml.tokens"][7] == "<|call-|>"
    assert "<|call-|>" in told["tokenizer.chat_template"]
    assert "<|call|>" not in told["tokenizer.chat_template"]


@pytest.mark.parametrize("facts", [{"model_type": "gpt2"}, {"head_dim": 48}])
def test_other_models_are_refused(facts: dict[str, object], tmp_path: Path) -> None:
    config = json.loads((embedded.path() / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | facts), "utf-8")
    with pytest.raises(UsageError, match="is a checkpoint of"):
        shape_in(tmp_path)


def test_a_tokenizer_that_cuts_otherwise_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(embedded.path() / name, tmp_path / name)
    facts = json.loads((embedded.path() / "tokenizer.json").read_text("utf-8"))
    facts["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "."
    (tmp_path / "tokenizer.json").write_text(json.dumps(facts), "utf-8")
    with pytest.raises(BenchFailed, match="no name for how this tokenizer cuts"):
        fields_of(shape_in(tmp_path), tmp_path)
