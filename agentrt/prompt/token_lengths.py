"""Length of the text that one token can stand for, by the settings of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentrt.prompt.token_bytes import SPACE, family_of

_COMPOSED = 3
"""Bytes of text that Unicode's composition turns into one: the Kelvin sign into a K."""

_EVERY_BYTE = frozenset(bytes([byte]) for byte in range(256))

_KEEPING = frozenset({"ByteLevel", "Metaspace", "Digits", "Split", "Punctuation", "UnicodeScripts"})
"""Pre-tokenizers that drop nothing, unless they are told to remove what they split at."""


def most_text_bytes(
    tokenizer: dict[str, Any], kept: Sequence[dict[str, Any]], token_bytes: Sequence[bytes]
) -> int:
    """Most bytes of text that become one token; 0 without a limit, as where text can be dropped.

    Args:
        tokenizer: The parsed `tokenizer.json`.
        kept: Added tokens that are text.
        token_bytes: Bytes of each token.
    """
    shrinks = _shrinks(tokenizer.get("normalizer"))
    if not _keeps(tokenizer.get("pre_tokenizer")) or not _spells_all(tokenizer, token_bytes):
        return 0
    if any(entry.get("lstrip") or entry.get("rstrip") for entry in kept):
        return 0
    return shrinks * max(map(len, token_bytes), default=0)


def _shrinks(normalizer: Any) -> int:
    """Most bytes of text that a normalizer turns into one; 0 without a limit."""
    if normalizer is None:
        return 1
    kind = normalizer.get("type")
    if kind == "Sequence":
        found = 1
        for step in normalizer.get("normalizers", ()):
            found *= _shrinks(step)
        return found
    if kind in ("NFC", "NFD"):
        return _COMPOSED
    writes_spaces = normalizer.get("pattern") == {"String": " "}
    if kind == "Replace" and writes_spaces and normalizer.get("content") == SPACE:
        return 1
    return 1 if kind in ("Prepend", "ByteLevel") else 0


def _keeps(pre_tokenizer: Any) -> bool:
    """Whether a pre-tokenizer drops nothing."""
    if pre_tokenizer is None:
        return True
    kind = pre_tokenizer.get("type")
    if kind == "Sequence":
        return all(map(_keeps, pre_tokenizer.get("pretokenizers", ())))
    return kind in _KEEPING and pre_tokenizer.get("behavior") != "Removed"


def _spells_all(tokenizer: dict[str, Any], token_bytes: Sequence[bytes]) -> bool:
    """Whether each byte has a token, so that no run of unknown characters becomes one."""
    if _EVERY_BYTE.difference(token_bytes):
        return False
    falls_back = tokenizer.get("model", {}).get("byte_fallback", False)
    return family_of(tokenizer) == "byte_level" or bool(falls_back)
