"""GGUF files of the tiny models, as llama.cpp's converter would write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from tests.gguf_writer import Stored, stored, write_gguf
from tests.oracles.clocked_core import ClockedCore

NAMES = {
    "model.embed_tokens.": "token_embd.",
    "model.norm.": "output_norm.",
    "lm_head.": "output.",
    "input_layernorm.": "attn_norm.",
    "post_attention_layernorm.": "ffn_norm.",
    "self_attn.o_proj.": "attn_output.",
    "self_attn.q_norm.": "attn_q_norm.",
    "self_attn.k_norm.": "attn_k_norm.",
    **{f"self_attn.{one}_proj.": f"attn_{one}." for one in "qkv"},
    **{f"mlp.{one}_proj.": f"ffn_{one}." for one in ("gate", "up", "down")},
    "model.layers.": "blk.",
}


def write_model(
    path: Path,
    folder: Path,
    architecture: str,
    kind: str = "F32",
    *,
    factors: list[float] | None = None,
    extra: dict[str, Stored] | None = None,
    **more: Any,
) -> Path:
    """The checkpoint of `folder` as a GGUF file.

    Args:
        path: The file.
        folder: Directory of a tiny model.
        architecture: llama.cpp's name.
        kind: Type of the matrices.
        factors: Factor of each wavelength, as of Llama 3.
        extra: More tensors, or others.
        more: Metadata beside that of the config; None leaves one out.
    """
    config = json.loads((folder / "config.json").read_text())
    fields = fields_of(config, folder, architecture) | more
    tensors = tensors_of(load_file(folder / "model.safetensors"), config, architecture, kind)
    if factors:
        tensors["rope_freqs.weight"] = stored(np.array(factors))
    tensors |= extra or {}
    return write_gguf(path, {k: v for k, v in fields.items() if v is not None}, tensors)


def greedy_ids(
    path: Path, engine: Any, prompts: Sequence[Sequence[int]], max_tokens: int, **settings: Any
) -> list[list[int]]:
    """The tokens that an engine of this model generates for prompts in one batch.

    Args:
        path: The model.
        engine: The fixture `engine`.
        prompts: Token ids.
        max_tokens: Tokens of each output.
        settings: Other settings of the engine.
    """
    core = ClockedCore(EngineConfig(path, kv_pages=64, threads=1, **settings), FakeClock())
    try:
        for number, prompt in enumerate(prompts):
            core.submit(engine.request(number, prompt, max_tokens=max_tokens))
        done = engine.drain(core)
        return [done.ids(number) for number in range(len(prompts))]
    finally:
        core.close()


def fields_of(config: dict[str, Any], folder: Path, architecture: str) -> dict[str, Any]:
    rope = config.get("rope_parameters") or config
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    own = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "rope.dimension_count": head_dim,
        "rope.freq_base": float(rope["rope_theta"]),
    }
    named = {f"{architecture}.{name}": value for name, value in own.items()}
    return {"general.architecture": architecture, **named, **vocabulary_of(folder)}


def vocabulary_of(folder: Path) -> dict[str, Any]:
    """Metadata of a byte-level tokenizer without merges, whose pieces nothing joins."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **special}
    tokens = sorted(ids, key=ids.__getitem__)
    merges = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if one in special else 1 for one in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": special[settings["bos_token"]],
        "tokenizer.ggml.eos_token_id": special[settings["eos_token"]],
        "tokenizer.chat_template": settings["chat_template"],
    }


def tensors_of(
    weights: dict[str, NDArray[Any]], config: dict[str, Any], architecture: str, kind: str
) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    for name, values in weights.items():
        values = values.astype(np.float32)
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            values = neighbours(values, heads)
        for own, other in NAMES.items():
            name = name.replace(own, other)
        found[name] = stored(values, kind if values.ndim > 1 else "F32")
    return found


def neighbours(values: NDArray[Any], heads: int) -> NDArray[Any]:
    """Rows from halves of a rotation to neighbours."""
    width = len(values) // heads
    order = [
        head * width + part * width // 2 + pair
        for head in range(heads)
        for pair in range(width // 2)
        for part in range(2)
    ]
    return values[order]
