"""Longest context of a model, up to where its positions are those of every shorter context.

Longrope and dynamic scaling choose the angles of all positions by the length of the sequence:
beyond a threshold, keys that are already stored have to be computed anew. The engine does so where
`generate()` does, for longrope in a decoder of its own; else a context ends at the threshold: for
longrope at the original length, for dynamic scaling at the length that the config names. With
dynamic scaling beyond it, `generate()` gives no text of its own to a prompt: the angles depend on
the longest sequence that the model has seen before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

_ORIGINAL_TOKENS = 4096
"""Original length of longrope if a config does not say: that of Phi-3, and the least in use."""


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """Longest context.

    Attributes:
        tokens: Number of tokens; 0 if the config does not say.
        reason: Why it is shorter than the config says; "" if it is not.
    """

    tokens: int
    reason: str = ""


def context_limit(hf_config: Mapping[str, Any], *, follows_length: bool = False) -> ContextLimit:
    """Longest context of the model with this `config.json`.

    Args:
        hf_config: Content of the file.
        follows_length: Whether each sequence has the angles of its own length.
    """
    text = hf_config.get("text_config")
    config = {**hf_config, **text} if isinstance(text, dict) else hf_config
    named = (config.get(name) for name in ("max_position_embeddings", "n_positions", "max_seq_len"))
    tokens = next((int(size) for size in named if _is_positive(size)), 0)
    for rope in _rope_settings(config):
        kind = rope.get("rope_type") or rope.get("type")
        if kind in ("longrope", "su"):
            named = (one.get("original_max_position_embeddings") for one in (config, rope))
            original = min(
                (int(size) for size in named if _is_positive(size)), default=_ORIGINAL_TOKENS
            )
            if original < tokens and not follows_length:
                reason = f"longrope has other angles in sequences of over {original} tokens"
                return ContextLimit(original, reason)
    return ContextLimit(tokens)


def _rope_settings(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Settings of rotary positions, of all layers or of each type of layer."""
    for name in ("rope_scaling", "rope_parameters"):
        settings = config.get(name)
        if isinstance(settings, dict):
            yield settings
            yield from (inner for inner in settings.values() if isinstance(inner, dict))


def _is_positive(size: Any) -> TypeGuard[float]:
    return isinstance(size, int | float) and size > 0
