"""The ledger of a request of a fleet: the time in the queue of the fleet counts, too."""

from __future__ import annotations

from dataclasses import replace

from agentrt.base.errors import AgentrtError, record_of
from agentrt.base.ids import RequestId
from agentrt.protocol.step_output import End, Ledger


def with_wait(end: End, received_at_s: float) -> End:
    """The end with the time before the last worker had the request.

    Args:
        end: The end, as that worker reports it.
        received_at_s: Instant at which the fleet had the request.
    """
    ledger = end.ledger
    before_s = max(0.0, ledger.received_at_s - received_at_s)
    return replace(
        end,
        ledger=replace(
            ledger,
            received_at_s=ledger.received_at_s - before_s,
            completed_at_s=ledger.completed_at_s - before_s,
            queue_s=ledger.queue_s + before_s,
        ),
    )


def unsent_end(
    request_id: RequestId, received_at_s: float, now_s: float, error: AgentrtError | None
) -> End:
    """The end of a request that no worker has: all of its time was spent in the queue.

    Args:
        request_id: The request.
        received_at_s: Instant at which the fleet had it.
        now_s: Now.
        error: Error that it ends by; None if it was cancelled.
    """
    ledger = Ledger(
        received_at_s=received_at_s,
        completed_at_s=received_at_s,
        admitted_at_s=now_s,
        finished_at_s=now_s,
        queue_s=now_s - received_at_s,
        source="inferred",
    )
    if error is None:
        return End(request_id, "cancelled", ledger)
    return End(request_id, "failed", ledger, error=record_of(error))
