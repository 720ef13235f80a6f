"""Ledger of a remote request: the server's own timings if reported, else times seen from here."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.protocol.step_output import Ledger
from agentrt.remote.answers.answer_reader import AnswerReader


@dataclass(slots=True)
class RequestTimes:
    """Instants of one request, on our clock.

    Attributes:
        sent_at_s: Instant at which the backend had it.
        admitted_at_s: Instant of the last admission; 0.0 if it was always held back.
        first_at_s: Arrival of the first text; 0.0 if there was none.
        retried_tokens: Tokens of attempts that broke off.
        retried_prompt_tokens: Tokens of their prompts.
        is_estimated: Whether one of them reported no tokens.
    """

    sent_at_s: float
    first_at_s: float = 0.0
    retried_tokens: int = 0
    retried_prompt_tokens: int = 0
    is_estimated: bool = False
    admitted_at_s: float = 0.0

    def held_s(self, now_s: float) -> float:
        """Time for which it was held back before the server, until its first text at most."""
        until_s = self.admitted_at_s or now_s
        if self.first_at_s:
            until_s = min(until_s, self.first_at_s)
        return max(0.0, until_s - self.sent_at_s)


def ledger(
    reader: AnswerReader,
    times: RequestTimes,
    now_s: float,
    likely_prompt_tokens: int = 0,
    resumed_tokens: int = 0,
) -> Ledger:
    """The ledger of a request that ended at `now_s`; its queue is ours and the server's together.

    A prompt that the server reports no tokens of has `likely_prompt_tokens`. An output that went on
    behind `resumed_tokens` had them in its prompt.

    The server reports the times of one attempt: of several, they are those seen from here.
    """
    held_s = times.held_s(now_s)
    once = times.first_at_s and not times.retried_tokens and not resumed_tokens
    reported_tokens = max(0, reader.usage.prompt_tokens - resumed_tokens)
    reported = reader.times if once else None
    if reported is None:
        queue_s, server_queue_s = held_s, 0.0
        prefill_s = (times.first_at_s or now_s) - times.sent_at_s - held_s
        received_at_s, first_token_at_s = times.sent_at_s, times.first_at_s
    else:
        server_queue_s, prefill_s = reported.queue_s, reported.prefill_s
        queue_s = server_queue_s + held_s
        # The server's own time ends with the answer; time on the wire before it is not its.
        received_at_s = max(times.sent_at_s, now_s - queue_s - prefill_s - reported.decode_s)
        first_token_at_s = min(now_s, received_at_s + queue_s + prefill_s)
    return Ledger(
        received_at_s=received_at_s,
        completed_at_s=received_at_s,
        admitted_at_s=received_at_s + queue_s,
        first_token_at_s=first_token_at_s,
        finished_at_s=now_s,
        queue_s=queue_s,
        prefill_s=prefill_s,
        decode_s=max(0.0, now_s - received_at_s - queue_s - prefill_s),
        source="inferred" if reported is None else "engine_reported",
        retried_tokens=times.retried_tokens,
        retried_prompt_tokens=times.retried_prompt_tokens,
        is_estimated=times.is_estimated or not reader.reports_tokens,
        prompt_tokens=reported_tokens or likely_prompt_tokens,
        cached_tokens=reader.usage.cached_tokens,
        output_tokens=reader.output_tokens + resumed_tokens,
        # A server that counts no reasoning apart: an event counts as one.
        thinking_tokens=reader.usage.reasoning_tokens or reader.reasoning_chunks,
        server_queue_s=server_queue_s,
    )
