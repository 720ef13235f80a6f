"""The output of an answer that comes as token ids, and its text (streaming)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentrt.base.errors import RequestRejected
from agentrt.prompt.stop_strings import StopStrings
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.step_output import TokenLogprob

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
        self._alternatives = request.sampling.logprobs
        self._logprobs: list[TokenLogprob] = []  # of those, then of the held ones
        self._ended = False
        self._text_of(request.output_ids)

    def feed_ids(self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] = ()) -> str:
        """The text that more ids add.

        Args:
            token_ids: The ids.
            logprobs: One entry an id, if the server reports them.

        Raises:
            RequestRejected: They were asked for, and the server does not report them.
        """
        if self._alternatives and len(logprobs) != len(token_ids):
            raise RequestRejected(
                "the server sent token ids without the log-probabilities that were asked for",
                hint="Leave logprobs at 0, or look at the version and the kind of the server",
            )
        text = ""
        for at, one in enumerate(token_ids):
            self.count += 1
            if self.stopped_by:
                continue
            if self._alternatives:
                entry = logprobs[at]
                self._logprobs.append(replace(entry, top=entry.top[: self._alternatives]))
            if one in self._eos_ids:
                self._held.append(one)
                continue
            text += self._accept([*self._held, one])
            self._held = []
        return text

    def take_tokens(self) -> tuple[tuple[int, ...], tuple[TokenLogprob, ...]]:
        """The ids since the last time, and one entry of each if they were asked for."""
        ids, self._ids = tuple(self._ids), []
        logprobs, self._logprobs = tuple(self._logprobs[: len(ids)]), self._logprobs[len(ids) :]
        return ids, logprobs

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
