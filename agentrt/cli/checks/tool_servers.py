"""Servers of the Model Context Protocol that a program opens: each named, and looked for."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable, Iterator

from agentrt.base.errors import UsageError, record_of
from agentrt.cli.checks.finding import Finding, error_finding
from agentrt.program.code.source import FunctionSource
from agentrt.program.code.type_value import UNKNOWN, type_value

OPENER = "mcp_tools"


def tool_server_findings(sources: Iterable[FunctionSource]) -> Iterator[Finding]:
    """The servers that functions name, and what stands against starting them.

    Addresses that only a run knows are left out. Nothing is started.
    """
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and _opens(node.func) and node.args:
                server = type_value(node.args[0], source)
                if server is not UNKNOWN:
                    yield _finding(server, source.where(node))


def _opens(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == OPENER
    return False


def _finding(server: str | list[str], where: str) -> Finding:
    from agentrt.mcp.server_address import ServerAddress

    try:
        address = ServerAddress.of(server, (), {})
    except UsageError as error:
        return error_finding("mcp", record_of(error), where)
    if address.command and shutil.which(address.command[0], path=None) is None:
        what = f"MCP server {address.name}: there is no program {address.command[0]}"
        return Finding("error", "mcp", where, what, address.hint_of_command())
    what = f"opens MCP server {address.name} ({address.url or 'a process'})"
    return Finding("note", "mcp", where, what, "agentrt mcp lists the tools of a server")
