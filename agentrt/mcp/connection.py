"""A connection to a tool server that outlives the server: opened anew by the next call.

Tools are read again when that is done, and when the server says that they have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from agentrt.base.errors import AgentrtError, UsageError
from agentrt.mcp.server_address import ServerAddress
from agentrt.mcp.server_session import ServerSession, SessionForgotten
from agentrt.program import Tool

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as ServerTool

_log = logging.getLogger("agentrt")


class ServerConnection:
    """One connection; use `open` and `close`.

    Args:
        server: The server.
        opening_s: Time for starting it and asking for its tools.

    Attributes:
        server: The server.
        tools: The tools that are taken of those it has now, in its order.
    """

    def __init__(self, server: ServerAddress, opening_s: float) -> None:
        self.server = server
        self.tools: tuple[Tool[..., Any], ...] = ()
        self._opening_s = opening_s
        self._take: Callable[..., tuple[Tool[..., Any], ...]] = _nothing
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._session: ServerSession | None = None
        self._is_closed = False
        self._is_stale = False
        self._reading: asyncio.Task[None] | None = None

    @property
    def attributes(self) -> dict[str, str | int]:
        """The connection in the words of OpenTelemetry's conventions for MCP."""
        found = self.server.attributes()
        if self._session is not None:
            found["mcp.protocol.version"] = self._session.protocol_version
            if self._session.session_id:
                found["mcp.session.id"] = self._session.session_id
        return found

    async def open(self, take: Callable[..., tuple[Tool[..., Any], ...]]) -> None:
        """Connect, starting the process of a command.

        Args:
            take: Makes tools of those that the server lists, given the list and this connection;
                with `again=True` for a list that is not the first.

        Raises:
            ToolError: The server cannot be reached, does not answer in time or speaks no MCP.
            AgentrtError: An error of `take`.
        """
        self._loop = asyncio.get_running_loop()
        self._take = take
        try:
            await self._opened()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the process that was started for it; also under cancellation.

        Calls of `write` tools go on: then the connection ends with the last of them.
        """
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
        if self._session is None:
            return
        if self._session.has_writes:
            self._session.retire()
        else:
            await self._session.close()

    async def call(
        self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, str], *, writes: bool
    ) -> CallToolResult:
        """The result of a tool of the server; see `ServerSession.call`.

        Raises:
            UsageError: The connection was opened on another event loop.
            ToolError: The connection is closed, or the server has ended or cannot be opened anew.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError(
                f"the tools of MCP server {self.server.name} belong to another event loop",
                hint="Open them in the program that calls them",
            )
        session = await self._opened()
        try:
            result = await session.call(tool, arguments, meta, writes=writes)
        except SessionForgotten:
            session = await self._opened()
            result = await session.call(tool, arguments, meta, writes=writes)
        if self._reading is not None:
            await asyncio.wait({self._reading})  # a change that the call has made
        return result

    async def _opened(self) -> ServerSession:
        """The session, a new one if the last has ended."""
        async with self._lock:
            session = self._session
            if session is not None and session.is_open and not self._is_closed:
                return session
            is_first = session is None
            if not self._is_closed:
                session = ServerSession(self.server, self._opening_s, self._changed)
                listed = await session.open()
                self._session = session
                if not self._is_closed:
                    await self._taken(listed, again=not is_first)
                    return session
                await session.close()
            raise self.server.error("is closed", "Call its tools inside `async with mcp_tools()`")

    def _changed(self) -> None:
        self._is_stale = True
        if self._reading is None and not self._is_closed:
            self._reading = asyncio.create_task(self._read_again())

    async def _read_again(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                async with self._lock:  # an opening reads the list as well
                    session = self._session
                if session is not None and session.is_open:
                    await self._taken(await session.list_tools(), again=True)
        except AgentrtError as error:
            _log.warning("MCP server %s: %s", self.server.name, error.message)
        finally:
            self._reading = None

    async def _taken(self, listed: Sequence[ServerTool], *, again: bool) -> None:
        try:
            make = partial(self._take, listed, self, again=again)
            self.tools = await to_thread.run_sync(make)
        except AgentrtError as error:
            if not again:
                raise
            _log.warning(
                "MCP server %s has changed its tools, and the new ones are not taken: %s",
                self.server.name,
                error.message,
            )


def _nothing(*_: object, **__: object) -> tuple[Tool[..., Any], ...]:
    return ()
