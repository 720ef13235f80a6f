"""Signals that end a command: the first one asks it to stop, the second one ends the process.

A thread reads the signals, so that the second one is obeyed also while code of a program holds the
event loop.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agentrt.cli.error_report import HUNG_UP, INTERRUPTED, TERMINATED

EXIT_OF: dict[int, int] = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
    signal.SIGHUP: HUNG_UP,
}
ANSWER_S = 1.0
"""Time in which the event loop takes up a signal, unless code blocks it."""


class SignalWatch:
    """A thread that reads signals.

    Args:
        stop: Called on that thread at the first signal; returns at once.

    Attributes:
        exit_code: Exit code of the first signal; None without one.
        taken_up: Set by the command when it has begun to stop.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._terminals = [one for one in range(3) if os.isatty(one)]
        self.exit_code: int | None = None
        self.taken_up = threading.Event()

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
            self._stop()
            threading.Thread(target=self._note_blocked, daemon=True).start()

    def _leave_terminal(self) -> None:
        """Lead what would go to the closed terminal nowhere: writing to it fails."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in self._terminals:
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    def _note_blocked(self) -> None:
        if not self.taken_up.wait(ANSWER_S):
            with suppress(OSError):
                sys.stderr.write(
                    "code of the program holds the event loop: a second signal ends the process\n"
                )
                sys.stderr.flush()


@contextmanager
def watched_signals(stop: Callable[[], None]) -> Iterator[SignalWatch]:
    """Watch signals meanwhile; a hang-up that is ignored, as under nohup, stays so."""
    watch = SignalWatch(stop)
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
