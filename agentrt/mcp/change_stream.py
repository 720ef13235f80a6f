"""The stream by which a server of the protocol of 2026 says that its tools have changed.

Servers of earlier versions send a notification without being asked for it. The SDK gives both to
the message handler of its client, so that the stream has only to be kept open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from mcp import Client

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0


@asynccontextmanager
async def told_of_changes(client: Client, on_loss: Callable[[], None]) -> AsyncIterator[None]:
    """A block in which the message handler of a client is told of changes.

    Args:
        client: The client, connected.
        on_loss: Called if the stream was lost, and a change perhaps with it.
    """
    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        yield
        return
    async with anyio.create_task_group() as group:
        group.start_soon(_listen, client, on_loss)
        yield
        group.cancel_scope.cancel()


async def _listen(client: Client, on_loss: Callable[[], None]) -> None:
    from mcp import MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

    pause_s = FIRST_PAUSE_S
    while True:
        was_open = False
        with suppress(ListenNotSupportedError, MCPError, SubscriptionLost):
            async with client.listen(tools_list_changed=True) as changes:
                was_open = True
                async for _ in changes:
                    pause_s = FIRST_PAUSE_S
        if not was_open:
            return  # the server has no such stream, or has ended
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_PAUSE_S)
        on_loss()
