"""The bell that lets programs arrive at an arm, which runs in another process.

See `agentrt/lab/arms/program_arrivals.py` for the lines that are exchanged.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

from agentrt.lab.bench.fleet.arrival_schedule import ArrivalSchedule


class ArrivalBell:
    """Rings for the programs of one play as a fleet puts out tokens.

    Args:
        due_tokens: Instants at which programs arrive, in tokens served, in their order.
    """

    def __init__(self, due_tokens: Sequence[float]) -> None:
        self._schedule = ArrivalSchedule(due_tokens)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._arm: socket.socket | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._follow, name="arrival bell", daemon=True)

    @property
    def address(self) -> str:
        """Address for the arm, `host:port`."""
        host, port = self._listener.getsockname()[:2]
        return f"{host}:{port}"

    def __enter__(self) -> ArrivalBell:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            for one in (self._arm, self._listener):
                if one is not None:
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def look(self, served_tokens: float) -> None:
        """Ring for the programs that arrive once a fleet has put out so many tokens."""
        with self._lock:
            if self._arm is not None:
                numbers = self._schedule.look(served_tokens)
                with suppress(OSError):  # the arm has ended: whoever waits for its answer is told
                    self._arm.sendall(b"".join(b"%d\n" % number for number in numbers))

    def _follow(self) -> None:
        """Wait for the arm, then note the programs that have ended there."""
        with suppress(OSError):
            arm, _ = self._listener.accept()
            with arm, arm.makefile("rb") as lines:
                with self._lock:
                    if self._is_over:
                        return
                    self._arm = arm
                for _ in lines:
                    with self._lock:
                        self._schedule.end()
