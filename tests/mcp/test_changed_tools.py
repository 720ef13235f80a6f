"""Servers that change their tools, by a stream or by a notification."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from agentrt import mcp_tools, program
from agentrt.testing import ScriptedRuntime
from tests.mcp.until import until

Scripted = Callable[..., ScriptedRuntime]
OTHERS = ["forget", "variable", "pid", "die", "die_once"]


def test_a_call_that_changes_tools_ends_with_the_new_ones(
    scripted: Scripted, old_server: Any
) -> None:
    """The notification comes before the result, so a program never sees the old list after it."""

    @program
    async def turned() -> list[list[str]]:
        async with mcp_tools(old_server, without=OTHERS) as tools:
            before = [one.name for one in tools]
            await tools["turn"]()
            after = [one.name for one in tools]
            assert await tools["right"]() == "right"
            return [before, after]

    assert scripted({}).run(turned).value == [["turn", "left"], ["turn", "right"]]


def test_a_stream_tells_of_a_new_tool(scripted: Scripted, own_server: Any) -> None:
    @program
    async def grown() -> str:
        async with mcp_tools(own_server, without=["die"]) as tools:
            await tools["grow"](name="late")
            await until(lambda: "late" in [one.name for one in tools])
            return str(await tools["late"]())

    async def main() -> str:
        async with scripted({}).open() as runtime:
            return await runtime.run(grown)

    assert anyio.run(main) == "one\ntwo"


def test_a_tool_that_settings_name_may_go(scripted: Scripted, old_server: Any) -> None:
    @program
    async def turned() -> list[str]:
        async with mcp_tools(old_server, only=["turn", "left"]) as tools:
            await tools["turn"]()
            return [one.name for one in tools]

    assert scripted({}).run(turned).value == ["turn"]


def test_tools_that_cannot_be_taken_are_told_and_left(
    scripted: Scripted, old_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that is too long with its prefix; the tools of before stay."""

    @program
    async def turned() -> list[str]:
        async with mcp_tools(old_server, without=OTHERS, prefix="x" * 60) as tools:
            await tools["x" * 60 + "turn"]()
            return [one.name.strip("x") for one in tools]

    with caplog.at_level(logging.WARNING, "agentrt"):
        assert scripted({}).run(turned).value == ["turn", "left"]
    assert "has changed its tools, and the new ones are not taken" in caplog.text
