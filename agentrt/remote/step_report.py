"""Output of requests that is yet to be reported: one event for all of one turn of the loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agentrt.base.ids import RequestId
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import Admission, Delta, End, StepDone, TokenLogprob


@dataclass(slots=True)
class _Written:
    """New output of one request."""

    text: str = ""
    reasoning: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


class StepReport:
    """The report of the turn under way.

    Args:
        queue: Queue of the events.
    """

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._written: dict[RequestId, _Written] = {}
        self._ends: list[End] = []
        self._admissions: list[Admission] = []
        self._scheduled = False

    def add_output(
        self,
        request_id: RequestId,
        text: str = "",
        token_ids: tuple[int, ...] = (),
        reasoning: str = "",
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> None:
        """Add output of a request."""
        written = self._written.setdefault(request_id, _Written())
        written.text += text
        written.token_ids += token_ids
        written.logprobs += logprobs
        written.reasoning += reasoning
        self._schedule()

    def add_end(self, end: End) -> None:
        """Add the end of a request."""
        self._ends.append(end)
        self._schedule()

    def add_admission(self, admission: Admission) -> None:
        """Add the admission of a request."""
        self._admissions.append(admission)
        self._schedule()

    def flush(self) -> None:
        """Report what there is."""
        self._scheduled = False
        deltas = tuple(
            Delta(
                request_id,
                one.token_ids,
                one.text,
                logprobs=one.logprobs,
                reasoning=one.reasoning,
            )
            for request_id, one in self._written.items()
        )
        ends, self._ends, self._written = tuple(self._ends), [], {}
        admissions, self._admissions = tuple(self._admissions), []
        if deltas or ends or admissions:
            self._queue.put(StepDone(None, deltas, ends, admissions=admissions))

    def _schedule(self) -> None:
        """Report at the end of this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)
