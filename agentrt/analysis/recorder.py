"""Separates the records of concurrent runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrt.analysis.run_record import RunRecord
from agentrt.base.ids import RunId
from agentrt.protocol.events import Event, RunFinished, RunStarted
from agentrt.protocol.step_output import BackendDown, StepDone


class RunRecorder:
    """An observer that passes on the record of each run when it ends.

    Args:
        on_run: Called with a finished record, on the thread that delivered its last event.
    """

    def __init__(self, on_run: Callable[[RunRecord], None]) -> None:
        self._on_run = on_run
        self._open: dict[RunId, RunRecord] = {}

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""
        for event in events:
            if isinstance(event, (StepDone, BackendDown)):
                for record in self._open.values():
                    record.add_event(event)
                continue
            if isinstance(event, RunStarted):
                self._open[event.run_id] = RunRecord(event.run_id)
            found = self._open.get(event.run_id)
            if found is None:
                continue
            found.add_event(event)
            if isinstance(event, RunFinished):
                del self._open[event.run_id]
                self._on_run(found)

    def finish_open(self) -> None:
        """Pass on the records of runs that have not ended, as far as they got."""
        while self._open:
            _, record = self._open.popitem()
            self._on_run(record)
