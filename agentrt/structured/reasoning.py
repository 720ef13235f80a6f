"""Thinking budget: the reasoning phase of an output, within a number of tokens.

The opening of the model's own frame is written, then text is free until the model writes the marker
or its tokens are used up: then the frame's closing is written for it. The answer follows, with its
own constraint from its first token.
"""

from __future__ import annotations

import numpy as np

from agentrt.base.segments import ThinkFrame
from agentrt.base.vocabulary import Vocab
from agentrt.structured.json_schema.lark_text import pieces
from agentrt.structured.matcher import MaskRow, row_of, set_only
from agentrt.structured.vocabulary import Alphabet, PerVocab, alphabet_of


class Thinking:
    """State of one sequence's reasoning.

    Args:
        frame: Frame of the model's reasoning.
        vocab: The model's vocabulary.
        max_tokens: Thinking budget in tokens; the frame is not counted.

    Attributes:
        ended: Whether the frame is closed and the answer follows.
        tokens: Accepted tokens, the frame's included.
    """

    def __init__(self, frame: ThinkFrame, vocab: Vocab, max_tokens: int) -> None:
        self.ended = False
        self.tokens = 0
        self._frame = frame
        self._vocab = vocab
        self._marker = frame.marker.encode()
        self._left_tokens = max_tokens
        self._tail = b""
        self._closing = False  # the forced tokens end the thought
        self._forced_ids = [] if frame.opened else frame_tokens(frame, frame.opening, vocab)
        if not self._forced_ids:
            self._after_forced()

    @property
    def shortest(self) -> list[int]:
        """Tokens that would end the thought now."""
        if self._closing or self.ended:
            return list(self._forced_ids)
        return [*self._forced_ids, *frame_tokens(self._frame, self._frame.closing, self._vocab)]

    def fill_bitmask(self, row: MaskRow) -> bool:
        """Write the allowed next tokens; False if the thought has ended."""
        if self.ended:
            return False
        if self._forced_ids:
            set_only(row, self._forced_ids[:1])
        else:
            row[:] = _free_bitmask(self._frame, self._vocab)
        return True

    def accept_token(self, token_id: int) -> bool:
        """Accept a token; False if it holds the marker with something else after it."""
        if self._forced_ids:
            if token_id != self._forced_ids[0]:
                return False
            del self._forced_ids[0]
        elif not self._think(token_id):
            return False
        self.tokens += 1
        if not self._forced_ids:
            self._after_forced()
        return True

    def forced_tokens(self, limit: int) -> list[int]:
        """Tokens of the frame that must come next, at most `limit`; they are accepted."""
        accepted: list[int] = []
        while self._forced_ids and len(accepted) < limit:
            accepted.append(self._forced_ids[0])
            self.accept_token(self._forced_ids[0])
        return accepted

    def force_end(self) -> None:
        """Force the end of the thought from the next token on."""
        self._forced_ids = self.shortest
        self._closing = True

    def _after_forced(self) -> None:
        """After the last forced token: begin the thought, end it, or close an empty budget."""
        if self._closing:
            self.ended = True
        elif self._left_tokens <= 0:
            self.force_end()

    def _think(self, token_id: int) -> bool:
        text = self._tail + self._bytes_of(token_id)
        at = text.find(self._marker)
        if at < 0:
            self._tail = text[-(len(self._marker) - 1) :] if len(self._marker) > 1 else b""
            self._left_tokens -= 1
            return True
        after_marker, after = text[at + len(self._marker) :], self._frame.after
        if not after.encode().startswith(after_marker):
            return False
        rest = after.encode()[len(after_marker) :].decode(errors="ignore")
        self._forced_ids = frame_tokens(self._frame, rest, self._vocab)
        self._closing = True
        return True

    def _bytes_of(self, token_id: int) -> bytes:
        if token_id == self._vocab.special_ids.get(self._frame.marker):
            return self._marker
        return self._vocab.token_bytes[token_id] if token_id < self._vocab.size else b""


def frame_tokens(frame: ThinkFrame, text: str, vocab: Vocab) -> list[int]:
    """Tokens of a part of the frame: special ones by their id, the rest as text."""
    special = {name: vocab.special_ids[name] for name in frame.special if name in vocab.special_ids}
    alphabet: Alphabet = alphabet_of(vocab)
    return alphabet.tokenize_pieces(pieces(text, special))


def _free_bitmask(frame: ThinkFrame, vocab: Vocab) -> MaskRow:
    """Bitmask of all text and the marker; no end token and no other special token."""
    row = _text_bitmask(vocab)
    marker = vocab.special_ids.get(frame.marker)
    if marker is None:
        return row
    row = row.copy()
    row.view(np.uint32)[marker >> 5] |= np.uint32(1 << (marker & 31))
    return row


def _build_text_bitmask(vocab: Vocab) -> MaskRow:
    texts = (token for token, text in enumerate(vocab.token_bytes) if text)
    return row_of([token for token in texts if token not in vocab.eos_ids], vocab.logits_size)


_text_bitmask: PerVocab[MaskRow] = PerVocab(_build_text_bitmask)
