"""Limits of the sizes in a `config.json`, checked before anything is built from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentrt.base.errors import ModelInvalid

_LIMITS = {
    "num_hidden_layers": 1_024,
    "hidden_size": 1 << 20,
    "intermediate_size": 1 << 22,
    "moe_intermediate_size": 1 << 22,
    "num_attention_heads": 1 << 14,
    "num_key_value_heads": 1 << 14,
    "head_dim": 1 << 14,
    "vocab_size": 10_000_000,
    "max_position_embeddings": 1 << 31,
    "num_experts": 1 << 14,
    "num_local_experts": 1 << 14,
    "num_experts_per_tok": 1 << 14,
}


def check_config(hf_config: Mapping[str, Any], file: Path) -> None:
    """Check the kind of a config, and the sizes in it and in the configs inside it.

    Raises:
        ModelInvalid: A size is no number, or far from those of any model.
    """
    if not isinstance(hf_config.get("model_type", ""), str):
        raise ModelInvalid(f"{file}: model_type is no text", hint="Copy the file again")
    for name, value in _sizes(hf_config):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not whole or isinstance(value, bool) or not 0 <= value <= _LIMITS[name]:
            raise ModelInvalid(
                f"{file}: {name} is {str(value)[:40]}", hint="Copy the file again, or correct it"
            )


def _sizes(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _sizes(value)
        elif name in _LIMITS and value is not None:
            for size in value if isinstance(value, list) else [value]:
                yield name, size
