"""Spans of calls of servers, in the words of OpenTelemetry's conventions for MCP."""

import subprocess
import sys
from collections.abc import Callable

from agentrt import mcp_tools, program
from agentrt.testing import ScriptedRuntime

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CALLED = """
import sys
import anyio
from agentrt import RunOptions, mcp_tools, program
from agentrt.testing import ScriptedRuntime

@program
async def once(server: str) -> tuple[bool, str]:
    is_loaded = "opentelemetry.trace" in sys.modules
    async with mcp_tools(server, only=["traceparent"]) as tools:
        return is_loaded, await tools["traceparent"]()

async def main():
    options = RunOptions(traceparent=sys.argv[2])
    async with ScriptedRuntime({}).open() as runtime:
        print(*await runtime.with_options(options).run(once, sys.argv[1]))

anyio.run(main)
"""


def test_the_span_of_a_tool_names_method_and_transport(
    scripted: Callable[..., ScriptedRuntime], shop: str
) -> None:
    """The conventions ask for these on the span of the tool, and for no second span."""

    @program
    async def once() -> str:
        async with mcp_tools(shop, only=["price"]) as tools:
            return str(await tools["price"](item="lamp"))

    (node,) = [one for one in scripted({}).run(once).record.nodes.values() if one.kind == "tool"]
    attributes = dict(node.declared.attributes)
    assert attributes["mcp.method.name"] == "tools/call"
    assert str(attributes["mcp.protocol.version"]) >= "2025-06-18"
    assert attributes["network.transport"] == "tcp"
    assert attributes["server.address"] == "127.0.0.1"
    assert attributes["gen_ai.tool.name"] == "price"


def test_the_trace_context_goes_along(shop: str) -> None:
    """Also in a process that had not loaded OpenTelemetry's API when its run began."""
    done = subprocess.run(
        [sys.executable, "-c", CALLED, shop, CALLER], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"False {CALLER}\n", done.stderr
