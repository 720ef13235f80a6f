"""A model's vocabulary as plain data, for grammars and incremental detokenization."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Vocab:
    """Token ids and their bytes.

    Attributes:
        token_bytes: Bytes by id; `b""` for special tokens and unused ids.
        special_ids: Id of each added special token, by its text. They never match text.
        eos_ids: Tokens that end an assistant message.
        tokenizer_json: Content of the `tokenizer.json`.
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
