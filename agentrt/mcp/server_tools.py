"""Opening a tool server for a block of code."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, overload

from agentrt.base.engine_extra import require_packages
from agentrt.base.errors import UsageError
from agentrt.mcp.connection import ServerConnection
from agentrt.mcp.offered_tools import EffectChoice, Offer
from agentrt.mcp.server_address import ServerAddress
from agentrt.program import Tool
from agentrt.program.call_site import call_site
from agentrt.tools import BACKOFF_S, Backoff

TIMEOUT_S = 60.0
OPENING_S = 30.0


class ServerTools(Sequence[Tool[..., Any]]):
    """The tools of an open server, in its order; `tools["name"]` is one of them.

    They are those that the server has now: it may change them, and says so.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    @property
    def server(self) -> str:
        """Name of the server, for people."""
        return self._connection.server.name

    @property
    def _tools(self) -> tuple[Tool[..., Any], ...]:
        return self._connection.tools

    @overload
    def __getitem__(self, index: int | str) -> Tool[..., Any]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tool[..., Any], ...]: ...
    def __getitem__(self, index: int | str | slice) -> Tool[..., Any] | tuple[Tool[..., Any], ...]:
        if not isinstance(index, str):
            return self._tools[index]
        for tool in self._tools:
            if tool.name == index:
                return tool
        raise UsageError(
            f"MCP server {self.server} gave no tool {index!r}",
            hint=f"Its tools: {', '.join(tool.name for tool in self._tools) or 'none'}",
        )

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"<ServerTools {self.server}: {', '.join(tool.name for tool in self._tools)}>"


def mcp_tools(
    server: str | Sequence[str],
    *,
    only: Collection[str] | None = None,
    without: Collection[str] = (),
    prefix: str = "",
    effects: EffectChoice = "write",
    timeout: float | None = TIMEOUT_S,
    retries: int = 0,
    backoff: Backoff = BACKOFF_S,
    max_result_bytes: int | None = None,
    check: bool = False,
    env: Sequence[str] | Mapping[str, str] = (),
    cwd: str | os.PathLike[str] = "",
    headers: Mapping[str, str] | None = None,
    open_timeout: float = OPENING_S,
    name: str = "",
) -> AbstractAsyncContextManager[ServerTools]:
    """The tools of a server that speaks the Model Context Protocol, for a block of code.

    A command is started without a shell and spoken to over its standard input and output; it ends
    with the block. A URL is spoken to over streamable HTTP. The tools are called like any other: by
    a program, or by a model that is held to their schemas. If the server ends, calls under way fail
    and the next one opens it anew. Needs `pip install 'agentrt[mcp]'`.

    Example:
        ```python
        async with agentrt.mcp_tools("python server.py", effects="read") as tools:
            step = await chat("Use tools.").user(question).step(tools=tools, final=str)
        ```

    Args:
        server: Command, as a text with the quotes of a shell or as a list; or a URL; or the name of
            a table `[mcp.NAME]` in `agentrt.toml`.
        only: Names of the tools to take, as the server spells them; None takes all.
        without: Names of tools to leave out.
        prefix: Beginning of the names by which models call them, so that those of two servers
            differ. Characters that such a name cannot have become `_`.
        effects: Effect of a call, as of `tool`, for all or by name; tools that are not named are
            `write`. "annotated" takes the word of the server, which is to be trusted for that.
        timeout: Seconds for one attempt; None sets none.
        retries: How often to try again.
        backoff: Pause before a further attempt, as of `tool`.
        max_result_bytes: Limit on the text of a result; None takes that of `RunConfig`.
        check: Accept schemas with keywords that cannot be enforced token by token: these are
            checked when a call is written, and a model is told of what does not fit.
        env: Variables for the process of a command, beside `PATH`, `HOME` and the like: names, or
            values by name. The value `env:NAME` is that of a variable here.
        cwd: Folder in which a command is started; "" takes that of this process.
        headers: Headers of each request to a URL. A value `env:NAME` is that of a variable;
            headers that carry secrets take no other.
        open_timeout: Seconds for starting the server and listing its tools.
        name: Name of the server in messages; "" takes that of the command or the host.

    Raises:
        UsageError: A setting is malformed, or names no tool of the server.
        NotInstalled: The SDK of the protocol is not installed.
        ToolError: The server cannot be started or reached, or does not answer in time.
        ConstraintError: The schema of a tool cannot be held; the message names server, tool and
            keyword.
    """
    where = call_site()
    address = ServerAddress.of(server, env, headers or {}, name, os.fspath(cwd))
    if open_timeout <= 0:
        raise UsageError(f"open_timeout={open_timeout:g}", hint="Give more than 0 seconds")
    offer = Offer(
        only, without, prefix, effects, timeout, retries, backoff, max_result_bytes, check, where
    )
    offer.check_settings()
    require_packages("mcp_tools", ("mcp",), hint="pip install 'agentrt[mcp]'")
    return _opened(ServerConnection(address, open_timeout), offer)


@asynccontextmanager
async def _opened(connection: ServerConnection, offer: Offer) -> AsyncIterator[ServerTools]:
    await connection.open(offer.tools)
    try:
        yield ServerTools(connection)
    finally:
        await connection.close()
