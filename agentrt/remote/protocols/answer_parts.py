"""Parts of a streamed answer, the same for all protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agentrt.base.record import record
from agentrt.protocol.step_output import OptionScore, TokenLogprob
from agentrt.remote.protocols.answer_shape import text_of

_LONGEST_NAME = 200


@record
class ContentPart:
    """More text of the answer."""

    text: str


@record
class TokenIdsPart:
    """More of the answer as token ids, which stand for its text.

    Attributes:
        token_ids: The ids.
        logprobs: One entry an id, if the server reports them.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()


@record
class ScoresPart:
    """Scores of the options of a choice, in their order."""

    scores: tuple[OptionScore, ...]


@record
class ReasoningPart:
    """More reasoning, which the server reports apart from the answer."""

    text: str


@record
class RefusalPart:
    """More of the words in which the model refuses to answer."""

    text: str


@record
class CallPart:
    """The beginning of a tool call, or more of its arguments.

    Attributes:
        index: Place of the call in the answer; None if the server does not number its calls.
        call_id: Id of the call, or "".
        name: Name of the tool; it counts at the beginning of a call.
        arguments: JSON text that the arguments go on with.
    """

    index: int | None
    call_id: str = ""
    name: str = ""
    arguments: str = ""


@record
class UsagePart:
    """Tokens of the answer so far, as the server counts them.

    Attributes:
        prompt_tokens: Tokens of the prompt, those of its cache included.
        cached_tokens: Tokens of the prompt that were found in a cache.
        output_tokens: Tokens of the output, reasoning included.
        reasoning_tokens: Tokens of reasoning; 0 if the server does not count them apart.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Tokens of prompt and output together."""
        return self.prompt_tokens + self.output_tokens


@record
class NamePart:
    """The server's own names for the answer and for the model that writes it, each or ""."""

    answer_id: str = ""
    model: str = ""


@record
class TimesPart:
    """Times that the server reports of its own work, in seconds."""

    queue_s: float
    prefill_s: float
    decode_s: float


@record
class EndPart:
    """The end of the answer.

    Attributes:
        reason: Reason of the end: "filtered" if the provider's filter or the model refused.
        stopped_by: The stop string that ended it, if the server reports it, else "".
        why: Words of the server about the reason, or "".
    """

    reason: Literal["stop", "length", "filtered"]
    stopped_by: str = ""
    why: str = ""


@record
class ErrorPart:
    """An error in the stream.

    Attributes:
        message: Words of the server, in one line.
        is_of_server: Whether it is the server's own, so that the same request may pass later.
    """

    message: str
    is_of_server: bool


_Figures = UsagePart | TimesPart | ScoresPart | NamePart
_Texts = ContentPart | TokenIdsPart | ReasoningPart | RefusalPart
AnswerPart = _Texts | CallPart | _Figures | EndPart | ErrorPart


def name_part(answer: Mapping[str, Any]) -> NamePart:
    """The names in an answer or in its first event."""
    answer_id, model = (text_of(answer.get(key))[:_LONGEST_NAME] for key in ("id", "model"))
    return NamePart(answer_id, model)


def error_part(error: object, *, is_of_server: bool) -> ErrorPart:
    """The part for an error, from its object with a `message` or from plain text."""
    message = error.get("message", error) if isinstance(error, dict) else error
    return ErrorPart(" ".join(str(message).split())[:300], is_of_server)
