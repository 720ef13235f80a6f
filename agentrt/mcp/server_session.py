"""One life of a tool server, from its start or the handshake to its end, held by a task of its own.

The SDK keeps its connection in task groups: the task that enters one has to leave it, and is
cancelled if it fails. In a task of its own, a server that dies ends calls but never the program
that made them, and any task may close the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, cast

import anyio

from agentrt.base.errors import AgentrtError, ToolError
from agentrt.base.exception_groups import leaves
from agentrt.mcp.change_stream import told_of_changes
from agentrt.mcp.server_address import ServerAddress
from agentrt.mcp.transport import SessionHeaders, transport_of

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, RequestParamsMeta, Tool

CLOSING_S = 10.0
"""Time for the end of a connection; the SDK stops a process in 6 s."""

MAX_PAGES = 100
"""Pages of a list of tools, so that a server cannot go on for ever."""


class SessionForgotten(Exception):
    """A server at a URL does not know the session any more, and has not made the call."""


class ServerSession:
    """One life; use `open`, then `close` or `retire`.

    Args:
        server: The server.
        opening_s: Time for starting it and asking for its tools.
        on_change: Called if the server says that its tools have changed.

    Attributes:
        server: The server.
        protocol_version: Version that both sides speak; "" before `open`.
    """

    def __init__(
        self, server: ServerAddress, opening_s: float, on_change: Callable[[], None]
    ) -> None:
        self.server = server
        self.protocol_version = ""
        self._opening_s = opening_s
        self._on_change = on_change
        self._headers = SessionHeaders()
        self._client: Client | None = None
        self._calls = 0
        self._writes = 0
        self._is_retired = False
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether new calls may be made."""
        return self._client is not None and not self._is_retired

    @property
    def has_writes(self) -> bool:
        """Whether a call of a `write` tool is under way."""
        return self._writes > 0

    @property
    def session_id(self) -> str:
        """Id that a server at a URL has given; "" for none."""
        return self._headers.session_id

    async def open(self) -> list[Tool]:
        """Connect, starting the process of a command.

        Returns:
            The server's tools, in its order.

        Raises:
            ToolError: The server cannot be reached, does not answer in time or speaks no MCP.
        """
        listed: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(listed), name=f"mcp {self.server.name}")
        try:
            await asyncio.wait({listed}, timeout=self._opening_s)
            if not listed.done():
                raise self.server.error(
                    f"does not answer within {self._opening_s:g} s",
                    "Raise open_timeout, or look at what it writes to standard error",
                )
            return listed.result()
        except BaseException:
            self._task.cancel()
            await self.close()
            raise

    async def close(self) -> None:
        """End it, and the process that was started for it; also under cancellation."""
        self._ending.set()
        task = self._task
        if task is None:
            return
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task}, timeout=CLOSING_S)
            task.cancel()
            await asyncio.wait({task})

    def retire(self) -> None:
        """Take no more calls, and end as soon as those under way have."""
        self._is_retired = True
        if not self._calls:
            self._ending.set()

    async def list_tools(self) -> list[Tool]:
        """The server's tools now, in its order.

        Raises:
            ToolError: The server has ended, or does not answer in time.
        """
        if self._client is None:
            raise self._ended()
        try:
            with anyio.fail_after(self._opening_s):
                return await _tools_of(self._client)
        except Exception as error:
            raise self.server.error(f"does not list its tools: {error!r}", "") from error

    async def call(
        self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, str], *, writes: bool
    ) -> CallToolResult:
        """The result of a tool.

        Args:
            tool: Name of the tool at the server.
            arguments: Arguments by name.
            meta: Entries of `_meta`.
            writes: Whether the call may change something and must not be made twice.

        Raises:
            SessionForgotten: The server has not made the call; another session may.
            ToolError: The server has ended.
        """
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        if self._client is None:
            raise self._ended()
        self._calls += 1
        self._writes += writes
        try:
            carried = cast("RequestParamsMeta", dict(meta)) if meta else None
            return await self._client.call_tool(tool, dict(arguments), meta=carried)
        except MCPError as error:
            if self._headers.is_forgotten:
                self.retire()
                raise SessionForgotten from error
            if error.code == CONNECTION_CLOSED:
                self.retire()
                unsure = f"; whether {tool} was done is unknown" if writes else ""
                raise self._ended(unsure) from error
            raise
        finally:
            self._calls -= 1
            self._writes -= writes
            if self._is_retired and not self._calls:
                self._ending.set()

    def _ended(self, unsure: str = "") -> ToolError:
        what = "ended the connection" if self.server.url else "has ended"
        return self.server.error(f"{what} while its tools are in use{unsure}", "Call it again")

    async def _hold(self, listed: asyncio.Future[list[Tool]]) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await self._connected(stack)
                tools = await _tools_of(client)
                self.protocol_version = client.protocol_version
                self._client = client
                if not listed.done():
                    listed.set_result(tools)
                try:
                    async with told_of_changes(client, self._on_change):
                        await self._ending.wait()
                finally:
                    self._client = None
        except Exception as error:
            if not listed.done():
                mended = self._opening_error(error)
                if mended is not error:
                    mended.__cause__ = error
                listed.set_exception(mended)
        finally:
            listed.cancel()

    async def _connected(self, stack: AsyncExitStack) -> Client:
        from importlib.metadata import version

        from mcp import Client
        from mcp_types import Implementation, ToolListChangedNotification

        async def on_message(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._on_change()

        transport = await transport_of(
            self.server, self._headers, self._opening_s, stack, self.retire
        )
        client = Client(
            transport,
            cache=None,
            client_info=Implementation(name="agentrt", version=version("agentrt")),
            message_handler=on_message,
        )
        return await stack.enter_async_context(client)

    def _opening_error(self, error: Exception) -> AgentrtError:
        causes = list(leaves(error))
        cause = next((one for one in causes if isinstance(one, AgentrtError)), causes[0])
        if isinstance(cause, AgentrtError):
            return cause
        if isinstance(cause, OSError) and self.server.command:
            return self.server.error(
                f"cannot be started: {cause.strerror or cause}", self.server.hint_of_command()
            )
        text = str(cause) or type(cause).__name__
        where = "its URL" if self.server.url else "what it writes to standard error"
        return self.server.error(f"cannot be opened: {text}", f"Look at {where}")


async def _tools_of(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise ToolError(f"a list of tools has more than {MAX_PAGES} pages")
