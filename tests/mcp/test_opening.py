"""Servers that do not open, and an install without the SDK."""

import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from agentrt import ToolError, mcp_tools, program
from agentrt.testing import ScriptedRuntime

WITHOUT_SDK = """
import sys
sys.modules["mcp"] = None
import agentrt
try:
    agentrt.mcp_tools("server")
except agentrt.NotInstalled as error:
    print(error)
"""


def opening_error(make: Callable[..., ScriptedRuntime], server: Any, **more: Any) -> str:
    @program
    async def opened() -> None:
        async with mcp_tools(server, **more):
            pass

    with pytest.raises(ToolError) as error:
        make({}).run(opened)
    return error.value.message


def test_no_such_program(scripted: Callable[..., ScriptedRuntime]) -> None:
    said = opening_error(scripted, "no-such-program-anywhere --port 3")
    assert said.startswith("MCP server no-such-program-anywhere 3 cannot be started:")


def test_a_program_that_ends(scripted: Callable[..., ScriptedRuntime]) -> None:
    said = opening_error(scripted, [sys.executable, "-c", "pass"], name="shop")
    assert said == "MCP server shop cannot be opened: Connection closed"


def test_a_program_that_says_nothing(scripted: Callable[..., ScriptedRuntime]) -> None:
    said = opening_error(scripted, "cat", open_timeout=0.5)
    assert said.startswith("MCP server cat "), said


def test_a_program_that_greets(
    scripted: Callable[..., ScriptedRuntime],
    small_server: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A line that is no message is told, in one line, and the server used."""
    python, script = small_server
    greets = (
        f"print('Welcome!', flush=True); import runpy; runpy.run_path({script!r}, {{}}, '__main__')"
    )

    @program
    async def opened() -> str:
        async with mcp_tools([python, "-c", greets], name="shop") as tools:
            return str(await tools["left"]())

    assert scripted({}).run(opened).value == "left"
    (record,) = [one for one in caplog.records if one.name == "mcp.client.stdio"]
    said = "MCP server shop: a line of its standard output is no message: 'Welcome!'"
    assert (record.getMessage(), record.exc_info) == (said, None)


def test_nothing_listens(scripted: Callable[..., ScriptedRuntime]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = opening_error(scripted, f"http://127.0.0.1:{port}/mcp")
    assert said.startswith(f"MCP server 127.0.0.1:{port} cannot be opened:")


def test_without_the_sdk() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDK], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == (
        "mcp_tools needs mcp, not installed here. pip install 'agentrt[mcp]'\n"
    ), done.stderr
