"""From a `config.json` to the shape of a decoder, or the reason why it is not supported here.

Any doubt about the family, by the config or (in `weights`) by the names of the weights, leaves the
model to transformers: a wrong guess would be wrong text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from agentrt.engine.models.native.families import FAMILIES, Family
from agentrt.engine.models.native.rope_config import (
    ROPE_KINDS,
    are_positive,
    layer_config,
    rope_of,
    rope_settings,
)
from agentrt.engine.models.native.shape import DecoderShape, ExpertShape, Rope
from agentrt_kernels.contract import GELU_TANH, SILU, Activation

HfConfig = dict[str, Any]

_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
    "max_position_embeddings",
)
_LAYER_TYPES = ("full_attention", "sliding_attention")
_ACTIVATIONS = {"silu": SILU, "gelu_pytorch_tanh": GELU_TANH}


@dataclass(frozen=True, slots=True)
class Declined:
    """A model that is left to transformers.

    Attributes:
        reason: Why.
    """

    reason: str


def shape_of(config: HfConfig) -> DecoderShape | Declined:
    """The shape that a `config.json` describes, or why it is left to transformers."""
    decoder = _decoder_config(config)
    is_part = decoder is not config
    kind = decoder.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        return Declined(f"{kind} is no architecture that is computed here")
    config = {**decoder, **_defaults(family, decoder)}
    try:
        reason = next(_objections(family, config), None)
        if reason:
            return Declined(reason)
        return replace(_shape(family, config), is_part=is_part)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return Declined(f"its config cannot be read: {error}")


def _decoder_config(config: HfConfig) -> HfConfig:
    """The config of the decoder alone, of a model that may see or hear as well."""
    text = config.get("text_config")
    if not isinstance(text, dict):
        return config
    ties = {"tie_word_embeddings": config.get("tie_word_embeddings")}
    return {**text, **{name: tied for name, tied in ties.items() if tied is not None}}


def _defaults(family: Family, config: HfConfig) -> HfConfig:
    return {name: value for name, value in family.defaults.items() if config.get(name) is None}


def _objections(family: Family, config: HfConfig) -> Iterator[str]:
    missing = [name for name in (*_SIZES, *_expert_sizes(family)) if not _is_size(config, name)]
    missing += [name for name in _settings(family) if config.get(name) is None]
    bounds = (family.score_softcap, family.logits_softcap)
    missing += [name for name in bounds if name and name not in config]  # null is no bound
    if missing and (missing != ["sliding_window"] or "sliding_window" not in config):
        yield f"its config does not say {missing[0]}"
    if _activation(family, config) not in _ACTIVATIONS:
        yield f"its activation is {config.get(family.activation)}"
    for name in family.absent:
        if config.get(name):
            yield f"its config sets {name}"
    for name in ("attention_bias", "mlp_bias"):
        if config.get(name) and name not in (family.qkv_bias, family.mlp_bias):
            yield f"its config sets {name}"
    if family.scales_rope and not (config.get("rope_parameters") or config.get("rope_scaling")):
        yield "its config does not say how positions turn"
    odd = set(_types(config)) - set(_LAYER_TYPES)
    by_type = family.window in ("types", "used types")
    if odd or (not by_type and "sliding_attention" in _types(config)):
        yield f"it has layers of types {sorted(set(_types(config)))}"
    if by_type:
        yield from _objections_to_windows(family, config)
    if family.rotated and len(config[family.rotated]) != config["num_hidden_layers"]:
        yield f"its {family.rotated} are not one a layer"
    if config["num_attention_heads"] % config["num_key_value_heads"]:
        yield "its heads do not share keys evenly"
    for layer_type in _LAYER_TYPES:
        yield from _objections_to_positions(_rope_config(family, config, layer_type))


def _objections_to_positions(config: HfConfig) -> Iterator[str]:
    kind, head_dim = rope_settings(config)["kind"], _head_dim(config)
    if kind not in ROPE_KINDS:
        yield f"its positions are of type {kind}"
        return
    rope = rope_of(config, head_dim)
    if rope is None:
        yield "its config does not say how positions turn"
    elif head_dim % 2 or rope.width % 2:
        yield "its heads do not turn in halves"


def _objections_to_windows(family: Family, config: HfConfig) -> Iterator[str]:
    types = _types(config)
    if family.window == "types":
        types = types or _periodic_types(family, config)
    elif config.get("use_sliding_window") and not types and config.get("max_window_layers") is None:
        yield "its config does not say which layers have a window"
    if "sliding_attention" not in types:
        return
    if len(types) != config["num_hidden_layers"] or not config.get("sliding_window"):
        yield "its config does not say how wide the windows of its layers are"


def _shape(family: Family, config: HfConfig) -> DecoderShape:
    layers, heads, hidden = (
        int(config[name]) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")
    )
    head_dim = _head_dim(config)
    windows = _windows(family, config, layers)

    def number(name: str, otherwise: float = 1.0) -> float:
        return float(config[name]) if name else otherwise

    scaling = number(family.score_factor, number(family.query_scalar, head_dim) ** -0.5)
    root = math.sqrt(hidden) if family.embedding_root else 1.0
    return DecoderShape(
        hidden=hidden,
        inner=int(config["intermediate_size"]),
        layers=layers,
        heads=heads,
        kv_heads=int(config["num_key_value_heads"]),
        head_dim=head_dim,
        vocabulary=int(config["vocab_size"]),
        positions=int(config["max_position_embeddings"]),
        epsilon=float(config[family.epsilon]),
        norm_offset=family.norm_offset,
        centered=family.centered,
        parallel=family.parallel,
        activation=_gate(family, config),
        ropes=_ropes(family, config, windows),
        windows=windows,
        scaling=scaling,
        softcap=_softcap(config, family.score_softcap),
        sinks=family.sinks,
        qkv_bias=_is_set(config, family.qkv_bias),
        out_bias=_is_set(config, family.out_bias),
        mlp_bias=_is_set(config, family.mlp_bias),
        head_norms=family.head_norms if _is_set(config, family.uses_head_norms) else "none",
        experts=_experts(family, config, layers),
        tied=bool(config["tie_word_embeddings"]),
        embedding_scale=number(family.embedding_factor, root),
        rounds_embedding_scale=family.embedding_root,
        residual_scale=number(family.residual_factor),
        logits_scale=number(family.logits_factor) / number(family.logits_divisor),
        logits_softcap=_softcap(config, family.logits_softcap),
        names=family.names,
        is_part=False,
        initial_deviation=float(config.get("initializer_range") or 0.02),
    )


def _ropes(
    family: Family, config: HfConfig, windows: tuple[int | None, ...]
) -> tuple[Rope | None, ...]:
    kinds = {kind: _rope(family, config, kind) for kind in _LAYER_TYPES}
    ropes = [
        kinds["full_attention" if window is None else "sliding_attention"] for window in windows
    ]
    if family.rotates_windows:
        return tuple(rope if window else None for rope, window in zip(ropes, windows, strict=True))
    rotated = config[family.rotated] if family.rotated else [True] * len(ropes)
    return tuple(rope if turns else None for rope, turns in zip(ropes, rotated, strict=True))


def _rope(family: Family, config: HfConfig, layer_type: str) -> Rope:
    rope = rope_of(_rope_config(family, config, layer_type), _head_dim(config))
    assert rope is not None
    if not family.follows_length:
        rope = replace(rope, long_factors=(), threshold=0)
    return replace(rope, interleaved=family.interleaved)


def _rope_config(family: Family, config: HfConfig, layer_type: str) -> HfConfig:
    if family.local_theta is None:
        return config
    return layer_config(config, layer_type, family.local_theta)


def _activation(family: Family, config: HfConfig) -> str:
    name = str(config.get(family.activation))
    return "gelu_pytorch_tanh" if family.gelu_is_tanh and name == "gelu" else name


def _gate(family: Family, config: HfConfig) -> Activation:
    opening = _ACTIVATIONS[_activation(family, config)]
    return replace(
        opening,
        slope=float(config[family.gate_slope]) if family.gate_slope else opening.slope,
        limit=float(config[family.gate_limit]) if family.gate_limit else opening.limit,
        shift=family.gate_shift,
    )


def _softcap(config: HfConfig, name: str) -> float | None:
    value = config.get(name) if name else None
    return None if value is None else float(value)


def _windows(family: Family, config: HfConfig, layers: int) -> tuple[int | None, ...]:
    window = config.get("sliding_window") or None
    if family.window == "none":
        window = None
    if family.window in ("used", "used types") and not config.get("use_sliding_window"):
        window = None
    if window is None or family.window in ("all", "used"):
        return (window,) * layers
    types = _types(config)
    if not types and family.window == "types":
        types = _periodic_types(family, config)
    elif not types:
        first = config.get("max_window_layers", 0)
        types = ["sliding_attention" if at >= first else "" for at in range(layers)]
    return tuple(window if kind == "sliding_attention" else None for kind in types)


def _periodic_types(family: Family, config: HfConfig) -> list[str]:
    period = int(config.get(family.period_setting) or family.window_period)
    layers = range(1, int(config["num_hidden_layers"]) + 1)
    return ["sliding_attention" if layer % period else "full_attention" for layer in layers]


def _experts(family: Family, config: HfConfig, layers: int) -> ExpertShape | None:
    if not family.experts:
        return None
    step = int(config.get("decoder_sparse_step") or 1)
    plain = set(config.get("mlp_only_layers") or ())
    return ExpertShape(
        count=int(config.get("num_local_experts") or config["num_experts"]),
        experts_per_token=int(config["num_experts_per_tok"]),
        inner=int(config[family.experts]),
        normalizes_weights=_is_set(config, family.normalizes_weights),
        rounds_weights=family.rounds_weights,
        shared_inner=int(config[family.shared]) if family.shared else 0,
        biased=family.biased_experts,
        layers=frozenset(at for at in range(layers) if (at + 1) % step == 0 and at not in plain),
    )


def _settings(family: Family) -> Iterator[str]:
    """Settings that a config has to give."""
    yield family.epsilon
    yield "tie_word_embeddings"
    yield from family.needs
    factors = (
        *(family.query_scalar, family.score_factor, family.embedding_factor),
        *(family.residual_factor, family.logits_factor, family.logits_divisor),
        *(family.gate_slope, family.gate_limit),
    )
    yield from (name for name in factors if name)


def _expert_sizes(family: Family) -> tuple[str, ...]:
    if not family.experts:
        return ()
    sizes = ("num_experts", "num_experts_per_tok", family.experts, family.shared)
    return tuple(name for name in sizes if name)


def _is_size(config: HfConfig, name: str) -> bool:
    value = config.get(name)
    if name == "num_experts" and value is None:
        value = config.get("num_local_experts")
    return are_positive([value])


def _is_set(config: HfConfig, what: bool | str) -> bool:
    return bool(config.get(what)) if isinstance(what, str) else what


def _types(config: HfConfig) -> list[str]:
    return list(config.get("layer_types") or ())


def _head_dim(config: HfConfig) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
