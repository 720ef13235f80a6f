"""Tries of sources that do not pay, one token each, ever more rarely while they fail."""

from __future__ import annotations

from agentrt.protocol.step_output import DraftSource

FIRST_ROWS = 64
"""Rows without a draft after which a source is tried; above the knee a try costs one of them."""

MOST_ROWS = 1024


class Probes:
    """Counts the rows for which a source had a guess that did not pay.

    A source that always fails is tried five times in the first 1,984 rows, then once in 1,024.
    """

    def __init__(self) -> None:
        self._waits: dict[DraftSource, tuple[int, int]] = {}

    def is_due(self, source: DraftSource) -> bool:
        """Count a row; True if the source is to be tried for it."""
        rows, wait = self._waits.get(source, (0, FIRST_ROWS))
        rows += 1
        due = rows >= wait
        self._waits[source] = (0, min(2 * wait, MOST_ROWS)) if due else (rows, wait)
        return due

    def note_paying(self, source: DraftSource) -> None:
        """Forget the failures of a source whose guesses pay."""
        self._waits.pop(source, None)
