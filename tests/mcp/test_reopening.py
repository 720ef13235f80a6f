"""Servers that end: the calls of that moment fail, and the next one opens them anew."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import NodeCancelled, ToolFailed, mcp_tools, program
from agentrt.mcp.server_address import ServerAddress
from agentrt.mcp.server_session import ServerSession
from agentrt.testing import ScriptedRuntime
from tests.mcp.until import until

Scripted = Callable[..., ScriptedRuntime]


def test_the_next_call_starts_the_process_anew(scripted: Scripted, small_server: Any) -> None:
    @program
    async def restarted() -> tuple[str, str, str]:
        async with mcp_tools(small_server) as tools:
            first = await tools["pid"]()
            with pytest.raises(ToolFailed) as failed:
                await tools["die"]()
            return first, failed.value.message, await tools["pid"]()

    first, said, second = scripted({}).run(restarted).value
    assert first != second
    assert said.endswith("has ended while its tools are in use; whether die was done is unknown")


def test_a_process_that_ends_while_idle_is_noticed(small_server: list[str]) -> None:
    """The next call starts another one, and does not fail with the one that has ended."""

    async def main() -> None:
        session = ServerSession(ServerAddress.of(small_server, (), {}), 30, lambda: None)
        await session.open()
        (block,) = (await session.call("pid", {}, {}, writes=False)).content
        assert block.type == "text"
        os.kill(int(block.text), signal.SIGKILL)
        await until(lambda: not session.is_open)
        await session.close()

    anyio.run(main)


def test_a_read_tool_is_tried_again(scripted: Scripted, small_server: Any, tmp_path: Path) -> None:
    """Each attempt meets a new process."""

    @program
    async def twice() -> str:
        only = ["die_once"]
        async with mcp_tools(small_server, only=only, effects="read", retries=1) as tools:
            return str(await tools["die_once"](mark=str(tmp_path / "died")))

    assert scripted({}).run(twice).value == "die_once"


def test_a_url_that_nobody_answers_any_more(scripted: Scripted, http_server: str) -> None:
    @program
    async def gone() -> list[str]:
        said = []
        async with mcp_tools(http_server, open_timeout=5) as tools:
            for name in ("die", "pid"):
                with pytest.raises(ToolFailed) as failed:
                    await tools[name]()
                said.append(failed.value.message)
        return said

    first, second = scripted({}).run(gone).value
    assert "ended the connection while its tools are in use" in first
    assert "cannot be opened" in second


def test_a_forgotten_session_is_begun_anew(scripted: Scripted, server_with_sessions: str) -> None:
    """The server has not made the call, so that it is made again without asking."""

    @program
    async def forgotten() -> tuple[str, list[Any]]:
        async with mcp_tools(server_with_sessions) as tools:
            first = tools["left"].spec.attributes["mcp.session.id"]
            await tools["forget"]()
            said = await tools["left"]()
            return said, [first, tools["left"].spec.attributes["mcp.session.id"]]

    said, (first, second) = scripted({}).run(forgotten).value
    assert said == "left"
    assert first != second


def test_a_write_outlives_its_block(scripted: Scripted, stdio_server: Any, tmp_path: Path) -> None:
    """The process ends after the call, not with the program."""

    @program
    async def signing() -> None:
        async with mcp_tools(stdio_server, only=["sign"]) as tools:
            await tools["sign"](folder=str(tmp_path))

    @program
    async def outer() -> None:
        inner = signing()
        await until((tmp_path / "begun").exists)
        inner.cancel("enough")
        with pytest.raises(NodeCancelled):
            await inner
        (tmp_path / "go").touch()

    async def main() -> None:
        async with scripted({}).open() as runtime:
            await runtime.run(outer)

    anyio.run(main)
    assert (tmp_path / "signed").exists()
