"""The output of an answer that comes as token ids, and its text (streaming)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentrt.prompt.stop_strings import StopStrings
from agentrt.protocol.backend import GenerateRequest

if TYPE_CHECKING:
    from agentrt.prompt import Codec


class OutputIds:
    """Ids of one output without the token that ends it, and the text that they stand for.

    The text is that of the embedded engine: of the model's own vocabulary, with special tokens
    where the request keeps them, up to a stop string.

    Args:
        codec: Codec of the model.
        request: The request; the output goes on behind its `output_ids`.

    Attributes:
        count: Number of ids that the server has sent.
        stopped_by: The stop string that has ended the output, else "".
    """

    def __init__(self, codec: Codec, request: GenerateRequest) -> None:
        self.count = 0
        self.stopped_by = ""
        self._detokenizer = codec.detokenizer(request.keep_special)
        self._stops = StopStrings(request.sampling.stop)
        self._eos_ids = frozenset(codec.vocab.eos_ids)
        self._held: list[int] = []  # may turn out to be the end
        self._ids: list[int] = []
        self._ended = False
        self._text_of(request.output_ids)

    def feed_ids(self, token_ids: Iterable[int]) -> str:
        """The text that more ids add."""
        text = ""
        for one in token_ids:
            self.count += 1
            if self.stopped_by:
                continue
            if one in self._eos_ids:
                self._held.append(one)
                continue
            text += self._accept([*self._held, one])
            self._held = []
        return text

    def take_ids(self) -> tuple[int, ...]:
        """The ids since the last time."""
        taken, self._ids = tuple(self._ids), []
        return taken

    def end(self, *, at_limit: bool) -> str:
        """The rest of the text.

        Args:
            at_limit: Whether a limit has ended the output, and no token.
        """
        if self._ended or self.stopped_by:
            return ""
        self._ended = True
        text = self._accept(self._held if at_limit else self._held[:-1])
        if self.stopped_by:
            return text
        return text + self._stopped(self._detokenizer.flush()) + self._stops.flush()

    def _accept(self, token_ids: list[int]) -> str:
        self._ids += token_ids
        return self._text_of(token_ids)

    def _text_of(self, token_ids: Iterable[int]) -> str:
        return self._stopped(self._detokenizer.feed_ids(token_ids))

    def _stopped(self, text: str) -> str:
        """Text up to a stop string, without an end that may begin one."""
        found = self._stops.feed(text)
        self.stopped_by = found.stop
        return found.text
