"""Observers of a runtime, called once a batch; one that raises is dropped and reported.

Several make a record of each run from its events. One is made here, and given to those with the
method `on_record` when the run begins; they get each batch when it is in the record.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentrt.base.ids import RunId
from agentrt.protocol.events import Event, Observer
from agentrt.runtime.run_content import RunContent

if TYPE_CHECKING:
    from agentrt.protocol.node_content import NodeContent
    from agentrt.runtime.run_watch import RunWatch
    from agentrt.telemetry.shared_records import SharedRecords

_log = logging.getLogger("agentrt")


class Observers:
    """Hands events to all observers.

    Attributes:
        dropped: Observers that raised, each with its exception.
        watches: Watches over started runs, which get the events too.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers: list[Observer] = []
        self._records: SharedRecords | None = None
        self.dropped: list[tuple[Observer, Exception]] = []
        self.watches: dict[RunId, RunWatch] = {}
        for observer in observers:
            self._add(observer)

    def add(self, observer: Observer) -> None:
        """Hand events to one more observer, unless it is here already."""
        if observer not in self._observers:
            self._add(observer)

    def content_of_run(self, *, in_events: bool) -> RunContent | None:
        """Prompts and outputs of a run that begins now, as far as observers want them; or None.

        Observers with the method `on_content` get them (`ContentObserver`).

        Args:
            in_events: Whether events carry them in any case. They do, too, if an observer has a
                true attribute `wants_content`.
        """
        wanted = any(getattr(observer, "wants_content", False) for observer in self._observers)
        taken = any(hasattr(observer, "on_content") for observer in self._observers)
        in_events = in_events or wanted
        if not (in_events or taken):
            return None
        return RunContent(in_events=in_events, on_content=self.on_content if taken else None)

    @property
    def make_spans(self) -> bool:
        """Whether an observer has a true attribute `makes_spans`: its spans can be parents."""
        return any(getattr(observer, "makes_spans", False) for observer in self._observers)

    def on_events(self, events: Sequence[Event]) -> None:
        """Hand events to every observer; never raises."""
        for observer in tuple(self._observers):
            try:
                observer.on_events(events)
            except Exception as error:
                self._drop(observer, error)
        for watch in self.watches.values():
            watch.on_events(events)

    def on_content(self, content: NodeContent) -> None:
        """Hand the content of a node to every observer that takes it; never raises."""
        for observer in tuple(self._observers):
            take = getattr(observer, "on_content", None)
            if take is None:
                continue
            try:
                take(content)
            except Exception as error:
                self._drop(observer, error)

    def _add(self, observer: Observer) -> None:
        self._observers.append(observer)
        if hasattr(observer, "on_record"):
            if self._records is None:
                from agentrt.telemetry.shared_records import SharedRecords

                self._records = SharedRecords(self._drop)
                self._observers.insert(0, self._records)  # before those that read its records
            self._records.takers.append(observer)

    def _drop(self, observer: Observer, error: Exception) -> None:
        self._observers.remove(observer)
        if self._records is not None and observer in self._records.takers:
            self._records.takers.remove(observer)
        self.dropped.append((observer, error))
        _log.error(
            "observer %s raised %r and is dropped; the run goes on",
            type(observer).__name__,
            error,
            exc_info=error,
        )
