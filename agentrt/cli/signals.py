"""Signals that end a command: the first one asks it to stop, the second one ends the process.

A thread reads the signals and looks whether the event loop answers, so that the process ends also
if code of a program holds the loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agentrt.cli.error_report import HUNG_UP, INTERRUPTED, TERMINATED
from agentrt.runtime import users_frame
from agentrt.tools import hold_notice, unknown_notice, writes_under_way

EXIT_OF: dict[int, int] = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: HUNG_UP,
}
ANSWER_S = 0.7
"""Time in which the event loop answers, unless code blocks it."""
CHECK_S = 0.1


class SignalWatch:
    """A thread that reads signals, and another one after the first signal.

    Args:
        stop: Called on the event loop at the first signal.
        loop: The event loop, which runs in the thread that makes this.
        write_grace_s: Time that `write` tools under way have if code holds the loop.

    Attributes:
        exit_code: Exit code of the first signal; None without one.
    """

    def __init__(
        self, stop: Callable[[], None], loop: asyncio.AbstractEventLoop, write_grace_s: float
    ) -> None:
        self._stop = stop
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._write_grace_s = write_grace_s
        self._terminals = [one for one in range(3) if os.isatty(one)]
        self._over = threading.Event()
        self.exit_code: int | None = None

    def read(self, wakeups: socket.socket) -> None:
        """Read until the other end is closed."""
        while number := wakeups.recv(1):
            code = EXIT_OF.get(number[0])
            if code is None:
                continue
            if self.exit_code is not None:
                os._exit(self.exit_code)
            self.exit_code = code
            if code == HUNG_UP:
                self._leave_terminal()
            with suppress(RuntimeError):  # the loop is closed: the command has ended
                self._loop.call_soon_threadsafe(self._stop)
            threading.Thread(target=self._end_if_blocked, args=(code,), daemon=True).start()
        self._over.set()

    def _leave_terminal(self) -> None:
        """Lead what would go to the closed terminal nowhere: writing to it fails."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._terminals:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    def _end_if_blocked(self, code: int) -> None:
        """End the process once code of the program holds the loop, until the command is over."""
        with suppress(RuntimeError):  # the loop is closed
            while not self._over.wait(CHECK_S):
                place = self._blocking_place()
                if place:
                    note(f"{place} holds the event loop: the process ends without its run\n")
                    self._hold_for_writes()
                    os._exit(code)

    def _blocking_place(self) -> str:
        """The line of the program that holds the loop; "" if the loop answers."""
        answered = threading.Event()
        self._loop.call_soon_threadsafe(answered.set)
        if answered.wait(ANSWER_S):
            return ""
        frame = users_frame(sys._current_frames().get(self._loop_thread))
        if frame is None or answered.is_set():
            return ""
        return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"

    def _hold_for_writes(self) -> None:
        """Wait for `write` tools, which end in threads of their own, if they do."""
        if not writes_under_way() or self._write_grace_s <= 0:
            return
        note(hold_notice(self._write_grace_s, writes_under_way()))
        until_s = time.monotonic() + self._write_grace_s
        while writes_under_way() and time.monotonic() < until_s:
            time.sleep(CHECK_S)
        if left := writes_under_way():
            note(unknown_notice(left))


def note(line: str) -> None:
    """Write to standard error, unless it is gone."""
    with suppress(OSError):
        sys.stderr.write(line)
        sys.stderr.flush()


@contextmanager
def watched_signals(stop: Callable[[], None], write_grace_s: float) -> Iterator[SignalWatch]:
    """Watch signals for the running loop; a hang-up that is ignored, as under nohup, stays so."""
    watch = SignalWatch(stop, asyncio.get_running_loop(), write_grace_s)
    is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = [one for one in EXIT_OF if not (is_kept and one == signal.SIGHUP)]
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        reader = threading.Thread(target=watch.read, args=(ours,), name="signals", daemon=True)
        reader.start()
        before_fd = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        before = [(one, signal.signal(one, _noted)) for one in numbers]
        try:
            yield watch
        finally:
            for number, handler in before:
                signal.signal(number, handler)
            signal.set_wakeup_fd(before_fd)
            theirs.close()
            reader.join()


def _noted(_number: int, _frame: object) -> None:
    """The thread has read it."""
