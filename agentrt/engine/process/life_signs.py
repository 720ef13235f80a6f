"""Signs of life of an engine's process, in memory that it shares with its owner.

The engine writes a few numbers and waits for nothing: one thread counts beats, whatever a step
does; the loop notes each phase of its work and the time that it should take. The owner reads them
now and then.
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
_BEATS, _PHASE = struct.Struct("=Q"), struct.Struct("=Qd")
_PHASE_AT = _BEATS.size
_PAGE_BYTES = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Reading:
    """Signs of life at one instant.

    Attributes:
        beats: Beats so far; a stopped process adds none.
        phases: Phases of work begun so far; the first is the load.
        forecast_s: Seconds that the phase under way should take; 0 if the engine waits for work.
    """

    beats: int = 0
    phases: int = 0
    forecast_s: float = 0.0

    @property
    def is_loading(self) -> bool:
        """Whether the engine has not done any work yet."""
        return self.phases <= 1


class LifeSigns:
    """A page of shared memory.

    Args:
        fd: File descriptor of the page, which the caller may close afterwards; -1 for memory that
            nothing else reads.
    """

    def __init__(self, fd: int = -1) -> None:
        self._page = mmap.mmap(fd, _PAGE_BYTES)
        self._phases = self.read().phases

    @classmethod
    def on_new(cls, file: IO[bytes]) -> LifeSigns:
        """Signs on an empty file, which may be closed afterwards."""
        file.truncate(_PAGE_BYTES)
        return cls(file.fileno())

    def start_beating(self) -> None:
        """Count beats on a thread, until the process ends."""
        threading.Thread(target=self._beat, name="agentrt beat", daemon=True).start()

    def begin(self, forecast_s: float) -> None:
        """Note the begin of a phase that should take so long."""
        self._phases += 1
        _PHASE.pack_into(self._page, _PHASE_AT, self._phases, forecast_s)

    def rest(self) -> None:
        """Note that the engine waits for work."""
        self.begin(0.0)

    def read(self) -> Reading:
        """The signs now."""
        return Reading(*_LAYOUT.unpack_from(self._page))

    def _beat(self) -> None:
        beats = 0
        while True:
            time.sleep(BEAT_S)
            beats += 1
            _BEATS.pack_into(self._page, 0, beats)
