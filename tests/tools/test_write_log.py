"""The key of a call is there in its function, wherever that runs."""

from functools import partial
from typing import Any

import anyio
import pytest

from agentrt import UsageError, idempotency_key
from agentrt.testing import run_virtual
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


@pytest.mark.parametrize("effects", ["pure", "write"])
@pytest.mark.parametrize("fn", [on_the_loop, in_a_thread])
def test_any_call_can_be_made_by_the_caller_or_not_at_all(fn: Any, effects: Any) -> None:
    """A worker that was taken for a call is free again, made or not."""
    seen: list[str] = []

    async def on_tool(call: WriteCall, make: Any) -> Any:
        seen.append(call.call)
        return await make() + "!" if call.call == "made" else "given"

    spec = ToolSpec.of(fn, effects=effects)

    async def main() -> list[Any]:
        tool_call_key.set("k")
        limiter = anyio.CapacityLimiter(1)
        run = partial(execute, spec, {}, limiter=limiter, on_tool=on_tool, on_write=None)
        with anyio.fail_after(60):
            found = [await run(call_path=path) for path in ("given", "made", "given")]
        assert limiter.borrowed_tokens == 0
        return found

    assert run_virtual(main) == ["given", "k!", "given"]
    assert seen == ["given", "made", "given"]


def test_a_write_that_is_not_made_holds_no_worker() -> None:
    async def on_write(call: WriteCall, make: Any) -> Any:
        return "from the log"

    async def main() -> Any:
        limiter = anyio.CapacityLimiter(1)
        spec = ToolSpec.of(in_a_thread, effects="write")
        with anyio.fail_after(60):
            return [await execute(spec, {}, limiter=limiter, on_write=on_write) for _ in range(2)]

    assert run_virtual(main) == ["from the log"] * 2
