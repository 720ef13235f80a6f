"""The owner's end of the socket, on the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from agentrt.base.errors import AgentrtError, ErrorRecord, record_of
from agentrt.engine.process.messages import COMMANDS, REPORTS, Command
from agentrt.protocol.backend import Capabilities
from agentrt.protocol.step_output import StepDone
from agentrt.protocol.wire import FrameReader


class Pipe(asyncio.Protocol):
    """Sends commands and receives reports.

    Args:
        owner_socket: The owner's end, which the pipe closes.
        on_step: Called with each step.

    Attributes:
        capabilities: Set once the engine has loaded.
        last_error: Error that the engine reported before it ended, or a protocol error.
        closed: Set when the other end is gone.
        settled: Set when the engine has loaded or the other end is gone.
    """

    def __init__(self, owner_socket: socket.socket, on_step: Callable[[StepDone], None]) -> None:
        self.capabilities: Capabilities | None = None
        self.last_error: ErrorRecord | None = None
        self.closed = asyncio.Event()
        self.settled = asyncio.Event()
        self._socket = owner_socket
        self._on_step = on_step
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._unsent = bytearray()

    async def connect(self) -> None:
        """Begin to send and receive."""
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=self._socket)

    @property
    def is_connected(self) -> bool:
        """Whether commands can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, command: Command) -> None:
        """Send one command; it is lost if the other end is gone.

        All commands of one iteration of the event loop arrive together. Otherwise the engine would
        begin with the first of many samples, and admit the others in later steps.
        """
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += COMMANDS.frame(command)

    def abort(self) -> None:
        """Close without waiting."""
        if self._transport is None:
            self._socket.close()
        else:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is not of that class

    def data_received(self, data: bytes) -> None:
        try:
            for payload in self._reader.feed_data(data):
                self._receive_report(payload)
        except AgentrtError as error:
            self.last_error = record_of(error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self.settled.set()

    def _flush(self) -> None:
        together, self._unsent = self._unsent, bytearray()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(together)

    def _receive_report(self, payload: bytes) -> None:
        match REPORTS.value(payload):
            case StepDone() as done:
                self._on_step(done)
            case ErrorRecord() as error:
                self.last_error = error
            case Capabilities() as capabilities:
                self.capabilities = capabilities
                self.settled.set()
