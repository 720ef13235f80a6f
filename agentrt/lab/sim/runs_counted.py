"""Progress of a simulation: its runs are counted as they end."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.record import record
from agentrt.lab.progress import WorkPace
from agentrt.protocol.events import Event, RunFinished


@record
class RunsCounted:
    """An observer that counts the runs that have ended.

    Attributes:
        pace: Pace of the runs.
    """

    pace: WorkPace

    def on_events(self, events: Sequence[Event]) -> None:
        """Count the ends in a batch of events."""
        for event in events:
            if isinstance(event, RunFinished):
                self.pace.done()
