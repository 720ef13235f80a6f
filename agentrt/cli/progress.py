"""Progress of runs as a command shows it; this one shows nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentrt.protocol.events import Event


class Progress:
    """An observer that shows events, and the text that programs emit; here it shows nothing."""

    def open(self, what: str) -> None:
        """Show what goes on before the first run begins."""

    def on_events(self, events: Sequence[Event]) -> None:
        """Record a batch of events."""

    def emit(self, text: str) -> None:
        """Show text emitted by a program."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question meanwhile."""
        yield

    def close(self) -> None:
        """Show the last state; nothing is shown afterwards."""
