"""From a `config.json` to the rotary positions of a decoder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agentrt.engine.models.native.shape import Rope, Yarn

ROPE_KINDS = ("default", "dynamic", "linear", "llama3", "longrope", "yarn")
_ORIGINAL = "original_max_position_embeddings"
_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL)


def layer_config(
    config: Mapping[str, Any], layer_type: str, local_theta: tuple[str, float]
) -> dict[str, Any]:
    """The config with the rope settings of one type of layer alone.

    Configs of old versions scale layers without a window only, and give the others a theta of their
    own.

    Args:
        config: Config of the model.
        layer_type: As in `layer_types`.
        local_theta: Setting and default of the theta of layers with a window.
    """
    new = config.get("rope_parameters") or {}
    own = {**config, "rope_parameters": new.get(layer_type)}
    if layer_type == "sliding_attention":
        setting, default = local_theta
        own |= {"rope_scaling": None, "rope_theta": config.get(setting) or default}
    return own


def rope_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rope settings of a config, in the names of old and new versions."""
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    part = rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
    theta = rope.get("rope_theta") or config.get("rope_theta")
    return {**rope, "kind": kind, "partial_rotary_factor": part, "rope_theta": theta}


def rope_of(config: Mapping[str, Any], head_dim: int) -> Rope | None:
    """Rotary positions of a config; None if it does not say how they turn."""
    rope = rope_settings(config)
    if not are_positive([rope["rope_theta"], rope["partial_rotary_factor"]]):
        return None
    theta, width = float(rope["rope_theta"]), int(head_dim * rope["partial_rotary_factor"])
    if rope["kind"] == "linear":
        ok = are_positive([rope.get("factor")])
        return Rope(theta, width, factor=float(rope["factor"])) if ok else None
    if rope["kind"] in ("default", "dynamic"):  # dynamic scales beyond the longest context only
        return Rope(theta, width)
    if rope["kind"] == "longrope":
        return _longrope(config, rope, theta, width)
    if rope["kind"] == "yarn":
        return _yarn(config, rope, theta, width)
    if not are_positive([rope.get(name) for name in _LLAMA3]):
        return None
    factor, low, high, length = (float(rope[name]) for name in _LLAMA3)
    return Rope(theta, width, llama3=(factor, low, high, length))


def _longrope(
    config: Mapping[str, Any], rope: Mapping[str, Any], theta: float, width: int
) -> Rope | None:
    """Angles up to the original length, and beyond it if the config gives factors for that."""
    factors, original = rope.get("short_factor"), config.get(_ORIGINAL) or rope.get(_ORIGINAL)
    if not isinstance(factors, list) or not are_positive([*factors, original]):
        return None
    if len(factors) != width // 2 or not original:
        return None
    factor = rope.get("factor") or config["max_position_embeddings"] / original
    amplitude = rope.get("attention_factor")
    if amplitude is None:
        amplitude = math.sqrt(1 + max(0.0, math.log(factor)) / math.log(original))
    short = Rope(theta, width, factors=tuple(map(float, factors)), amplitude=float(amplitude))
    longer, most = rope.get("long_factor"), config["max_position_embeddings"]
    if config.get(_ORIGINAL) != original or most <= original or not isinstance(longer, list):
        return short
    if len(longer) != width // 2 or not are_positive(longer):
        return None
    return replace(short, long_factors=tuple(map(float, longer)), threshold=int(original))


def _yarn(
    config: Mapping[str, Any], rope: Mapping[str, Any], theta: float, width: int
) -> Rope | None:
    original = rope.get(_ORIGINAL)
    if not original or not are_positive([original]) or "short_factor" in rope:
        return None
    factor = float(rope.get("factor") or config["max_position_embeddings"] / original)
    fast, slow = float(rope.get("beta_fast") or 32), float(rope.get("beta_slow") or 1)
    yarn = Yarn(factor, fast, slow, float(original), bool(rope.get("truncate", True)))
    amplitude, scale, all_scale = (
        rope.get(name) for name in ("attention_factor", "mscale", "mscale_all_dim")
    )
    if amplitude is None and scale and all_scale:
        amplitude = _yarn_amplitude(factor, scale) / _yarn_amplitude(factor, all_scale)
    elif amplitude is None:
        amplitude = _yarn_amplitude(factor, 1.0)
    return Rope(theta, width, yarn=yarn, amplitude=float(amplitude))


def _yarn_amplitude(factor: float, scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0


def are_positive(values: Iterable[Any]) -> bool:
    """Whether all values are positive numbers."""
    return all(isinstance(value, int | float) and value > 0 for value in values)
