"""Learned quantities of some engines, kept from one process to the next.

A process may be killed at any time, and a server does not end for weeks. So the lessons of a run
are written soon after its end, those of the last seconds in one transaction, by a thread that
delays nothing. Closing writes the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from agentrt.scheduler import Estimates
from agentrt.scheduler.estimates.patterns import QUANTITIES, Patterns
from agentrt.scheduler.estimates.row import EstimateRow, RowKey

if TYPE_CHECKING:
    from agentrt.runtime.estimate_store.database import EstimateStore

SAVE_AFTER_S = 0.25
"""The caller of a run that has just ended goes first."""

SAVE_EVERY_S = 3.0

_log = logging.getLogger("agentrt")


class EstimateWriter:
    """Reads the learned quantities once, and writes what is added to them.

    Args:
        path: Path of the file; None if nothing is kept.
        engines: Engines on which is learned; other engines take other times.
        estimates: Estimates to start from if nothing is kept; None starts anew.

    Attributes:
        estimates: Learned times and sizes; they go on learning.
        patterns: Learned orders of tool calls and prompts; they go on learning.
        saves: How often the file was written.
    """

    def __init__(self, path: Path | None, engines: str, estimates: Estimates | None = None) -> None:
        self.estimates = Estimates() if estimates is None else estimates
        self.patterns = Patterns()
        self.saves = 0
        self._path = path
        self._engines = engines
        self._store: EstimateStore | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._unsaved: dict[RowKey, EstimateRow] = {}  # used by the thread only
        self._timer: asyncio.TimerHandle | None = None
        self._next_at_s = 0.0

    def load(self) -> None:
        """Read the file. Blocks; a file that cannot be read is moved aside, with a warning."""
        if self._path is None:
            return
        from agentrt.runtime.estimate_store.database import EstimateStore

        self._store = EstimateStore(self._path)
        rows = self._store.load(self._engines)
        try:
            self.estimates = Estimates(row for row in rows if row.quantity not in QUANTITIES)
            self.patterns = Patterns(rows)
        except ValueError as error:
            self._store.set_aside(str(error))
            self.estimates, self.patterns = Estimates(), Patterns()

    def schedule_save(self) -> None:
        """Let the lessons of a run that has ended be written soon; call it on the event loop."""
        if self._store is None or self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        at_s = max(loop.time() + SAVE_AFTER_S, self._next_at_s)
        self._timer = loop.call_at(at_s, self._hand_over, loop)

    async def aclose(self) -> None:
        """Write the rest."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._store is not None:
            self._write(self._news())
        if self._writer is not None:
            await to_thread.run_sync(self._writer.shutdown)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._next_at_s = loop.time() + SAVE_EVERY_S
        self._write(self._news())

    def _news(self) -> list[EstimateRow]:
        return [*self.estimates.changed_rows(), *self.patterns.changed_rows()]

    def _write(self, rows: Sequence[EstimateRow]) -> None:
        if self._writer is None:
            self._writer = ThreadPoolExecutor(1, "agentrt estimates")
        self._writer.submit(self._save, rows)

    def _save(self, rows: Sequence[EstimateRow]) -> None:
        assert self._store is not None
        self._unsaved.update({row.key: row for row in rows})
        if not self._unsaved:
            return
        try:
            if self._store.save(self._engines, self._unsaved.values()):
                self._unsaved.clear()
                self.saves += 1
        except Exception:
            _log.exception("%s: what was learned is not kept", self._path)
