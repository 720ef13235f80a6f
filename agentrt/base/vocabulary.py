"""A model's vocabulary as plain data: what constraints and detokenising need of a tokenizer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Vocab:
    """Token ids and the bytes they stand for.

    Attributes:
        token_bytes: By id; special tokens and unused ids have `b""`.
        special_ids: Text of each added special token -> its id. They never match text.
        eos_ids: Tokens that end an assistant message.
        tokenizer_json: The `tokenizer.json` this came from.
        logits_size: Width of the model's logits, at least `len(token_bytes)`.
        fingerprint: Hash of all of the above.
    """

    token_bytes: tuple[bytes, ...]
    special_ids: dict[str, int]
    eos_ids: tuple[int, ...]
    tokenizer_json: str
    logits_size: int
    fingerprint: str

    @property
    def size(self) -> int:
        """Number of token ids."""
        return len(self.token_bytes)
