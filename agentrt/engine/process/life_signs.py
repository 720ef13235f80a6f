"""Signs of life of an engine's process, in memory that it shares with its owner.

The engine writes a few numbers and waits for nothing: one thread counts beats, whatever a step
does; the loop notes each step and the time that it should take. The owner reads them now and then.
"""

from __future__ import annotations

import mmap
import struct
import threading
import time
from dataclasses import dataclass
from typing import IO

BEAT_S = 0.25
"""Seconds between two beats."""

_LAYOUT = struct.Struct("=QQd")
_BEATS, _STEPS, _FORECAST = (struct.Struct("=" + one) for one in "QQd")
_STEPS_AT, _FORECAST_AT = _BEATS.size, _BEATS.size + _STEPS.size
_PAGE_BYTES = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Reading:
    """Signs of life at one instant.

    Attributes:
        beats: Beats so far; a stopped process adds none.
        steps: Steps begun so far.
        forecast_s: Seconds that the step under way should take; 0 if none is, or none is known.
    """

    beats: int = 0
    steps: int = 0
    forecast_s: float = 0.0


class LifeSigns:
    """A page of shared memory.

    Args:
        fd: File descriptor of the page; the caller may close it afterwards.
    """

    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, _PAGE_BYTES)
        self._steps = 0

    @classmethod
    def on_new(cls, file: IO[bytes]) -> LifeSigns:
        """Signs on an empty file, which may be closed afterwards."""
        file.truncate(_PAGE_BYTES)
        return cls(file.fileno())

    def start_beating(self) -> None:
        """Count beats on a thread, until the process ends."""
        threading.Thread(target=self._beat, name="agentrt beat", daemon=True).start()

    def begin_step(self, forecast_s: float) -> None:
        """Note a step that should take so long; 0 if that is not known."""
        self._steps += 1
        _STEPS.pack_into(self._page, _STEPS_AT, self._steps)
        _FORECAST.pack_into(self._page, _FORECAST_AT, forecast_s)

    def end_step(self) -> None:
        """Note that no step is under way."""
        _FORECAST.pack_into(self._page, _FORECAST_AT, 0.0)

    def read(self) -> Reading:
        """The signs now."""
        return Reading(*_LAYOUT.unpack_from(self._page))

    def _beat(self) -> None:
        beats = 0
        while True:
            time.sleep(BEAT_S)
            beats += 1
            _BEATS.pack_into(self._page, 0, beats)
