"""Log-probabilities of tokens in the two forms of the API: of chats, and of completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentrt.base.record import record
from agentrt.program import Score
from agentrt.protocol.step_output import TokenLogprob

if TYPE_CHECKING:
    from agentrt.prompt import Codec

Json = dict[str, Any]
LEAST = -9999.0
"""Stands for the logarithm of 0, which JSON has no number for."""


@record
class NewTokens:
    """Tokens of an output that its client has not been told yet.

    Attributes:
        ids: Their ids.
        logprobs: One entry a token, if they were asked for.
        scores: Scores of the options of a choice, once they are known; () if none were asked for.
    """

    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    scores: tuple[Score[str], ...] = ()

    @property
    def score_fields(self) -> Json:
        """The field `scores` of a choice, if options were scored."""
        if not self.scores:
            return {}
        return {
            "scores": [
                {
                    "text": one.value,
                    "logprob": max(one.logprob, LEAST),
                    "probability": one.probability,
                    "tokens": one.tokens,
                }
                for one in self.scores
            ]
        }


class LogprobForm:
    """Writes the log-probabilities of one answer (streaming).

    A token that the grammar forces has the log-probability 0 and no alternatives.

    Args:
        codec: Codec of the model.
        alternatives: Number of alternatives of each token.
        names_ids: Whether tokens are named `token_id:N`, not by their text.
    """

    def __init__(self, codec: Codec, alternatives: int, *, names_ids: bool) -> None:
        self._codec = codec
        self._alternatives = alternatives
        self._names_ids = names_ids
        self._characters = 0

    def of_chat(self, entries: Sequence[TokenLogprob]) -> Json:
        """The `logprobs` of a chat completion or of one of its chunks."""
        content = [
            self._named(one.token_id, one.logprob)
            | {"top_logprobs": [self._named(*pair) for pair in self._top(one)]}
            for one in entries
        ]
        return {"content": content, "refusal": None}

    def of_text(self, entries: Sequence[TokenLogprob]) -> Json:
        """The `logprobs` of a completion, or of the next one of its chunks."""
        offsets: list[int] = []
        for one in entries:
            offsets.append(self._characters)
            self._characters += _begun_characters(self._codec.bytes_of(one.token_id))
        return {
            "tokens": [self._key(one.token_id) for one in entries],
            "token_logprobs": [max(one.logprob, LEAST) for one in entries],
            "top_logprobs": [self._keyed(one) for one in entries],
            "text_offset": offsets,
        }

    def _top(self, entry: TokenLogprob) -> tuple[tuple[int, float], ...]:
        return entry.top[: self._alternatives]

    def _keyed(self, entry: TokenLogprob) -> dict[str, float]:
        """The alternatives and the token itself; none if it was forced."""
        pairs = () if entry.forced else (*self._top(entry), (entry.token_id, entry.logprob))
        found: dict[str, float] = {}
        for token_id, logprob in pairs:
            found.setdefault(self._key(token_id), max(logprob, LEAST))
        return found

    def _named(self, token_id: int, logprob: float) -> Json:
        text = self._codec.bytes_of(token_id)
        name = f"token_id:{token_id}" if self._names_ids else text.decode("utf-8", "replace")
        return {"token": name, "logprob": max(logprob, LEAST), "bytes": list(text)}

    def _key(self, token_id: int) -> str:
        """A name that no other token has: bytes that are no text are written as such."""
        text = self._codec.bytes_of(token_id)
        if self._names_ids or not text:
            return f"token_id:{token_id}"
        try:
            return text.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in text)


def _begun_characters(text: bytes) -> int:
    """Number of characters that begin in a piece of UTF-8."""
    return sum(byte & 0xC0 != 0x80 for byte in text)
