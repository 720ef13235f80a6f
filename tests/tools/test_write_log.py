"""The key of a call is there in its function, wherever that runs."""

from typing import Any

import anyio
import pytest

from agentrt import UsageError, idempotency_key
from agentrt.tools import ToolSpec, WriteCall, execute, tool_call_key
from tests.tools import process_tools as here


async def on_the_loop() -> str:
    return idempotency_key()


def in_a_thread() -> str:
    return idempotency_key()


@pytest.mark.parametrize(
    ("fn", "process"), [(on_the_loop, False), (in_a_thread, False), (here.key, True)]
)
def test_a_function_reads_the_key_of_its_call(fn: Any, process: bool) -> None:
    spec = ToolSpec.of(fn, effects="write", process=process)

    async def main() -> Any:
        tool_call_key.set("k1")
        return await execute(spec, {})

    assert anyio.run(main) == "k1"


def test_there_is_no_key_outside_a_tool() -> None:
    with pytest.raises(UsageError, match="no tool call is under way"):
        idempotency_key()


def test_a_write_is_made_by_the_function_of_the_caller() -> None:
    seen: list[Any] = []

    async def on_write(call: WriteCall, make: Any) -> Any:
        seen.append((call.call, call.spec.name, dict(call.arguments)))
        tool_call_key.set("k2")
        return await make() + "!"

    spec = ToolSpec.of(in_a_thread, effects="write")

    async def main(spec: ToolSpec) -> Any:
        tool_call_key.set("k1")
        return await execute(spec, {}, on_write=on_write, call_path="job#0/pay#0")

    assert anyio.run(main, spec) == "k2!"
    assert seen == [("job#0/pay#0", "in_a_thread", {})]
    reading = ToolSpec.of(in_a_thread, effects="read")
    assert anyio.run(main, reading) == "k1", "tools that write nothing are called as ever"
