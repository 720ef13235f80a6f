"""An output with times of its own, instead of those of an engine's steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

from agentrt.base.record import record
from agentrt.protocol.step_output import FinishReason, Ledger, OptionScore, TokenLogprob


@record
class OutputTimes:
    """Seconds of one output by what they were spent on, in this order.

    Attributes:
        queue_s: Waiting with a complete prompt.
        kv_reload_s: Loading KV back.
        constraint_s: Waiting for grammars and bitmasks.
        prefill_s: Computing the prompt.
        decode_s: From the first token to the last.
    """

    queue_s: float = 0.0
    kv_reload_s: float = 0.0
    constraint_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0

    @property
    def first_token_s(self) -> float:
        """Time to the first token."""
        return self.queue_s + self.kv_reload_s + self.constraint_s + self.prefill_s

    @property
    def total_s(self) -> float:
        """Time to the end."""
        return self.first_token_s + self.decode_s

    def within(self, seconds: float) -> OutputTimes:
        """The part of them that lies within the first `seconds`."""
        ends_s = [0.0, *accumulate((self.queue_s, self.kv_reload_s, self.constraint_s))]
        ends_s += [self.first_token_s, max(self.total_s, seconds)]
        cut_s = [min(end_s, max(0.0, seconds)) for end_s in ends_s]
        return OutputTimes(*(after - before for before, after in pairwise(cut_s)))


@record
class TimedPart:
    """Text that comes at one instant.

    Attributes:
        at_s: Seconds since the prompt was complete.
        text: The text.
        tokens: Number of its tokens.
        token_ids: Their ids; () if they are not known, and then they are numbered 0.
        logprobs: One entry a token, if they were asked for.
        reasoning: Reasoning that an engine reported apart.
    """

    at_s: float
    text: str
    tokens: int = 1
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    reasoning: str = ""


@record
class TimedOutput:
    """An output with the times at which it comes.

    Attributes:
        parts: Parts in order.
        times: Seconds by cause.
        reason: Finish reason.
        tokens: Recorded account of the request, without its instants; None for a script's.
        closed_early: Whether it was closed by its shortest valid end.
        stopped_by: The stop string that ended it, or "".
        scores: One score an option of a scored choice.
        unmet: Why the whole answer was refused; "" if it was not.
        wait_s: Time before the engine takes the request.
        delivered_s: Time until its end is delivered, if that is after its end.
    """

    parts: tuple[TimedPart, ...]
    times: OutputTimes
    reason: FinishReason = "stop"
    tokens: Ledger | None = None
    closed_early: bool = False
    stopped_by: str = ""
    scores: tuple[OptionScore, ...] = ()
    unmet: str = ""
    wait_s: float = 0.0
    delivered_s: float = 0.0

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(part.text for part in self.parts)


def spread(
    pieces: tuple[str, ...],
    token_ids: tuple[int, ...],
    logprobs: tuple[TokenLogprob, ...],
    times: OutputTimes,
) -> tuple[TimedPart, ...]:
    """The tokens of an output, evenly over the time of its decoding."""
    gap_s = times.decode_s / max(1, len(pieces) - 1)
    first_s = times.first_token_s
    if len(pieces) == 1:
        first_s += times.decode_s
    return tuple(
        TimedPart(first_s + at * gap_s, piece, 1, (token_id,), logprobs[at : at + 1])
        for at, (piece, token_id) in enumerate(zip(pieces, token_ids, strict=True))
    )


_INSTANTS = (
    *("received_at_s", "completed_at_s", "admitted_at_s", "first_token_at_s", "finished_at_s"),
)


def timed_ledger(ledger: Ledger, output: TimedOutput, now_s: float) -> Ledger:
    """A ledger with the seconds of a timed output up to `now_s`, and with its recorded figures.

    Args:
        ledger: The account of a request that has ended.
        output: Output of the request.
        now_s: Instant of the end.
    """
    times = output.times.within(now_s - ledger.admitted_at_s)
    is_whole = now_s - ledger.admitted_at_s >= output.times.total_s - 1e-9
    if is_whole:
        times = output.times
    base = ledger
    if output.tokens is not None:
        base = replace(output.tokens, **{name: getattr(ledger, name) for name in _INSTANTS})
        if is_whole:
            first_s = ledger.admitted_at_s + output.times.first_token_s
            return replace(
                base,
                first_token_at_s=first_s if ledger.first_token_at_s else 0.0,
                finished_at_s=ledger.admitted_at_s + output.times.total_s,
            )
        base = replace(base, output_tokens=ledger.output_tokens)
    return replace(
        base,
        queue_s=ledger.queue_s + times.queue_s,
        kv_reload_s=times.kv_reload_s,
        constraint_s=times.constraint_s,
        prefill_s=times.prefill_s,
        decode_s=times.decode_s,
    )
