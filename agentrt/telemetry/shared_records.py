"""One record of each run for all observers of a runtime that make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrt.analysis import RunRecord, RunRecorder


class SharedRecords(RunRecorder):
    """Fills the records that others share; an observer, and the first of its runtime.

    Args:
        drop: Called with an observer that failed to take a record, and its error.

    Attributes:
        takers: Observers with the method `on_record`, which get a record when its run begins.
    """

    def __init__(self, drop: Callable[[Any, Exception], None]) -> None:
        super().__init__(lambda record: None, self._share)
        self._drop = drop
        self.takers: list[Any] = []

    def _share(self, record: RunRecord) -> None:
        for taker in tuple(self.takers):
            try:
                taker.on_record(record)
            except Exception as error:
                self._drop(taker, error)
