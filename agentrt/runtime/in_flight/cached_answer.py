"""Values of the response cache: one complete answer of an engine."""

from __future__ import annotations

from agentrt.base.errors import InternalError
from agentrt.base.record import record
from agentrt.protocol.step_output import OptionScore, TokenLogprob
from agentrt.protocol.wire import FrameReader, Wire


@record
class CachedAnswer:
    """An answer that has passed all checks of its node.

    Attributes:
        text: The text as the model wrote it, call frames and framed reasoning included.
        reasoning: Reasoning that the engine reported apart.
        token_ids: Ids of the tokens; () if the engine reports none.
        logprobs: One entry a token, if they were asked for.
        stopped_by: The stop string that ended it, or "".
        scores: Scores of the options of a choice, if they were asked for.
        not_sent: Sampling parameters that the engine chose itself.
        prompt_tokens: Length of its prompt, as the engine counted it.
        output_tokens: Length of the output, likewise.
        thinking_tokens: Part of it before the answer.
        cost_pico: Cost of the request, in millionths of a millionth of `currency`.
        currency: Currency of the cost; "" without prices.
        service_s: Time from the engine's receipt to the end of the answer, in seconds.
    """

    text: str
    reasoning: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    stopped_by: str = ""
    scores: tuple[OptionScore, ...] = ()
    not_sent: tuple[str, ...] = ()
    prompt_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    cost_pico: int = 0
    currency: str = ""
    service_s: float = 0.0


_WIRE: Wire[CachedAnswer] = Wire(CachedAnswer)


def answer_bytes(answer: CachedAnswer) -> bytes:
    """An answer as a store keeps it: plain data, no code."""
    return _WIRE.frame(answer)


def answer_in(value: bytes) -> CachedAnswer | None:
    """The answer in a value of a store; None if it is none."""
    try:
        payloads = FrameReader().feed_data(value)
        return _WIRE.value(payloads[0]) if len(payloads) == 1 else None
    except InternalError:
        return None
