"""Chunks of a streamed completion as parts of an answer: its ids, not its text (streaming)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentrt.protocol.step_output import TokenLogprob
from agentrt.remote.protocols.answer_parts import AnswerPart, ScoresPart, TokenIdsPart
from agentrt.remote.protocols.answer_shape import (
    MAX_COUNT,
    Malformed,
    check_type,
    object_at,
    objects_at,
)
from agentrt.remote.protocols.chat_completions.chunks import ChunkReader, end_of

Json = dict[str, Any]


class CompletionReader(ChunkReader):
    """Reader of the chunks of one completion."""

    def __init__(self) -> None:
        super().__init__()
        self._has_ids = False

    def choice_parts(self, choice: Json) -> Iterator[AnswerPart]:
        check_type(choice, "token_ids", list)
        token_ids = tuple(choice.get("token_ids") or ())
        if not all(type(one) is int and 0 <= one < MAX_COUNT for one in token_ids):
            raise Malformed("token_ids with something else in them")
        self._has_ids = self._has_ids or bool(token_ids)
        if token_ids:
            yield TokenIdsPart(token_ids, _logprobs_of(choice, token_ids))
        elif choice.get("text") and not self._has_ids:
            raise Malformed("text without the token_ids that were asked for")
        if scores := objects_at(choice, "scores"):
            from agentrt.remote.protocols.completions.logprobs import read_scores

            yield ScoresPart(read_scores(scores))
        yield from end_of(choice)


def _logprobs_of(choice: Json, token_ids: tuple[int, ...]) -> tuple[TokenLogprob, ...]:
    if not (logprobs := object_at(choice, "logprobs")):
        return ()
    from agentrt.remote.protocols.completions.logprobs import read_logprobs  # few answers have any

    return read_logprobs(logprobs, token_ids)
