"""Separates the records of concurrent runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrt.analysis.run_record import RunRecord
from agentrt.base.ids import RunId
from agentrt.protocol.events import Event, RunFinished, RunStarted
from agentrt.protocol.step_output import BackendDown, StepDone


class RunRecorder:
    """An observer that passes on the record of each run when it ends.

    Several recorders of one runtime share the record of a run: `on_record` gives it to them.

    Args:
        on_run: Called with a finished record, on the thread that delivered its last event. Records
            may be shared with other observers, so nothing may be changed in them.
        on_begin: Called with the empty record of a run that begins; None calls nothing.
    """

    def __init__(
        self,
        on_run: Callable[[RunRecord], None],
        on_begin: Callable[[RunRecord], None] | None = None,
    ) -> None:
        self._on_run = on_run
        self._on_begin = on_begin
        self._open: dict[RunId, RunRecord] = {}
        self._own: dict[RunId, RunRecord] = {}  # those of them that are filled here

    def on_record(self, record: RunRecord) -> None:
        """Pass on a record that the caller fills, instead of making one of that run."""
        self._open[record.run_id] = record

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""
        own = self._own
        for event in events:
            if isinstance(event, (StepDone, BackendDown)):
                for record in own.values():
                    record.add_event(event)
                continue
            run_id = event.run_id
            if isinstance(event, RunStarted) and (run_id in own or run_id not in self._open):
                self._open[run_id] = own[run_id] = RunRecord(run_id)
                if self._on_begin is not None:
                    self._on_begin(own[run_id])
            if run_id in own:
                own[run_id].add_event(event)
            if isinstance(event, RunFinished) and run_id in self._open:
                own.pop(run_id, None)
                self._on_run(self._open.pop(run_id))

    def finish_open(self) -> None:
        """Pass on the records of runs that have not ended, as far as they got."""
        self._own.clear()
        while self._open:
            _, record = self._open.popitem()
            self._on_run(record)
