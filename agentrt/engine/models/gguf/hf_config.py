"""From the metadata of a GGUF file to the `config.json` of the same model."""

from __future__ import annotations

from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.gguf_file import GgufFile
from agentrt.engine.models.config_limits import check_config
from agentrt.engine.models.gguf.architecture import ROPE_FACTORS, architecture_of
from agentrt.engine.models.gguf.tensors import float_values, most_used_type

_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_READ = (
    *("vocab_size", "context_length", "embedding_length", "block_count", "feed_forward_length"),
    *("attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon"),
    *("attention.key_length", "attention.value_length", "attention.sliding_window"),
    *("rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor"),
    *("rope.scale_linear", "rope.scaling.original_context_length", "rope.scaling.finetuned"),
    *("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"),
    *("rope.scaling.yarn_attn_factor", "rope.scaling.yarn_ext_factor", "attention.causal"),
)
_TELLING = ("attention.", "rope.", "expert", "nextn", "altup")
_TELLING_PARTS = ("scale", "softcap", "clamp")
"""Beginnings and parts of names whose values change what a model computes."""


def config_of(file: GgufFile) -> dict[str, Any]:
    """The `config.json` that describes a file's model.

    Raises:
        ModelInvalid: The model is not described, or computes something that is not read here.
    """
    architecture = architecture_of(file)
    prefix = f"{architecture.name}."
    _refuse_unread(file, prefix)

    def whole(name: str, default: int | None = None) -> int:
        return file.integer(prefix + name, default)

    heads, hidden = whole("attention.head_count"), whole("embedding_length")
    if heads < 1:
        raise file.invalid(f"it has {heads} heads")
    head_dim = whole("attention.key_length", hidden // heads)
    widths = (whole("attention.value_length", head_dim), whole("rope.dimension_count", head_dim))
    if set(widths) != {head_dim}:
        raise _not_read(file, f"keys of {head_dim} values, {widths[0]} of values, {widths[1]} turn")
    context = whole("context_length")
    config = {
        "model_type": architecture.model_type,
        "hidden_size": hidden,
        "intermediate_size": whole("feed_forward_length"),
        "num_hidden_layers": whole("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": whole("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "vocab_size": _vocabulary(file),
        "max_position_embeddings": context,
        "rms_norm_eps": file.number(prefix + "attention.layer_norm_rms_epsilon"),
        "hidden_act": "silu",
        "rope_parameters": _rope(file, prefix, context, head_dim),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "dtype": _DTYPES.get(most_used_type(file), "bfloat16"),
    }
    if architecture.says_biases:
        biases = {"attention_bias": "blk.0.attn_q.bias", "mlp_bias": "blk.0.ffn_up.bias"}
        config |= {name: True for name, tensor in biases.items() if tensor in file.tensors}
    window = whole("attention.sliding_window", 0)
    if 0 < window < context:
        if architecture.model_type != "llama":
            raise _not_read(file, f"a sliding window of {window} tokens")
        config |= {"model_type": "mistral", "sliding_window": window}
    check_config(config, file.path)
    return config


def _vocabulary(file: GgufFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise file.invalid("it has no embedding (token_embd.weight)")
    return embedding.shape[0]


def _rope(file: GgufFile, prefix: str, context: int, head_dim: int) -> dict[str, Any]:
    """Settings of rotary positions, as `rope_parameters` has them."""
    rope = {"rope_theta": file.number(prefix + "rope.freq_base", 10_000.0)}
    scaling = f"{prefix}rope.scaling."
    kind = file.text(f"{scaling}type", "linear")
    factor = file.number(f"{scaling}factor", file.number(f"{prefix}rope.scale_linear", 0.0))
    is_scaled = kind != "none" and factor not in (0.0, 1.0)
    if ROPE_FACTORS in file.tensors:  # a factor for each wavelength, as of Llama 3
        if is_scaled:
            raise _not_read(file, f"both {ROPE_FACTORS} and {kind} scaling")
        factors = float_values(file, ROPE_FACTORS)
        if len(factors) != head_dim // 2 or not all(one > 0 for one in factors):
            raise file.invalid(f"{ROPE_FACTORS} does not fit heads of {head_dim}")
        return {
            **rope,
            "rope_type": "longrope",  # which takes factors as they are
            "short_factor": factors,
            "long_factor": factors,
            "original_max_position_embeddings": context,
            "factor": 1.0,
            "attention_factor": 1.0,
        }
    if not is_scaled:
        return {**rope, "rope_type": "default"}
    if kind == "linear":
        return {**rope, "rope_type": "linear", "factor": factor}
    if kind != "yarn":
        raise _not_read(file, f"{kind} scaling of positions")
    yarn = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": file.integer(f"{scaling}original_context_length"),
        "beta_fast": file.number(f"{scaling}yarn_beta_fast", 32.0),
        "beta_slow": file.number(f"{scaling}yarn_beta_slow", 1.0),
    }
    amplitude = file.number(f"{scaling}yarn_attn_factor", 0.0)
    if file.number(f"{scaling}yarn_ext_factor", 1.0) != 1.0:
        raise _not_read(file, "a share of YaRN (yarn_ext_factor)")
    return {**rope, **yarn, **({"attention_factor": amplitude} if amplitude else {})}


def _refuse_unread(file: GgufFile, prefix: str) -> None:
    """Refuse settings that would change what is computed, and that nothing here reads."""
    if not file.flag(f"{prefix}attention.causal", True):
        raise _not_read(file, "attention in both directions")
    for name in file.names():
        setting = name.removeprefix(prefix)
        if setting == name or setting in _READ or file.scalar(name) in (0, 1):
            continue
        if setting.startswith(_TELLING) or any(part in setting for part in _TELLING_PARTS):
            raise _not_read(file, f"a setting of its own ({name})")


def _not_read(file: GgufFile, what: str) -> ModelInvalid:
    return ModelInvalid(
        f"{file.path} has {what}, which is not read from GGUF",
        hint="Serve it with llama-server and pass --engine URL, or give its Hugging Face directory",
    )
