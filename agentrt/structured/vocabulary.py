"""A `Vocab` in the form of the grammar libraries, built once and cached by fingerprint."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from llguidance import LLTokenizer

from agentrt.base.errors import ModelInvalid
from agentrt.base.vocabulary import Vocab

T = TypeVar("T")

_IN_STRING = r'[^"\\\x00-\x1F\x7F]'
_SLICES = [f"{_IN_STRING}{{1,{most}}}" for most in (1, 2, 4, 7, 10, 16)] + [f"{_IN_STRING}+"]
"""Slices of the vocabulary by the number of characters that a token puts into a JSON string: if a
bounded string has room for so many, a whole slice is allowed at once. Measured over 128k tokens and
schemas with `maxLength`: the slowest masks take 0.55 ms, with the library's own slices 0.81 ms."""


class PerVocab(Generic[T]):
    """Cache of a costly value built from a vocabulary, for the few used last."""

    def __init__(self, build: Callable[[Vocab], T], keep: int = 4) -> None:
        self._build = build
        self._keep = keep
        self._lock = threading.Lock()
        self._made: OrderedDict[str, T] = OrderedDict()

    def __call__(self, vocab: Vocab) -> T:
        with self._lock:
            made = self._made.get(vocab.fingerprint)
            if made is None:
                made = self._build(vocab)
                self._made[vocab.fingerprint] = made
                while len(self._made) > self._keep:
                    self._made.popitem(last=False)
            self._made.move_to_end(vocab.fingerprint)
            return made


@dataclass(frozen=True, slots=True, eq=False)
class Alphabet:
    """A vocabulary prepared for grammars.

    Attributes:
        vocab: The vocabulary.
        tokenizer: Tokenizer for llguidance.
        byte_ids: Token of each single byte; None for a byte without one.
        longest_bytes: Length of the longest token in bytes.
    """

    vocab: Vocab
    tokenizer: LLTokenizer
    byte_ids: tuple[int | None, ...]
    longest_bytes: int

    def tokenize(self, text: bytes) -> list[int]:
        """Tokens of `text` by the model's own tokenizer; `text` is data.

        The name of a special token would become that token, so it is split.
        """
        named = [at for name in self.vocab.special_ids if (at := text.find(name.encode())) >= 0]
        if not named:
            tokens: list[int] = self.tokenizer.tokenize_bytes(text)
            return tokens
        cut = min(named)
        first = self.byte_ids[text[cut]]
        head = self.tokenize(text[:cut]) if cut else []
        return head + ([] if first is None else [first]) + self.tokenize(text[cut + 1 :])

    def tokenize_pieces(self, pieces: Sequence[str | int]) -> list[int]:
        """Tokens of pieces of text, and of special tokens given by id."""
        spelled = ([p] if isinstance(p, int) else self.tokenize(p.encode()) for p in pieces)
        return [token for tokens in spelled for token in tokens]

    def bytes_of(self, tokens: list[int]) -> bytes | None:
        """The text of tokens; None if a special token is among them."""
        table = self.vocab.token_bytes
        pieces = [table[token] if token < len(table) else b"" for token in tokens]
        return b"".join(pieces) if all(pieces) else None


def _build(vocab: Vocab) -> Alphabet:
    try:
        tokenizer = LLTokenizer(
            vocab.tokenizer_json,
            n_vocab=vocab.logits_size,
            eos_token=list(vocab.eos_ids),
            slices=_SLICES,
        )
    except ValueError as wrong:
        raise ModelInvalid(
            f"the tokenizer cannot be used for constraints: {wrong}",
            hint="Use a model with a tokenizer.json of the tokenizers library",
        ) from None
    byte_ids: list[int | None] = [None] * 256
    for token_id, text in enumerate(vocab.token_bytes):
        if len(text) == 1 and byte_ids[text[0]] is None:
            byte_ids[text[0]] = token_id
    return Alphabet(vocab, tokenizer, tuple(byte_ids), max(map(len, vocab.token_bytes)))


alphabet_of: PerVocab[Alphabet] = PerVocab(_build)
"""The `Alphabet` of a vocabulary; cached for the four used last."""
