"""The tensors and fields of a GGUF file, made from a checkpoint."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentrt.analysis.model_shape import ModelShape
from agentrt.base.record import record
from agentrt.lab.checkpoints.weights import weights_of
from agentrt.lab.errors import BenchFailed

_PLAIN = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_OF_A_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    **{
        f"self_attn.{part}_proj.{kind}": f"attn_{part}.{kind}"
        for part in "qkv"
        for kind in ("weight", "bias")
    },
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "block_sparse_moe.gate.weight": "ffn_gate_inp.weight",
    "block_sparse_moe.experts.*.w1.weight": "ffn_gate_exps.weight",
    "block_sparse_moe.experts.*.w3.weight": "ffn_up_exps.weight",
    "block_sparse_moe.experts.*.w2.weight": "ffn_down_exps.weight",
}
_NORMAL, _CONTROL = 1, 3
GGUF_DTYPES = {"float32": 0, "float16": 1, "bfloat16": 32}
"""Dtypes of matrices, and the `general.file_type` of a file that has them."""
_NO_END = {"<|call|>": "<|call-|>"}
"""llama.cpp takes a token of the first name for an end of text, whatever the file declares."""


@record
class GgufTensor:
    """One tensor of the file.

    Attributes:
        target: Name in the file.
        sources: Names in the checkpoint; several are stacked.
        stacked: True if the sources are stacked, even a single one.
        rotated_heads: Number of heads if rows are reordered, because llama.cpp rotates neighbours
            and checkpoints rotate halves; 0 leaves the order.
        exact: True to keep it in fp32, as vectors are.
    """

    target: str
    sources: tuple[str, ...]
    stacked: bool
    rotated_heads: int
    exact: bool


def gguf_job(shape: ModelShape, checkpoint: Path, target: Path, dtype: str) -> dict[str, Any]:
    """The job of `peers/write_gguf.py`.

    Args:
        shape: Shape of the model.
        checkpoint: Directory of the checkpoint.
        target: The file.
        dtype: Dtype of its matrices, a key of `GGUF_DTYPES`.
    """
    return {
        "source": str(checkpoint / "model.safetensors"),
        "target": str(target),
        "architecture": architecture_of(shape),
        "dtype": dtype,
        "fields": fields_of(shape, checkpoint) | {"general.file_type": GGUF_DTYPES[dtype]},
        "tensors": [asdict(tensor) for tensor in tensors_of(shape)],
    }


def architecture_of(shape: ModelShape) -> str:
    """llama.cpp's name of the architecture: there Mixtral is a llama with experts."""
    return "qwen2" if shape.kind == "qwen2" else "llama"


def tensors_of(shape: ModelShape) -> list[GgufTensor]:
    """All tensors, in the order of the checkpoint."""
    sources: dict[str, list[str]] = {}
    vectors: set[str] = set()
    for spec in weights_of(shape):
        target = target_of(spec.name)
        sources.setdefault(target, []).append(spec.name)
        if len(spec.shape) == 1 or target.endswith("ffn_gate_inp.weight"):
            vectors.add(target)
    return [
        GgufTensor(
            target=target,
            sources=tuple(names),
            stacked=target.endswith("_exps.weight"),
            rotated_heads=_rotated_heads(shape, target),
            exact=target in vectors,
        )
        for target, names in sources.items()
    ]


def target_of(name: str) -> str:
    """The GGUF name of a checkpoint's tensor."""
    if name in _PLAIN:
        return _PLAIN[name]
    match = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name)
    assert match, name
    inner = re.sub(r"experts\.\d+\.", "experts.*.", match[2])
    return f"blk.{match[1]}.{_OF_A_LAYER[inner]}"


def _rotated_heads(shape: ModelShape, target: str) -> int:
    if architecture_of(shape) != "llama":
        return 0
    if target.endswith("attn_q.weight"):
        return shape.heads
    return shape.kv_heads if target.endswith("attn_k.weight") else 0


def fields_of(shape: ModelShape, checkpoint: Path) -> dict[str, Any]:
    """The file's metadata; its types are those of the values."""
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    fields: dict[str, Any] = {
        "context_length": shape.window_tokens,
        "embedding_length": shape.hidden,
        "block_count": shape.layers,
        "feed_forward_length": shape.inner,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(shape.rope_theta),
        "rope.dimension_count": shape.head_dim,
        "vocab_size": shape.vocabulary,
    }
    if shape.experts > 1:
        fields |= {"expert_count": shape.experts, "expert_used_count": shape.experts_a_token}
    named = {f"{architecture_of(shape)}.{name}": value for name, value in fields.items()}
    return {"general.name": shape.name, **named, **_vocabulary(checkpoint)}


def _vocabulary(checkpoint: Path) -> dict[str, Any]:
    """Metadata of the tokenizer and the template.

    Raises:
        BenchFailed: llama.cpp cannot split text as this tokenizer does.
    """
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text("utf-8"))
    settings = json.loads((checkpoint / "tokenizer_config.json").read_text("utf-8"))
    template = settings.get("chat_template")
    if template is None:
        template = (checkpoint / "chat_template.jinja").read_text("utf-8")
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **special}
    tokens = sorted(ids, key=ids.__getitem__)
    bos_id, eos_id = special[settings["bos_token"]], special[settings["eos_token"]]
    for text, other in _NO_END.items():
        template = template.replace(text, other)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": _pre_tokenizer(tokenizer["pre_tokenizer"]),
        "tokenizer.ggml.tokens": [_NO_END.get(token, token) for token in tokens],
        "tokenizer.ggml.token_type": [
            _CONTROL if token in special else _NORMAL for token in tokens
        ],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tokenizer["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": bos_id,
        "tokenizer.ggml.eos_token_id": eos_id,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": template,
    }


def _pre_tokenizer(config: dict[str, Any]) -> str:
    """llama.cpp's name of a pre-tokenizer."""
    if config["type"] == "ByteLevel" and config.get("use_regex", True):
        return "gpt-2"
    if config["type"] == "Sequence":
        patterns = [one["pattern"]["Regex"] for one in config["pretokenizers"] if "pattern" in one]
        if patterns == [_WORD_BY_WORD]:
            return "tekken"
    raise BenchFailed("llama.cpp has no name for how this tokenizer cuts text")


_WORD_BY_WORD = (
    r"\p{Lu}|\p{N}|[^\r\n\p{L}\p{N}]?[\p{Ll}\p{Lm}\p{Lo}\p{Lt}\p{M}]+"
    r"| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Pattern of the embedded model: capitals and digits one by one, so that no merge has any of them.
`tekken` splits differently only beside those, and nothing is merged there either way."""
