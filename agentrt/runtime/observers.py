"""Observers of a runtime, called once a batch; one that raises is dropped and reported."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentrt.protocol.events import Event, Observer

if TYPE_CHECKING:
    from agentrt.protocol.node_content import NodeContent

_log = logging.getLogger("agentrt")


class Observers:
    """Hands events to all observers.

    Attributes:
        dropped: Observers that raised, each with its exception.
    """

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = list(observers)
        self.dropped: list[tuple[Observer, Exception]] = []

    @property
    def want_content(self) -> bool:
        """Whether an observer has a true attribute `wants_content`: events then carry messages."""
        return any(getattr(observer, "wants_content", False) for observer in self._observers)

    @property
    def take_content(self) -> bool:
        """Whether an observer has the method `on_content`; see `ContentObserver`."""
        return any(hasattr(observer, "on_content") for observer in self._observers)

    def on_events(self, events: Sequence[Event]) -> None:
        """Hand events to every observer; never raises."""
        for observer in tuple(self._observers):
            try:
                observer.on_events(events)
            except Exception as error:
                self._drop(observer, error)

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

    def _drop(self, observer: Observer, error: Exception) -> None:
        self._observers.remove(observer)
        self.dropped.append((observer, error))
        _log.error(
            "observer %s raised %r and is dropped; the run goes on",
            type(observer).__name__,
            error,
            exc_info=error,
        )
