"""The engine's end of the socket: it never waits for a reader, so tokens never do either."""

from __future__ import annotations

import contextlib
import select
import socket

from agentrt.engine.process.messages import COMMANDS, REPORTS, Command, Report
from agentrt.protocol.wire import FrameReader

_READ_BYTES = 1 << 16


class OwnerGone(Exception):
    """The other end is closed: nothing reads the tokens any more."""


class Channel:
    """Receives commands and sends reports over one stream socket that it owns."""

    def __init__(self, engine_socket: socket.socket) -> None:
        engine_socket.setblocking(False)
        self._socket = engine_socket
        self._reader = FrameReader()
        self._unsent = bytearray()
        self._poll = select.poll()
        self._put_back: list[Command] = []

    def send(self, report: Report) -> None:
        """Send one report; bytes that the socket does not accept now go with the next calls."""
        self._unsent += REPORTS.frame(report)
        self._flush()

    def receive(self, wait_s: float | None) -> list[Command]:
        """Commands that have arrived; waits at most `wait_s` for the first, None without limit.

        Raises:
            OwnerGone: The other end is closed.
        """
        while True:
            heard = self._wait_readable(0 if self._put_back else wait_s)
            self._flush()
            commands, self._put_back = [*self._put_back, *(self._read() if heard else ())], []
            if commands or wait_s is not None:
                return commands

    def put_back(self, commands: list[Command]) -> None:
        """Let the next `receive` begin with these."""
        self._put_back = commands

    def drain(self, wait_s: float) -> None:
        """Send the unsent bytes, waiting up to `wait_s` for the reader at each part."""
        with contextlib.suppress(OwnerGone):
            while self._unsent:
                self._poll.register(self._socket, select.POLLOUT)
                if not self._poll.poll(wait_s * 1e3):
                    return
                self._flush()

    def close(self) -> None:
        self._socket.close()

    def _wait_readable(self, wait_s: float | None) -> bool:
        """Wait until the socket is readable, or writable for unsent bytes; True if readable.

        Also called before a read that waits for nothing, as between two steps: polling costs less
        than the exception of a read without data.
        """
        self._poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        found = self._poll.poll(None if wait_s is None else wait_s * 1e3)
        return any(what & ~select.POLLOUT for _, what in found)

    def _read(self) -> list[Command]:
        found: list[Command] = []
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return found
            except OSError as error:
                raise OwnerGone from error
            if not data:
                raise OwnerGone
            found += [COMMANDS.value(payload) for payload in self._reader.feed_data(data)]
            if len(data) < _READ_BYTES:
                return found

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            return
        except OSError as error:
            raise OwnerGone from error
