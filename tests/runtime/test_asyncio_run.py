"""A runtime on a loop of asyncio's own, as in a web server, and not on one of anyio."""

import asyncio

import pytest

from agentrt import program, tool
from agentrt.base.clock import MonotonicClock
from agentrt.runtime import Runtime
from agentrt.testing import ScriptedBackend


@tool(effects="read")
async def double(number: int) -> int:
    return 2 * number


@program
async def doubled(number: int) -> int:
    return await double(number)


def test_tools_run_where_sniffio_is_installed() -> None:
    """It comes with the libraries of some providers."""
    pytest.importorskip("sniffio")

    async def main() -> int:
        backend = ScriptedBackend(lambda request, prompt: "y", clock=MonotonicClock())
        async with Runtime({"default": (backend, None)}) as runtime:
            return await runtime.run(doubled, 4)

    assert asyncio.run(main()) == 8
