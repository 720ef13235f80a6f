"""Writes a prompt's ids: literals of the template, data, and ids that a model generated."""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.prompt.text_encoder import TextPosition
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts

LONG_CHARACTERS = 128
"""Held text longer than this is sealed, so that forks do not encode it again."""

ESCAPE = "\U0010fef0"
"""Stands inside marker text that is data while a template handles it."""


class IdWriter:
    """Ids written so far, and text whose ids are not settled yet.

    Attributes:
        ids: New ids since the pen was taken up.
        held: Text after them, not encoded yet.
        place: Where the held text stands.
        eats: A marker before it swallows its leading whitespace.
    """

    __slots__ = ("_lexicon", "eats", "held", "ids", "place")

    def __init__(
        self,
        lexicon: TokenizerParts,
        held: str = "",
        place: TextPosition = TextPosition.START,
        eats: bool = False,
    ) -> None:
        self._lexicon = lexicon
        self.ids: list[int] = []
        self.held = held
        self.place = place
        self.eats = eats

    def text(self, text: str) -> None:
        """Write data."""
        if self.eats:
            text = text.lstrip()
            self.eats = not text
        self.held += text
        if len(self.held) > LONG_CHARACTERS:
            self.seal()

    def literal(self, literal: str) -> None:
        """Write what the template wrote: text and markers."""
        for piece in self._lexicon.pieces(literal):
            if isinstance(piece, Marker):
                self._mark(piece)
            else:
                self.text(piece.replace(ESCAPE, ""))

    def generated(self, ids: Iterable[int]) -> None:
        """Write ids as a model wrote them; no text around merges with them."""
        self.end()
        self.ids += ids
        self.place = TextPosition.INSIDE
        self.eats = False

    def seal(self) -> None:
        """Settle the ids of as much held text as later text cannot change."""
        ids, self.held = self._lexicon.texts.seal(self.held, self.place)
        if ids:
            self.ids += ids
            self.place = TextPosition.INSIDE

    def end(self) -> None:
        """Settle all: nothing that follows merges with it."""
        if self.held:
            self.ids += self._lexicon.texts.encode(self.held, self.place)
            self.held = ""
            self.place = TextPosition.INSIDE

    def _mark(self, marker: Marker) -> None:
        if marker.eats_left:
            self.held = self.held.rstrip()
        self.end()
        self.ids.append(marker.token_id)
        self.place = TextPosition.AFTER_MARKER
        self.eats = marker.eats_right
