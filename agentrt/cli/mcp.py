"""`agentrt mcp`: the tool servers of `agentrt.toml`, and the tools that one of them gives."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from agentrt.base.engines.engine_file import EngineFile, engine_file
from agentrt.base.key_reference import check_reference
from agentrt.base.text_columns import aligned

if TYPE_CHECKING:
    from agentrt.base.engines.tool_server import ToolServer
    from agentrt.program import Tool

COLUMNS = ("name", "address", "not set")
TOOL_COLUMNS = ("tool", "effects", "arguments")


def mcp(
    server: Annotated[
        str,
        typer.Argument(
            metavar="NAME|COMMAND|URL",
            help="Open this server and list its tools; none is called. Without it, the servers of "
            "agentrt.toml are listed, and none is started.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> int:
    """List servers of the Model Context Protocol, or the tools of one.

    Effects are what the server says of its tools. Programs take that with effects="annotated".
    """
    if server:
        name, rows = anyio.run(_tools_of, server)
        found: dict[str, Any] = {"server": name, "tools": rows}
        lines = tool_lines(name, rows)
    else:
        file = engine_file(os.environ)
        servers = [server_row(one) for one in file.tool_servers.values()]
        found = {"file": str(file.path) if file.path else None, "servers": servers}
        lines = server_lines(servers, file)
    if as_json:
        lines = [json.dumps(found, ensure_ascii=False, separators=(",", ":"))]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def server_row(server: ToolServer) -> dict[str, Any]:
    """One server by column; variables by their names only."""
    given = [
        *(server.env.values() if isinstance(server.env, dict) else ()),
        *server.headers.values(),
    ]
    asked = [check_reference(one, "env") for one in given if one.startswith("env:")]
    if not isinstance(server.env, dict):
        asked += server.env
    return {
        "name": server.name,
        "address": server.url or shlex.join(server.command),
        "variables": asked,
        "not set": [one for one in asked if not os.environ.get(one)],
    }


def server_lines(rows: list[dict[str, Any]], file: EngineFile) -> list[str]:
    """The servers as a table."""
    if not rows:
        where = f"{file.path} names none" if file.path else "there is no agentrt.toml here or above"
        return [f"no MCP servers: {where}; docs/mcp.md shows how to write one"]
    shown = [(row["name"], row["address"], ", ".join(row["not set"])) for row in rows]
    columns = COLUMNS if any(row[-1] for row in shown) else COLUMNS[:-1]
    return [str(file.path), *aligned([columns, *(row[: len(columns)] for row in shown)])]


async def _tools_of(server: str) -> tuple[str, list[dict[str, Any]]]:
    from agentrt.mcp import mcp_tools

    async with mcp_tools(server, effects="annotated", check=True) as tools:
        return tools.server, [tool_row(one) for one in tools]


def tool_row(tool: Tool[..., Any]) -> dict[str, Any]:
    """One tool by column."""
    spec = tool.spec
    return {
        "tool": tool.name,
        "effects": spec.effects,
        "description": spec.description,
        "parameters": spec.parameters,
    }


def tool_lines(server: str, rows: list[dict[str, Any]]) -> list[str]:
    """The tools as a table; arguments that need not be given stand in brackets."""
    if not rows:
        return [f"MCP server {server} has no tools"]
    shown = [(row["tool"], row["effects"], _arguments(row["parameters"])) for row in rows]
    return [f"MCP server {server}", *aligned([TOOL_COLUMNS, *shown])]


def _arguments(parameters: dict[str, Any]) -> str:
    required = parameters.get("required", ())
    names = parameters.get("properties", {})
    return ", ".join(name if name in required else f"[{name}]" for name in names)
