"""Free thought before an answer, within a number of tokens: the first phase of an output.

The opening of the model's own frame is written, then text is free until the model writes the
marker, or until its tokens are used up: then the frame's closing is written for it. Whatever comes
behind that is the answer's matter, which starts from its own first token.
"""

from __future__ import annotations

import numpy as np

from agentrt.base.segments import ThinkFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.calls import pieces
from agentrt.structured.matcher import MaskRow, mask_words, set_only
from agentrt.structured.vocabulary import Alphabet, PerVocab, alphabet_of


class Thinking:
    """Where one sequence stands in its thought.

    Args:
        frame: How the model thinks.
        vocab: The model's vocabulary.
        most_tokens: Of thought; what the frame takes is not counted.

    Attributes:
        ended: The frame is closed: what follows is the answer.
        tokens: Taken so far, those of the frame with them.
    """

    __slots__ = (
        "_closing",
        "_frame",
        "_left",
        "_marker",
        "_next",
        "_tail",
        "_vocab",
        "ended",
        "tokens",
    )

    def __init__(self, frame: ThinkFrame, vocab: Vocab, most_tokens: int) -> None:
        self.ended = False
        self.tokens = 0
        self._frame = frame
        self._vocab = vocab
        self._marker = frame.marker.encode()
        self._left = most_tokens
        self._tail = b""
        self._closing = False  # what is next ends the thought
        self._next = [] if frame.opened else spelled(frame, frame.opening, vocab)
        if not self._next:
            self._go_on()

    @property
    def shortest(self) -> list[int]:
        """The tokens by which the thought can be ended now."""
        if self._closing or self.ended:
            return list(self._next)
        return [*self._next, *spelled(self._frame, self._frame.closing, self._vocab)]

    def fill_mask(self, row: MaskRow) -> bool:
        """Write the tokens that may come next; False where the answer is free, too."""
        if self.ended:
            return False
        if self._next:
            set_only(row, self._next[:1])
        else:
            row[:] = _free_row(self._frame, self._vocab)
        return True

    def take(self, token_id: int) -> bool:
        """Take a token; False for one that goes on behind the marker with something else."""
        if self._next:
            if token_id != self._next[0]:
                return False
            del self._next[0]
        elif not self._think(token_id):
            return False
        self.tokens += 1
        if not self._next:
            self._go_on()
        return True

    def forced(self, limit: int) -> list[int]:
        """Tokens of the frame that must come next, at most `limit`; they are taken."""
        taken: list[int] = []
        while self._next and len(taken) < limit:
            taken.append(self._next[0])
            self.take(self._next[0])
        return taken

    def end(self) -> None:
        """Let what comes next be the end of the thought."""
        self._next = self.shortest
        self._closing = True

    def _go_on(self) -> None:
        """Nothing is forced any more: thought begins, or the answer, or the end of the budget."""
        if self._closing:
            self.ended = True
        elif self._left <= 0:
            self.end()

    def _think(self, token_id: int) -> bool:
        text = self._tail + self._bytes_of(token_id)
        at = text.find(self._marker)
        if at < 0:
            self._tail = text[-(len(self._marker) - 1) :] if len(self._marker) > 1 else b""
            self._left -= 1
            return True
        behind, after = text[at + len(self._marker) :], self._frame.after
        if not after.encode().startswith(behind):
            return False
        rest = after.encode()[len(behind) :].decode(errors="ignore")
        self._next = spelled(self._frame, rest, self._vocab)
        self._closing = True
        return True

    def _bytes_of(self, token_id: int) -> bytes:
        if token_id == self._vocab.special_ids.get(self._frame.marker):
            return self._marker
        return self._vocab.token_bytes[token_id] if token_id < self._vocab.size else b""


def spelled(frame: ThinkFrame, text: str, vocab: Vocab) -> list[int]:
    """The tokens of a part of the frame: special ones by their id, the rest as text."""
    known = {name: vocab.special_ids[name] for name in frame.special if name in vocab.special_ids}
    alphabet: Alphabet = alphabet_of(vocab)
    parts = pieces(text, known)
    found = ([part] if isinstance(part, int) else alphabet.spell(part.encode()) for part in parts)
    return [token for tokens in found for token in tokens]


def _free_row(frame: ThinkFrame, vocab: Vocab) -> MaskRow:
    """All text, and the marker; no end and no other special token."""
    row = _text_row(vocab)
    marker = vocab.special_ids.get(frame.marker)
    if marker is None:
        return row
    row = row.copy()
    row.view(np.uint32)[marker >> 5] |= np.uint32(1 << (marker & 31))
    return row


def _build_text_row(vocab: Vocab) -> MaskRow:
    bits = np.zeros(mask_words(vocab.logits_size) * 32, dtype=np.uint8)
    bits[: vocab.size] = [bool(text) for text in vocab.token_bytes]
    bits[list(vocab.eos_ids)] = 0
    row: MaskRow = np.packbits(bits, bitorder="little").view(np.int32)
    return row


_text_row: PerVocab[MaskRow] = PerVocab(_build_text_row)
