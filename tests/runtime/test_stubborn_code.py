"""Code that does not end when it is stopped holds neither its node nor its run."""

import asyncio
import threading
from typing import Any

import anyio
import pytest

from agentrt import DeadlineExceeded, NodeCancelled, chat, program, tool
from agentrt.protocol.events import NodeFinished
from agentrt.runtime import RunOptions, leave_threads

ASK = chat(system="Be brief.")
HOUR_S = 3600.0


def run(rig: Any, job: Any, options: RunOptions | None = None) -> Any:
    """The result of a program on real time: anyio cancels anew in each turn, which is no time."""

    async def main() -> Any:
        async with rig.runtime() as runtime:
            return await runtime.with_options(options or RunOptions()).run(job)

    return anyio.run(main)


async def stay(cancelled: list[float]) -> None:
    """Catch each cancellation."""
    while True:
        try:
            await anyio.sleep(HOUR_S)
        except BaseException:
            cancelled.append(anyio.current_time())


def test_a_cancelled_tool_that_goes_on_is_left(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(effects="read")
    async def stubborn() -> None:
        await stay([])

    @program
    async def outer() -> None:
        node = stubborn()
        await anyio.sleep(0.01)
        node.cancel("enough")
        with pytest.raises(NodeCancelled, match="enough"):
            await node

    rig = bench([])
    run(rig, outer)
    (finished,) = rig.recorder.of(NodeFinished, "stubborn")
    assert (finished.outcome, finished.reason) == ("cancelled", "enough")
    assert "outer#0/stubborn#0 was stopped and does not end" in caplog.text


def test_what_is_left_is_not_cancelled_anew(bench: Any) -> None:
    """As anyio does in each turn of the loop until a scope is left."""
    cancelled: list[float] = []

    @tool(effects="read")
    async def stubborn() -> None:
        await stay(cancelled)

    @program
    async def outer() -> int:
        node = stubborn()
        await anyio.sleep(0.01)
        node.cancel("enough")
        with pytest.raises(NodeCancelled):
            await node
        times = len(cancelled)
        await anyio.sleep(0.01)
        return len(cancelled) - times

    assert run(bench([]), outer) == 0
    assert cancelled


@pytest.mark.parametrize("how", ["run", "program"])
def test_a_deadline_ends_a_program_that_goes_on(bench: Any, how: str) -> None:
    refused: list[BaseException] = []

    @tool(effects="read")
    async def waits() -> None:
        await anyio.sleep(HOUR_S)

    async def body() -> None:
        while len(refused) < 3:
            try:
                await waits()
            except BaseException as error:
                refused.append(error)
        await stay([])

    @program
    async def plain() -> None:
        await body()

    @program(deadline=0.05)
    async def limited() -> None:
        await body()

    rig = bench([])
    options = RunOptions(deadline_s=0.05 if how == "run" else None)
    with pytest.raises(DeadlineExceeded, match=r"passed its deadline of 0\.05 s"):
        run(rig, plain if how == "run" else limited, options)
    assert len(refused) == 3
    assert len(rig.recorder.of(NodeFinished, "waits")) >= 1


def test_generations_of_a_program_that_goes_on_end_with_it(bench: Any) -> None:
    @program(deadline=0.05)
    async def stubborn() -> None:
        node = ASK.user("x").generate(name="endless")
        try:
            await node
        except BaseException:
            await stay([])

    rig = bench(["a" * 1000], decode_tokens_per_s=1.0)
    with pytest.raises(DeadlineExceeded):
        run(rig, stubborn)
    assert rig.recorder.of(NodeFinished, "endless")[0].outcome == "cancelled"


def test_a_long_end_after_a_deadline_gives_the_deadline(bench: Any) -> None:
    @tool(effects="read")
    async def release() -> None:
        await anyio.sleep(HOUR_S)

    @program(deadline=0.05)
    async def long_end() -> None:
        try:
            await anyio.sleep(HOUR_S)
        finally:
            with anyio.CancelScope(shield=True):
                await release()

    with pytest.raises(DeadlineExceeded):
        run(bench([]), long_end)


def test_a_caller_that_is_cancelled_goes_on(bench: Any) -> None:
    """Also the program of a run without a deadline is no code of its caller's task."""

    @program
    async def stubborn() -> None:
        await stay([])

    async def main() -> bool:
        async with bench([]).runtime() as runtime:
            task = asyncio.create_task(runtime.run(stubborn))
            await anyio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

    assert anyio.run(main)


def test_the_end_of_the_loop_waits_for_nothing_that_was_left(bench: Any) -> None:
    """The run of the loop would cancel it once more and wait for it."""
    rig = bench([])

    @program(deadline=0.01)
    async def stubborn() -> None:
        await stay([])

    async def main() -> None:
        async with rig.runtime() as runtime:
            await runtime.run(stubborn)

    with pytest.raises(DeadlineExceeded):
        anyio.run(main)


def test_the_end_of_the_loop_waits_for_no_thread_that_was_left() -> None:
    may_end, ended = threading.Event(), threading.Event()

    def works() -> None:
        may_end.wait(60)
        ended.set()

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, works)
        leave_threads()

    anyio.run(main)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)
