"""The owner's end of the socket, on the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from agentrt.base.errors import AgentrtError, ErrorRecord, record_of
from agentrt.engine.process.messages import COMMANDS, REPORTS, Command
from agentrt.protocol.backend import Capabilities
from agentrt.protocol.step_output import StepDone
from agentrt.protocol.wire import FrameReader


class Pipe(asyncio.Protocol):
    """Commands out, reports in.

    Attributes:
        capabilities: Told once the engine has loaded.
        last_words: The error that the engine told before it ended, or what was wrong on the wire.
        closed: Set when the other end is gone.
        heard: How often something arrived.
        settled: Set when the engine has loaded or the other end is gone.
    """

    def __init__(self, take: Callable[[StepDone], None]) -> None:
        self.capabilities: Capabilities | None = None
        self.last_words: ErrorRecord | None = None
        self.closed = asyncio.Event()
        self.settled = asyncio.Event()
        self.heard = 0
        self._take = take
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._unsent = bytearray()

    @classmethod
    async def open(cls, ours: socket.socket, take: Callable[[StepDone], None]) -> Pipe:
        """A pipe that owns `ours`; each step goes to `take`."""
        loop = asyncio.get_running_loop()
        _, pipe = await loop.create_connection(lambda: cls(take), sock=ours)
        return pipe

    def send(self, command: Command) -> None:
        """Write one command, lost when the other end is gone.

        What one turn of the loop sends arrives at once: the engine must not begin with the first of
        many samples, and take the others in with the steps after.
        """
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += COMMANDS.frame(command)

    def abort(self) -> None:
        """Close without waiting."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += 1
        try:
            for payload in self._reader.feed_data(data):
                self._hear(payload)
        except AgentrtError as error:
            self.last_words = record_of(error)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self.settled.set()

    def _flush(self) -> None:
        together, self._unsent = self._unsent, bytearray()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(together)

    def _hear(self, payload: bytes) -> None:
        match REPORTS.value(payload):
            case StepDone() as done:
                self._take(done)
            case ErrorRecord() as error:
                self.last_words = error
            case Capabilities() as capabilities:
                self.capabilities = capabilities
                self.settled.set()
