"""Writer of a prompt's ids: template text, data, and generated ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentrt.prompt.text_encoder import TextPosition
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts

LONG_CHARACTERS = 128
"""Length above which pending text is sealed, so that forks do not encode it again."""

ESCAPE = "\U0010fef0"
"""Character inside marker text that is data, while a template processes it."""


@dataclass(slots=True, eq=False)
class IdWriter:
    """Ids written so far, and text with ids that are not final yet.

    Attributes:
        parts: Tokenizer of the model.
        pending: Text after the ids, not encoded yet.
        position: Position of the pending text.
        strips_next: Whether a marker before it strips its leading whitespace.
        ids: New ids of this writer.
    """

    parts: TokenizerParts
    pending: str = ""
    position: TextPosition = TextPosition.START
    strips_next: bool = False
    ids: list[int] = field(default_factory=list)

    def write_text(self, text: str) -> None:
        """Write data."""
        if self.strips_next:
            text = text.lstrip()
            self.strips_next = not text
        self.pending += text
        if len(self.pending) > LONG_CHARACTERS:
            self.seal()

    def write_template(self, literal: str) -> None:
        """Write text and markers of the template."""
        for piece in self.parts.pieces(literal):
            if isinstance(piece, Marker):
                self._write_marker(piece)
            else:
                self.write_text(piece.replace(ESCAPE, ""))

    def write_ids(self, ids: Iterable[int]) -> None:
        """Write generated ids; no text around them merges with them."""
        self.write_pending()
        self.ids += ids
        self.position = TextPosition.INSIDE
        self.strips_next = False

    def seal(self) -> None:
        """Encode as much pending text as later text cannot change."""
        ids, self.pending = self.parts.texts.seal(self.pending, self.position)
        if ids:
            self.ids += ids
            self.position = TextPosition.INSIDE

    def write_pending(self) -> None:
        """Encode all pending text: nothing after it merges with it."""
        if self.pending:
            self.ids += self.parts.texts.encode(self.pending, self.position)
            self.pending = ""
            self.position = TextPosition.INSIDE

    def _write_marker(self, marker: Marker) -> None:
        if marker.eats_left:
            self.pending = self.pending.rstrip()
        self.write_pending()
        self.ids.append(marker.token_id)
        self.position = TextPosition.AFTER_MARKER
        self.strips_next = marker.eats_right
