"""A tool server of the official SDK: over standard input and output, or HTTP on a given socket.

python tests/mcp/server.py [DESCRIPTOR]
"""

import os
import socket
import sys
from typing import Annotated

import anyio
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("shop", log_level="ERROR")


class Item(BaseModel):
    name: str
    cents: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def price(item: Annotated[str, Field(max_length=12)], currency: str = "EUR") -> str:
    """The price of an item."""
    return f"{len(item)} {currency}"


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def order(item: str, count: Annotated[int, Field(ge=1, le=9)]) -> Item:
    """Orders an item."""
    return Item(name=item, cents=100 * count)


@server.tool(structured_output=False)
def fail(why: str) -> str:
    """Fails."""
    raise ToolError(why)


@server.tool(structured_output=False)
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool(structured_output=False)
def page() -> list[str | Image]:
    """A text with a picture."""
    return ["a lamp", Image(data=b"\x89PNG", format="png")]


@server.tool(structured_output=False)
def lines() -> list[str]:
    """Two texts."""
    return ["one", "two"]


@server.tool(structured_output=False)
async def sleep() -> str:
    """Never ends."""
    await anyio.sleep_forever()
    return ""


@server.tool(structured_output=False)
def die() -> str:
    """Ends the process."""
    os._exit(3)


@server.tool(name="stock.count", structured_output=False)
def stock(item: str) -> str:
    """A name with a dot."""
    return item


@server.tool(structured_output=False)
async def grow(ctx: Context, name: str) -> str:
    """Adds a tool."""
    server.add_tool(lines, name=name, structured_output=False)
    await ctx.notify_tools_changed()
    return name


@server.tool(structured_output=False)
async def traceparent(ctx: Context) -> str:
    """The trace context that came along."""
    return str((ctx.request_context.meta or {}).get("traceparent"))


@server.tool(structured_output=False)
async def sign(folder: str) -> str:
    """Writes `begun`, waits for `go`, and writes `signed`."""
    here = anyio.Path(folder)
    await (here / "begun").touch()
    while not await (here / "go").exists():  # noqa: ASYNC110  # a test makes it
        await anyio.sleep(0.01)
    await (here / "signed").touch()
    return "signed"


@server.tool(structured_output=False)
def pid() -> str:
    """Id of the process."""
    return str(os.getpid())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        app = server.streamable_http_app(host="127.0.0.1")
        taken = socket.socket(fileno=int(sys.argv[1]))
        serving = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        anyio.run(serving.serve, [taken])
    else:
        server.run("stdio")
