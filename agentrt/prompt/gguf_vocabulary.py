"""The vocabulary that a GGUF file lists: its tokens, their types, merges and special ids."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.gguf.gguf_file import GgufFile

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of a token in `tokenizer.ggml.token_type`."""

_ENDS = ("eos", "eot", "eom")
_END_TEXTS = ("<|eot_id|>", "<|im_end|>", "<|endoftext|>", "<end_of_turn>")
"""Control tokens that end an output whatever a file declares, as llama.cpp takes them."""


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """Tokens of a file.

    Attributes:
        model: Kind of the tokenizer: `gpt2` is byte-level BPE, `llama` SentencePiece.
        tokens: Text of each id.
        types: Type of each id.
        merges: Merges of BPE, as `left right`.
        scores: Score of each id, of SentencePiece.
        special: Id by name, `bos`, `eos`, `unk` and so on, as far as they are named.
    """

    model: str
    tokens: list[str]
    types: list[int]
    merges: list[str]
    scores: list[float]
    special: dict[str, int]

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end an output."""
        named = [self.special[name] for name in _ENDS if name in self.special]
        known = [
            index
            for index, (text, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind == CONTROL and text in _END_TEXTS
        ]
        return tuple(dict.fromkeys((*named, *known)))

    @property
    def added(self) -> list[int]:
        """Ids of tokens that stand beside the model of the tokenizer."""
        kinds = (CONTROL, USER_DEFINED, UNKNOWN)
        return [index for index, kind in enumerate(self.types) if kind in kinds]

    @property
    def ids_by_text(self) -> dict[str, int]:
        """Vocabulary of the model: without added tokens if these stand behind all others."""
        kept = {
            index for index, kind in enumerate(self.types) if kind not in (UNUSED, CONTROL, *_ASIDE)
        }
        added = set(self.added)
        apart = bool(kept) and max(kept) == len(kept) - 1
        if not apart:
            kept |= added
        return {text: index for index, text in enumerate(self.tokens) if index in kept}


_ASIDE = (USER_DEFINED, UNKNOWN)
_NAMES = {
    "bos": "bos",
    "eos": "eos",
    "eot": "eot",
    "eom": "eom",
    "unk": "unknown",
    "pad": "padding",
    "sep": "seperator",  # the format's own spelling
    "cls": "cls",
    "mask": "mask",
}


def read_vocabulary(file: GgufFile) -> GgufVocabulary:
    """Read the vocabulary of a file.

    Raises:
        ModelInvalid: The lists are missing, or do not belong together.
    """
    tokens = file.texts("tokenizer.ggml.tokens")
    if not tokens:
        raise file.invalid("it has no vocabulary (tokenizer.ggml.tokens)")
    types = file.numbers("tokenizer.ggml.token_type") or [NORMAL] * len(tokens)
    scores = file.numbers("tokenizer.ggml.scores") or [0.0] * len(tokens)
    if len(types) != len(tokens) or len(scores) != len(tokens):
        raise file.invalid(
            f"it lists {len(tokens)} tokens, {len(types)} types and {len(scores)} scores"
        )
    special: dict[str, int] = {}
    for name, written in _NAMES.items():
        index = file.integer(f"tokenizer.ggml.{written}_token_id", -1)
        if 0 <= index < len(tokens):
            special[name] = index
    return GgufVocabulary(
        model=file.text("tokenizer.ggml.model"),
        tokens=tokens,
        types=types,
        merges=file.texts("tokenizer.ggml.merges"),
        scores=scores,
        special=special,
    )
