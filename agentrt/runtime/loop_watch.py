"""Reports calls that block the event loop: deadlines and tokens of all runs wait for them."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from agentrt.base.record import record

PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
LIBRARIES = tuple(
    os.path.realpath(path) + os.sep
    for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")}
)
ASYNCIO = str(Path(asyncio.__file__).parent) + os.sep
LOOP_FUNCTIONS = frozenset(("_run_once", "run_forever", "run_until_complete", "run"))


class LoopWatch:
    """A loop that notes the time, and a thread that samples its stack if the time grows old.

    Each line is reported once. Only the user's code is, and only if it blocks by itself: two
    samples `limit_s` apart must be of one callback of the loop, and of one function outside this
    package and outside the libraries. Many short callbacks in one turn of the loop block nothing,
    and time inside a call of this package is not the user's: the first `step` of a process imports
    and compiles what later ones find ready.
    The thread wakes once in `limit_s`: with four times as many wakes a chain of nodes took a fifth
    more processor time. A call that lasts three times `limit_s` or less may therefore be missed.

    Args:
        limit_s: Time that a call may take.
        say: Takes the report, one line.
    """

    def __init__(self, limit_s: float, say: Callable[[str], None]) -> None:
        self._limit_s = limit_s
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._closed = threading.Event()
        self._seen: set[str] = set()
        self._beat_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._watch, name="agentrt loop watch", daemon=True)

    @staticmethod
    def fits() -> bool:
        """Whether the running loop keeps real time; a loop with virtual time is not watched."""
        return abs(asyncio.get_running_loop().time() - time.monotonic()) < 1.0

    def start(self) -> None:
        """Watch from now on."""
        self._beat()
        self._thread.start()

    def close(self) -> None:
        """Stop watching; returns at once."""
        self._closed.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._beat_at_s = time.monotonic()
        self._timer = self._loop.call_later(self._limit_s / 2, self._beat)

    def _watch(self) -> None:
        while not self._closed.wait(self._limit_s):
            beat_at_s = self._beat_at_s
            if time.monotonic() - beat_at_s < self._limit_s:
                continue
            before = self._sample()
            if before.users is None or self._closed.wait(self._limit_s):
                continue
            now = self._sample()
            if self._beat_at_s == beat_at_s and before.is_one_call_with(now):
                self.report(now)
            del before, now

    def report(self, sample: LoopSample) -> None:
        """Report the line of the user's code in a sample, unless it is known."""
        if sample.users is None:
            return
        code = sample.users.f_code
        site = f"{code.co_filename}:{sample.line}"
        if site not in self._seen:
            self._seen.add(site)
            self._say(
                f"{site} in {code.co_name} blocks the event loop for over "
                f"{1000 * self._limit_s:.0f} ms, and with it every run: use a plain `def` tool, "
                "await something asynchronous, or do it once for all runs"
            )

    def _sample(self) -> LoopSample:
        return LoopSample.of(sys._current_frames().get(self._loop_thread))


@record
class LoopSample:
    """A sample of the stack of the loop's thread: its frames go on, so all is read at once.

    Attributes:
        callback: Outermost frame of the callback that the loop runs; None outside one.
        users: Innermost frame of the user's code, or None.
        line: Line of that frame.
        is_ours: Whether that frame waits for a call of this package.
    """

    callback: FrameType | None
    users: FrameType | None
    line: int = 0
    is_ours: bool = False

    @classmethod
    def of(cls, frame: FrameType | None) -> LoopSample:
        """The sample of a thread's innermost frame."""
        users = users_frame(frame)
        if users is None:
            return cls(callback_frame(frame), None)
        return cls(callback_frame(frame), users, users.f_lineno, _calls_us(frame, users))

    def is_one_call_with(self, later: LoopSample) -> bool:
        """Whether one callback, in one function of the user's, has run from here to there.

        Two samples within calls of this package tell nothing; a loop of the user's over such calls
        is seen in its own code by a later one.
        """
        if self.users is None or later.users is None or (self.is_ours and later.is_ours):
            return False
        return self.callback is later.callback and self.users.f_code is later.users.f_code


def _calls_us(frame: FrameType | None, users: FrameType) -> bool:
    """Whether a frame of this package lies between the innermost frame and that of the user."""
    while frame is not None and frame is not users:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def callback_frame(frame: FrameType | None) -> FrameType | None:
    """The outermost frame of the callback that asyncio runs; each callback has one of its own."""
    while frame is not None and (outer := frame.f_back) is not None:
        if outer.f_code.co_name == "_run_once" and outer.f_code.co_filename.startswith(ASYNCIO):
            return frame
        frame = outer
    return None


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code, or None.

    Only code that the loop runs counts, and not the code that runs the loop. Methods that
    dataclasses generate have no file; their caller counts.
    """
    while frame is not None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if name in LOOP_FUNCTIONS and file.startswith(ASYNCIO):
            return None
        if not file.startswith(("<frozen", "<string>", PACKAGE, *LIBRARIES)):
            return frame
        frame = frame.f_back
    return None


@contextmanager
def watched_loop(limit_s: float) -> Iterator[None]:
    """Watch the running loop meanwhile; not if `limit_s` is 0, or if its time is virtual."""
    watch = LoopWatch(limit_s, _on_standard_error) if limit_s > 0 and LoopWatch.fits() else None
    if watch is not None:
        watch.start()
    try:
        yield
    finally:
        if watch is not None:
            watch.close()


def _on_standard_error(line: str) -> None:
    """Write a report."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
