"""The decision how much of a prompt is worth a warm-up. Pure."""

from __future__ import annotations

LEAST_NEW_TOKENS = 256
"""Tokens beyond those that the cache has already: a warm-up costs a request and a step."""


def prefix_to_warm(known_tokens: int, reached_tokens: int, block_tokens: int) -> int:
    """Length of the prefix that a warm-up computes; 0 if none is worth it yet.

    Args:
        known_tokens: Tokens of the prompt that are known. They never change.
        reached_tokens: Tokens of them that the cache is believed to have.
        block_tokens: Tokens of a block of the cache: what is behind the last whole block is not
            found again.

    Example:
        >>> prefix_to_warm(1000, 0, 64), prefix_to_warm(1000, 800, 64)
        (960, 0)
    """
    whole_tokens = known_tokens - known_tokens % block_tokens
    return whole_tokens if whole_tokens - reached_tokens >= LEAST_NEW_TOKENS else 0
