"""Running tools: threads, timeouts, retries and cancelling, on virtual time."""

import contextvars
import threading
from typing import Any

import anyio
import pytest
from anyio import CapacityLimiter
from anyio.lowlevel import checkpoint

from agentrt.base.errors import ToolFailed
from agentrt.testing import LoopClock, run_virtual
from agentrt.tools import AttemptEnded, AttemptStarted, ToolSpec, execute

REQUEST = contextvars.ContextVar("REQUEST", default="none")
SAFE = ("pure", "read", "idempotent")


async def until(holds) -> None:
    """Wait for what a thread does; threads cannot set an event of the loop."""
    while not holds():
        await checkpoint()


def tool(fn, **settings):
    return ToolSpec.of(fn, **{"effects": "read", **settings})


def test_sync_tools_run_in_a_worker_thread_with_the_callers_context():
    async def main():
        REQUEST.set("r1")
        return await execute(tool(where), {"a": 1})

    def where(a: int) -> tuple[int, str, bool]:
        return a, REQUEST.get(), threading.current_thread() is threading.main_thread()

    assert anyio.run(main) == (1, "r1", False)


def test_async_tools_are_awaited_here():
    async def where(a: int) -> tuple[str, bool]:
        await anyio.sleep(5)
        return REQUEST.get(), threading.current_thread() is threading.main_thread()

    async def main():
        REQUEST.set("r2")
        started_at_s = anyio.current_time()
        result = await execute(tool(where).bind(a=1), {})
        return (*result, anyio.current_time() - started_at_s)

    assert run_virtual(main) == ("r2", True, 5)


def test_attempts_are_told():
    told: list[Any] = []

    async def fails() -> None:
        await anyio.sleep(1)
        raise KeyError("gone")

    async def main():
        await execute(tool(fails, retries=2), {}, clock=LoopClock(), on_attempt=told.append)

    with pytest.raises(ToolFailed, match="fails: KeyError: 'gone'") as error:
        run_virtual(main)
    starts = [one for one in told if isinstance(one, AttemptStarted)]
    ends = [one for one in told if isinstance(one, AttemptEnded)]
    assert [one.attempt for one in starts] == [1, 2, 3]
    first = starts[0].at_s
    assert [one.at_s - first for one in starts] == pytest.approx([0, 1.1, 2.3])  # 0.1 s, 0.2 s
    assert [one.at_s - first for one in ends] == pytest.approx([1, 2.1, 3.3])
    assert {one.error and one.error.type for one in ends} == {"KeyError"}
    assert error.value.attempts == 3
    assert error.value.tool == "fails"
    assert isinstance(error.value.__cause__, KeyError)
    assert error.value.__notes__ == ["in tool fails({}), attempt 3 of 3, after 3.300 s"]


def test_a_retry_can_succeed():
    tries = []

    async def flaky(a: int) -> int:
        tries.append(a)
        if len(tries) < 3:
            raise OSError("busy")
        return a

    assert run_virtual(lambda: execute(tool(flaky, retries=5), {"a": 7})) == 7
    assert tries == [7, 7, 7]


def test_a_tools_own_failure_passes_as_it_is():
    async def refuses() -> None:
        raise ToolFailed("no such city", tool="refuses")

    with pytest.raises(ToolFailed, match=r"^no such city") as error:
        run_virtual(lambda: execute(tool(refuses), {}))
    assert error.value.__cause__ is None
    assert len(error.value.__notes__) == 1


def test_notes_hide_bound_arguments_and_cut_long_ones():
    async def fails(secret: str, text: str) -> None:
        raise ValueError

    with pytest.raises(ToolFailed, match="no message") as error:
        run_virtual(lambda: execute(tool(fails).bind(secret="s3cret"), {"text": "x" * 9999}))
    line = fails.__code__.co_firstlineno + 1
    assert error.value.where.endswith(f"tests/tools/test_execute.py:{line}")
    (note,) = error.value.__notes__
    assert "s3cret" not in note
    assert len(note) < 600


