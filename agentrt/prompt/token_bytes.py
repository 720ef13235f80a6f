"""The bytes of each token, read from `tokenizer.json`.

Three families encode them differently: byte-level BPE maps each byte to a printable character,
SentencePiece writes a space as `▁` and odd bytes as `<0x0A>`, and the rest is plain UTF-8.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, Literal

from agentrt.base.errors import ModelInvalid

Family = Literal["byte_level", "sentencepiece", "plain"]
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE = "\u2581"
_AT_ONCE = 1024
"""Tokens whose bytes are found at once."""


def byte_of_character() -> dict[int, int]:
    """The byte of each character of byte-level BPE, all 256 of them."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    table = {byte: byte for byte in shown}
    table.update({256 + index: byte for index, byte in enumerate(hidden)})
    return table


def family_of(tokenizer: dict[str, Any]) -> Family:
    """The family of a tokenizer, by its encoding of bytes.

    Raises:
        ModelInvalid: The decoder drops bytes, so that the text of a token is unknown.
    """
    steps = list(_steps(tokenizer.get("decoder"), "decoders"))
    names = {step.get("type") for step in steps}
    if names & {"WordPiece", "CTC"}:
        raise ModelInvalid(
            f"tokenizer.json has a {'/'.join(sorted(map(str, names)))} decoder",
            hint="Take a model that generates text (byte-level BPE or SentencePiece)",
        )
    before = {step.get("type") for step in _steps(tokenizer.get("pre_tokenizer"), "pretokenizers")}
    if "ByteLevel" in names or "ByteLevel" in before:
        return "byte_level"
    if names & {"ByteFallback", "Metaspace"} or "Metaspace" in before or _replaces_space(steps):
        return "sentencepiece"
    return "plain"


def vocab_of(tokenizer: dict[str, Any]) -> dict[str, int]:
    """Id by token text in the model itself, without added tokens.

    Raises:
        ModelInvalid: The vocabulary is in an unknown form.
    """
    vocab = tokenizer.get("model", {}).get("vocab")
    if isinstance(vocab, dict):
        return vocab
    if isinstance(vocab, list):  # Unigram: [[text, score], ...]
        return {entry[0]: index for index, entry in enumerate(vocab)}
    raise ModelInvalid("tokenizer.json holds no vocabulary", hint="Save the tokenizer again")


def bytes_by_id(tokenizer: dict[str, Any]) -> dict[int, bytes]:
    """Bytes by id of every token of the model, without added tokens."""
    family = family_of(tokenizer)
    vocab = vocab_of(tokenizer)
    if family == "byte_level":
        return dict(zip(vocab.values(), _byte_level(list(vocab)), strict=True))
    if family == "sentencepiece":
        return {index: _sentencepiece(text) for text, index in vocab.items()}
    return {index: text.encode() for text, index in vocab.items()}


def _byte_level(texts: list[str]) -> Iterator[bytes]:
    """The bytes of each text; many at once, as one call takes as long for a token as for ten."""
    table = byte_of_character()
    shown = codecs.charmap_build("".join(map(chr, sorted(table, key=table.__getitem__))))
    for first in range(0, len(texts), _AT_ONCE):
        some = texts[first : first + _AT_ONCE]
        try:
            whole, _ = codecs.charmap_encode("".join(some), "strict", shown)
        except UnicodeEncodeError:  # an added token is among them
            yield from (_byte_level_token(text, table) for text in some)
            continue
        ends = accumulate(map(len, some), initial=0)
        yield from (whole[start:end] for start, end in pairwise(ends))


def _byte_level_token(text: str, table: dict[int, int]) -> bytes:
    try:
        return text.translate(table).encode("latin-1")
    except UnicodeEncodeError:  # an added token that the model's vocabulary lists too
        return text.encode()


def _sentencepiece(text: str) -> bytes:
    byte = BYTE_TOKEN.fullmatch(text)
    if byte:
        return bytes([int(byte[1], 16)])
    return text.replace(SPACE, " ").encode()


def _replaces_space(steps: list[dict[str, Any]]) -> bool:
    return any(
        step.get("type") == "Replace" and step.get("pattern", {}).get("String") == SPACE
        for step in steps
    )


def _steps(part: Any, key: str) -> Iterator[dict[str, Any]]:
    """The steps of a decoder or pre-tokenizer, nested sequences flattened."""
    if not isinstance(part, dict):
        return
    if part.get("type") == "Sequence":
        for step in part.get(key, ()):
            yield from _steps(step, key)
    else:
        yield part
