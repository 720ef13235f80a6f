"""Architectures of GGUF files that are read, and the names of their tensors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentrt.base.errors import ModelInvalid
from agentrt.base.gguf.gguf_file import GgufFile


@dataclass(frozen=True, slots=True)
class GgufArchitecture:
    """One architecture of llama.cpp.

    Attributes:
        name: Value of `general.architecture`, and prefix of its metadata.
        model_type: The same model's name in a `config.json`.
        pairs_neighbours: Whether rotary positions turn neighbours in the file, while checkpoints
            of Hugging Face turn values half a head apart: the converter has reordered the rows of
            queries and keys.
        says_biases: Whether the config says if projections have biases.
    """

    name: str
    model_type: str
    pairs_neighbours: bool = False
    says_biases: bool = False


_ARCHITECTURES = {
    one.name: one
    for one in (
        GgufArchitecture("llama", "llama", pairs_neighbours=True, says_biases=True),  # and Mistral
        GgufArchitecture("qwen2", "qwen2"),
        GgufArchitecture("qwen3", "qwen3", says_biases=True),
    )
}

ROPE_FACTORS = "rope_freqs.weight"
"""Tensor with the factor of each wavelength: part of the config, not of the weights."""

_PLAIN = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_OF_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER = re.compile(r"blk\.(\d{1,4})\.(\w+)\.(weight|bias)")


def architecture_of(file: GgufFile) -> GgufArchitecture:
    """The architecture of a file.

    Raises:
        ModelInvalid: The architecture is not read here, or the file holds no whole model.
    """
    name, kind = file.text("general.architecture"), file.text("general.type", "model")
    hint = "Serve it with llama-server and pass --engine URL, or give its Hugging Face directory"
    if kind != "model":
        raise ModelInvalid(f"{file.path} holds a {kind}, no model", hint=hint)
    parts = file.integer("split.count", 1)
    if parts > 1:
        raise ModelInvalid(
            f"{file.path} is one of {parts} parts of a model",
            hint="Join them first: llama-gguf-split --merge FIRST_PART NEW_FILE",
        )
    if name not in _ARCHITECTURES:
        known = ", ".join(_ARCHITECTURES)
        raise ModelInvalid(
            f"{file.path} is of the architecture {name!r}, and GGUF is read of: {known}", hint=hint
        )
    return _ARCHITECTURES[name]


def checkpoint_name(name: str) -> str | None:
    """Name of a file's tensor in a checkpoint of Hugging Face; None if it is not known.

    Example:
        >>> checkpoint_name("blk.3.attn_q.weight")
        'model.layers.3.self_attn.q_proj.weight'
    """
    if name in _PLAIN:
        return _PLAIN[name]
    found = _LAYER.fullmatch(name)
    if found is None or found[2] not in _OF_A_LAYER:
        return None
    return f"model.layers.{int(found[1])}.{_OF_A_LAYER[found[2]]}.{found[3]}"
