"""Names and shapes of a decoder's weights in a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentrt.engine.models.native.expert_weights import Shapes, Weights, expert_shapes
from agentrt.engine.models.native.shape import DecoderShape, WeightNames
from agentrt.engine.models.quantisation import EMBEDDING, HEAD, Quantisation

_PART_PREFIXES = {
    "model.language_model.": "model.",
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "lm_head.": "lm_head.",
}
"""Prefixes of a decoder's weights in a larger model, and those in the decoder by itself."""


def weight_shapes(shape: DecoderShape) -> Shapes:
    """Shapes of all weights by name."""
    found: Shapes = {
        "model.embed_tokens.weight": (shape.vocabulary, shape.hidden),
        "model.norm.weight": (shape.hidden,),
    }
    if not shape.tied:
        found["lm_head.weight"] = (shape.vocabulary, shape.hidden)
    for layer in range(shape.layers):
        own = _attention(shape)
        if shape.experts is not None and shape.has_experts(layer):
            own |= expert_shapes(shape.names, shape.experts, shape.hidden)
        else:
            own |= _gated(shape)
        found |= {f"model.layers.{layer}.{name}": size for name, size in own.items()}
    return found


def parameter_count(shape: DecoderShape, weights: Weights) -> int:
    """Number of parameters; a head that repeats the embedding is none."""
    known = weight_shapes(shape)
    return sum(weight.numel() for name, weight in weights.items() if name in known)


def weight_bytes(shape: DecoderShape, value_bytes: int, quantisation: Quantisation | None) -> int:
    """Bytes of all weights as they are kept.

    Args:
        shape: Shape of the decoder.
        value_bytes: Bytes of a value that is not quantised.
        quantisation: Formats of the matrices, or None.
    """
    sizes = weight_shapes(shape)
    if shape.tied and quantisation is not None and quantisation.head_bits is not None:
        sizes[HEAD] = sizes[EMBEDDING]
    return _kept_bytes(sizes, value_bytes, quantisation)


def is_expert_weight(names: WeightNames, name: str) -> bool:
    """Whether a weight is one of routed experts.

    Args:
        names: Names of a decoder's weights.
        name: Name of the weight in the decoder.
    """
    return f".{names.expert.partition('{')[0]}" in name


def expert_bytes(shape: DecoderShape, value_bytes: int, quantisation: Quantisation | None) -> int:
    """Bytes of the weights of routed experts as they are kept; see `weight_bytes`."""
    sizes = {
        name: size
        for name, size in weight_shapes(shape).items()
        if shape.experts is not None and is_expert_weight(shape.names, name)
    }
    return _kept_bytes(sizes, value_bytes, quantisation)


def _kept_bytes(sizes: Shapes, value_bytes: int, quantisation: Quantisation | None) -> int:
    total = 0
    for name, size in sizes.items():
        packed = None if quantisation is None else quantisation.bytes_of(name, size)
        total += math.prod(size) * value_bytes if packed is None else packed
    return total


def own_name(shape: DecoderShape, name: str) -> str | None:
    """Name of a checkpoint's tensor in the decoder by itself; None if it is of another part."""
    if not shape.is_part:
        return name
    found = next((prefix for prefix in _PART_PREFIXES if name.startswith(prefix)), None)
    return None if found is None else _PART_PREFIXES[found] + name.removeprefix(found)


def shape_mismatch(shape: DecoderShape, found: Mapping[str, tuple[int, ...]]) -> str | None:
    """Difference of a checkpoint's weights from the expected ones; None if there is none."""
    expected = weight_shapes(shape)
    found = {own: size for name, size in found.items() if (own := own_name(shape, name))}
    for name in expected:
        if name not in found:
            return f"it lacks {name}"
        if found[name] != expected[name]:
            return f"{name} is {found[name]}, not {expected[name]}"
    for name in found:
        if name not in expected and not _is_unused(name):
            return f"it holds {name}"
    return None


def _attention(shape: DecoderShape) -> Shapes:
    query, pair = shape.query_width, shape.kv_width
    rows = (query, pair, pair) if len(shape.names.qkv) > 1 else (query + 2 * pair,)
    names = shape.names
    norms = (names.norm, names.out_norm, names.inner_norm, names.inner_out_norm)
    found: Shapes = {f"{name}.weight": (shape.hidden,) for name in norms if name}
    found["self_attn.o_proj.weight"] = (shape.hidden, query)
    for name, count in zip(shape.names.qkv, rows, strict=True):
        found[f"{name}.weight"] = (count, shape.hidden)
        if shape.qkv_bias:
            found[f"{name}.bias"] = (count,)
    if shape.out_bias:
        found["self_attn.o_proj.bias"] = (shape.hidden,)
    if shape.sinks:
        found["self_attn.sinks"] = (shape.heads,)
    if shape.head_norms != "none":
        found |= {
            "self_attn.q_norm.weight": _head_norm(shape, shape.heads),
            "self_attn.k_norm.weight": _head_norm(shape, shape.kv_heads),
        }
    return found


def _head_norm(shape: DecoderShape, heads: int) -> tuple[int, ...]:
    own, width = (heads, shape.head_dim), heads * shape.head_dim
    return own if shape.head_norms == "own" else own[1:] if shape.head_norms == "each" else (width,)


def _gated(shape: DecoderShape) -> Shapes:
    names = shape.names
    rows = 2 * shape.inner // len(names.gate_up)
    found: Shapes = {f"{name}.weight": (rows, shape.hidden) for name in names.gate_up}
    found[f"{names.down}.weight"] = (shape.hidden, shape.inner)
    if shape.mlp_bias:
        found |= {f"{name}.bias": (rows,) for name in names.gate_up}
        found[f"{names.down}.bias"] = (shape.hidden,)
    return found


def _is_unused(name: str) -> bool:
    """Whether models do not read this tensor of a checkpoint."""
    return name.endswith("rotary_emb.inv_freq") or name == "lm_head.weight"
