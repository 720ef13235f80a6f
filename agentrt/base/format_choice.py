"""Formats in which the embedded engine keeps weights and KV, checked before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from agentrt.base.config import (
    ActivationChoice,
    EngineConfig,
    HeadWeights,
    KvCacheDtype,
    WeightChoice,
)
from agentrt.base.errors import UsageError

FORMATS: dict[str, tuple[str, ...]] = {
    "weights": get_args(WeightChoice),
    "activations": get_args(ActivationChoice),
    "kv_cache_dtype": get_args(KvCacheDtype),
}
"""Formats that flags and `agentrt.toml` choose, by fields of `EngineConfig`."""
GROUPS = (0, 32, 64, 128)
"""Inputs that may share a scale; 0 takes what suits the format."""
_CHECKED: dict[str, tuple[object, ...]] = {
    "weights": FORMATS["weights"],
    "weight_group": GROUPS,
    "head_weights": get_args(HeadWeights),
    "activations": FORMATS["activations"],
    "kv_cache_dtype": FORMATS["kv_cache_dtype"],
}


def check_formats(config: EngineConfig) -> None:
    """Check the formats of an engine, and the settings of quantised weights.

    Raises:
        UsageError: One is unknown, or means nothing beside the others.
    """
    for name, known in _CHECKED.items():
        if getattr(config, name) not in known:
            raise UsageError(
                f"EngineConfig({name}={getattr(config, name)!r}) is unknown",
                hint=f"Give {_listed(known)}",
            )
    for name, default in (("weight_group", 0), ("head_weights", "auto")):
        if config.weights == "checkpoint" and getattr(config, name) != default:
            raise UsageError(
                f"EngineConfig({name}={getattr(config, name)!r}) is for quantised weights",
                hint="Give weights='int8' or weights='int4' too, or leave it",
            )


def with_formats(
    config: EngineConfig, weights: str = "", activations: str = "", kv_cache_dtype: str = ""
) -> EngineConfig:
    """Settings of an engine as `--weights`, `--activations` and `--kv-cache-dtype` say.

    Args:
        config: The settings without the flags.
        weights: Format of the weights; "" changes nothing, here and below.
        activations: Format of the rows that quantised weights multiply.
        kv_cache_dtype: Type of cached keys and values.

    Raises:
        UsageError: A name is that of no format.

    Example:
        >>> from pathlib import Path
        >>> with_formats(EngineConfig(Path("model")), kv_cache_dtype="int8").kv_cache_dtype
        'int8'
    """
    given = {"weights": weights, "activations": activations, "kv_cache_dtype": kv_cache_dtype}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value}
    for name, value in chosen.items():
        if value not in FORMATS[name]:
            fault = "is unknown" if name == "kv_cache_dtype" else "is no format"
            raise UsageError(
                f"--{name.replace('_', '-')} {value!r} {fault}",
                hint=f"give {_listed(FORMATS[name])}",
            )
    return replace(config, **chosen) if chosen else config


def _listed(known: tuple[object, ...]) -> str:
    return f"{', '.join(str(one) for one in known[:-1])} or {known[-1]}"
