"""The two transports of the protocol as the SDK has them: a process, or streamable HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from agentrt.mcp.server_address import ServerAddress
from agentrt.mcp.stray_output import server_name, shorten_reports
from agentrt.mcp.watched_messages import watched

if TYPE_CHECKING:
    import httpx2

SESSION_HEADER = "mcp-session-id"
NOT_FOUND = 404


class SessionHeaders:
    """The session of a server at a URL, read from its headers; a process has none.

    Attributes:
        session_id: Id that the server has given; "" for none.
        is_forgotten: Whether the server has said that it does not know the session any more.
    """

    def __init__(self) -> None:
        self.session_id = ""
        self.is_forgotten = False

    async def read(self, response: httpx2.Response) -> None:
        """Take note of a response, as a hook of the HTTP client."""
        self.session_id = response.headers.get(SESSION_HEADER, self.session_id)
        if response.status_code == NOT_FOUND and SESSION_HEADER in response.request.headers:
            self.is_forgotten = True


async def transport_of(
    server: ServerAddress,
    headers: SessionHeaders,
    opening_s: float,
    stack: AsyncExitStack,
    on_end: Callable[[], None],
) -> Any:
    """The transport to a server, which the SDK's client enters.

    Args:
        server: The server.
        headers: Reads the responses of a URL.
        opening_s: Time for a connection to a URL.
        stack: Closes what the transport needs.
        on_end: Called if a process ends.
    """
    from mcp import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if server.url:
        import httpx2

        # The limits of time are those of the tools; a stream may be silent for as long. Each call
        # under way has a connection, and how many there are is the program's affair.
        http = httpx2.AsyncClient(
            headers=dict(server.headers),
            timeout=httpx2.Timeout(opening_s, read=None),
            limits=httpx2.Limits(max_connections=None),
            trust_env=not server.is_loopback,
            event_hooks={"response": [headers.read]},
        )
        await stack.enter_async_context(http)
        return streamable_http_client(server.url, http_client=http)
    shorten_reports()
    server_name.set(server.name)  # of the task that holds the connection, and of its readers
    program, *arguments = server.command
    parameters = StdioServerParameters(
        command=program, args=arguments, env=dict(server.env), cwd=server.cwd or None
    )
    return watched(stdio_client(parameters, errlog=sys.__stderr__ or _nowhere(stack)), on_end)


def _nowhere(stack: AsyncExitStack) -> Any:
    """A file for the errors of a server, in a process without standard error."""
    return stack.enter_context(open(os.devnull, "w"))
