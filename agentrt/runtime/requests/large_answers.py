"""Large answers are read and checked in a worker thread, so that other runs go on meanwhile."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial

from agentrt.protocol.events import Event
from agentrt.protocol.step_output import End
from agentrt.runtime.completion import carry_out
from agentrt.runtime.in_flight.in_flight import InFlight
from agentrt.runtime.in_flight.outcome import Outcome, outcome_of
from agentrt.runtime.task import Task
from agentrt.scheduler import InternalEvent
from agentrt.tools.workers import run_in_worker

LARGE_ANSWER_CHARACTERS = 8_000
"""Length from which on an answer is read in a thread: half a millisecond, or more if checked."""


class LargeAnswers:
    """Starts tasks that read large answers, and posts what follows from them to the loop."""

    def __init__(self, post: Callable[[InternalEvent], None]) -> None:
        self._post = post

    def is_one(self, request: InFlight, end: End) -> bool:
        """Whether the answer of a request that has ended takes long to read."""
        gen = request.gen
        if len(gen.written.generated.text) < LARGE_ANSWER_CHARACTERS:  # nearly all
            return False
        output = gen.work.output
        return (
            len(request.answer) >= LARGE_ANSWER_CHARACTERS
            and output.kind in ("value", "step")
            and not output.is_text
            and end.reason in ("stop", "length")
            and request.stop_error is None
        )

    def begin(self, request: InFlight, end: End, finish: Callable[[Outcome], list[Event]]) -> None:
        """Start the task; until it has ended, its node can be stopped as a tool can.

        Args:
            request: The request.
            end: How it ended.
            finish: Gives the events that follow, on the loop.
        """
        run, gen = request.run, request.gen
        task = run.tasks[gen.id] = Task()

        def ended(outcome: Outcome) -> Event:
            *events, last = finish(outcome)
            for event in events:
                self._post(event)
            return last

        read = partial(run_in_worker, partial(outcome_of, request, end), _nothing)
        body = carry_out(run, gen, task, read, ended, self._post, end)
        run.task_set.start(body, f"{gen.id} large answer", contextvars.copy_context())


def _nothing() -> None:
    return None