@pytest.mark.parametrize("effects", SAFE)
def test_timeout_of_an_async_tool(effects):
    async def slow() -> None:
        await anyio.sleep(100)

    async def main():
        started_at_s = anyio.current_time()
        with pytest.raises(ToolFailed, match="TimeoutError: took longer than 2 s"):
            await execute(tool(slow, effects=effects, timeout_s=2), {})
        return anyio.current_time() - started_at_s

    assert run_virtual(main) == 2


@pytest.mark.parametrize("effects", SAFE)
def test_timeout_of_a_sync_tool(effects):
    release = threading.Event()

    def stuck() -> None:
        release.wait(30)

    async def main():
        with pytest.raises(ToolFailed, match="TimeoutError"):
            await execute(tool(stuck, effects=effects, timeout_s=0.01), {})
        release.set()

    anyio.run(main)


def test_a_thread_left_behind_keeps_its_place():
    started, release = threading.Event(), threading.Event()

    def stuck() -> None:
        started.set()
        release.wait(30)

    async def main():
        limiter = CapacityLimiter(1)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: execute(tool(stuck), {}, limiter=limiter))
            await until(started.is_set)
            group.cancel_scope.cancel()
        busy = limiter.borrowed_tokens
        release.set()
        await until(lambda: not limiter.borrowed_tokens)
        return busy

    assert anyio.run(main) == 1


def test_the_limiter_bounds_threads():
    """No more run at once than there are places; each attempt is told when it has one."""
    running, most = [], []
    lock = threading.Lock()

    def work(i: int) -> int:
        with lock:
            running.append(i)
            most.append(len(running))
        barrier.wait(10)
        with lock:
            running.remove(i)
        return i

    barrier = threading.Barrier(2)

    async def main():
        limiter = CapacityLimiter(2)
        results = []

        async def one(i):
            results.append(await execute(tool(work), {"i": i}, limiter=limiter))

        async with anyio.create_task_group() as group:
            for i in range(6):
                group.start_soon(one, i)
        await until(lambda: not limiter.borrowed_tokens)
        return sorted(results)

    assert anyio.run(main) == list(range(6))
    assert max(most) == 2


async def cancelled_after(spec, seconds, **more):
    """Seconds from the cancelling of a tool until its task is over."""
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: execute(spec, {}, **more))
        await anyio.sleep(seconds)
        cancelled_at_s = anyio.current_time()
        group.cancel_scope.cancel()
    return anyio.current_time() - cancelled_at_s


@pytest.mark.parametrize("effects", SAFE)
def test_safe_tools_stop_at_once(effects):
    log = []

    async def slow() -> None:
        try:
            await anyio.sleep(10)
        finally:
            log.append("stopped")
        log.append("done")

    assert run_virtual(lambda: cancelled_after(tool(slow, effects=effects), 3)) == 0
    assert log == ["stopped"]


def test_a_write_that_waits_for_its_turn_never_starts():
    log: list[Any] = []

    def pay() -> None:
        log.append("paid")

    async def main():
        limiter = CapacityLimiter(1)
        async with limiter, anyio.create_task_group() as group:
            group.start_soon(
                lambda: execute(
                    tool(pay, effects="write"), {}, limiter=limiter, on_attempt=log.append
                )
            )
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        return limiter.borrowed_tokens

    assert anyio.run(main) == 0
    assert log == []


def test_a_cancelled_attempt_is_told_as_ended():
    told: list[Any] = []

    async def slow() -> None:
        await anyio.sleep(10)

    run_virtual(lambda: cancelled_after(tool(slow), 3, on_attempt=told.append))
    assert isinstance(told[-1], AttemptEnded)
    assert told[-1].error
    assert told[-1].error.type == "CancelledError"


def test_many_cancelled_threads_give_their_places_back():
    async def main():
        limiter = CapacityLimiter(4)
        spec = tool(lambda: None, name="quick")
        for _ in range(50):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await execute(spec, {}, limiter=limiter)
            with anyio.move_on_after(0):
                await execute(spec, {}, limiter=limiter)
        await until(lambda: not limiter.borrowed_tokens)
        return await execute(tool(lambda: 5, name="five"), {}, limiter=limiter)

    assert anyio.run(main) == 5
