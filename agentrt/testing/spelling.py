"""Tokenization in a scripted engine: by a codec, else one token a byte of UTF-8."""

from __future__ import annotations

import codecs
import json
from functools import cache, cached_property
from typing import TYPE_CHECKING, Protocol

from agentrt import embedded
from agentrt.base.segments import JSON_ARRAY_FRAME, PLAIN_THINK_FRAME, CallFrame, ThinkFrame
from agentrt.base.vocabulary import Vocab
from agentrt.prompt.byte_vocabulary import byte_vocabulary
from agentrt.prompt.token_bytes import byte_of_character

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from agentrt.prompt import Codec


class Spelling(Protocol):
    """Text to ids and back."""

    fingerprint: str
    call_frame: CallFrame
    think_frame: ThinkFrame
    window_tokens: int

    @property
    def vocab(self) -> Vocab:
        """Vocabulary for constraints."""

    def ids(self, text: str) -> tuple[int, ...]:
        """The tokens of `text`."""

    def pieces(self, ids: tuple[int, ...], *, keep_special: bool) -> list[str]:
        """The text added by each token (incremental detokenization)."""


class CodecSpelling:
    """The tokens of a model's codec."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.fingerprint = codec.fingerprint
        self.call_frame = codec.call_frame
        self.think_frame = codec.think_frame
        self.window_tokens = codec.window_tokens

    @property
    def vocab(self) -> Vocab:
        return self._codec.vocab

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer  # installed wherever there is a codec

        return Tokenizer.from_str(self.vocab.tokenizer_json)

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def pieces(self, ids: tuple[int, ...], *, keep_special: bool) -> list[str]:
        detokenizer = self._codec.detokenizer(keep_special)
        found = [detokenizer.feed_ids((token_id,)) for token_id in ids]
        return _with_tail(found, detokenizer.flush())


class ByteSpelling:
    """One token a byte of UTF-8."""

    fingerprint = ""
    call_frame = JSON_ARRAY_FRAME
    think_frame = PLAIN_THINK_FRAME
    window_tokens = 0

    @property
    def vocab(self) -> Vocab:
        return byte_vocabulary()

    def ids(self, text: str) -> tuple[int, ...]:
        return tuple(text.encode("utf-8", "replace"))

    def pieces(self, ids: tuple[int, ...], *, keep_special: bool) -> list[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        found = [decoder.decode(bytes((token_id,))) for token_id in ids]
        return _with_tail(found, decoder.decode(b"", final=True))


class WordSpelling:
    """Tokens of a few characters each, from the embedded model's vocabulary.

    So a text has about as many tokens as of a real model, which limits count. The longest token
    goes first, which needs no tokenizer library.
    """

    fingerprint = ""
    call_frame = JSON_ARRAY_FRAME
    think_frame = PLAIN_THINK_FRAME
    window_tokens = 0

    @property
    def vocab(self) -> Vocab:
        return _word_vocabulary()

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return {text: at for at, text in enumerate(self.vocab.token_bytes) if text}

    @cached_property
    def _longest_bytes(self) -> int:
        return max(map(len, self._ids))

    def ids(self, text: str) -> tuple[int, ...]:
        rest, found, at = text.encode("utf-8", "replace"), list[int](), 0
        while at < len(rest):
            for length in range(min(self._longest_bytes, len(rest) - at), 0, -1):
                if (token_id := self._ids.get(rest[at : at + length])) is not None:
                    found.append(token_id)
                    at += length
                    break
        return tuple(found)

    def pieces(self, ids: tuple[int, ...], *, keep_special: bool) -> list[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        found = [decoder.decode(self.vocab.token_bytes[token_id]) for token_id in ids]
        return _with_tail(found, decoder.decode(b"", final=True))


@cache
def _word_vocabulary() -> Vocab:
    """The embedded model's vocabulary."""
    text = (embedded.path() / "tokenizer.json").read_text("utf-8")
    tokenizer = json.loads(text)
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    words, byte_of = tokenizer["model"]["vocab"], byte_of_character()
    size = 1 + max(*words.values(), *special.values())
    token_bytes = [b""] * size
    for word, token_id in words.items():
        if word not in special:
            token_bytes[token_id] = bytes(byte_of[ord(letter)] for letter in word)
    return Vocab(tuple(token_bytes), special, (special["<|end|>"],), text, size, "words")


def _with_tail(pieces: list[str], tail: str) -> list[str]:
    if pieces and tail:
        pieces[-1] += tail
    return pieces
