"""Worker threads that nobody has to wait for at the end."""

import asyncio
import subprocess
import sys
import threading
from contextvars import ContextVar
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest

from agentrt.testing import run_virtual
from agentrt.tools import running_calls
from agentrt.tools.workers import run_in_worker


def nothing() -> None:
    pass


def test_a_tool_that_never_ends_holds_no_process() -> None:
    """The caller gave up on it; the interpreter then ends with the program."""
    code = """
import threading
from agentrt.tools import ToolSpec, execute
from agentrt.testing import run_virtual
import anyio
import anyio.lowlevel

def stuck():
    threading.Event().wait()

async def main():
    with anyio.move_on_after(1.0):
        await execute(ToolSpec.of(stuck, effects="read"), {})
    print("given up", flush=True)

run_virtual(main, patience_s=0.1)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "given up\n", "")


def test_workers_are_used_again() -> None:
    async def main() -> set[int]:
        return {await run_in_worker(threading.get_ident, nothing) for _ in range(20)}

    first, second = asyncio.run(main()), asyncio.run(main())
    assert len(first | second) < 20, "also by the next loop"


def test_calls_are_counted_until_their_functions_return() -> None:
    started, release = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait()

    async def main() -> tuple[int, int, int]:
        loop = asyncio.get_running_loop()
        returned = asyncio.Event()
        call = loop.create_task(run_in_worker(work, returned.set))
        await run_in_worker(started.wait, nothing)
        during = running_calls(loop)
        call.cancel()
        await asyncio.wait([call])
        given_up = running_calls(loop)
        release.set()
        await returned.wait()
        return during, given_up, running_calls(loop)

    assert asyncio.run(main()) == (1, 1, 0)


def test_a_call_that_was_cancelled_before_it_began_does_nothing() -> None:
    begun: list[int] = []

    async def main() -> None:
        returned = asyncio.Event()
        call = asyncio.ensure_future(run_in_worker(lambda: begun.append(1), returned.set))
        call.cancel()
        await asyncio.wait([call])
        assert not returned.is_set(), "it had not even been handed over"

    asyncio.run(main())
    assert not begun


def test_what_a_function_raises_is_raised() -> None:
    def fails() -> None:
        raise KeyError("x")

    def stops() -> None:
        raise StopIteration(3)

    with pytest.raises(KeyError, match="x"):
        asyncio.run(run_in_worker(fails, nothing))
    with pytest.raises(RuntimeError, match=r"StopIteration\(3\)"):
        asyncio.run(run_in_worker(stops, nothing))


def test_a_function_may_run_a_loop_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a variable says which library runs; it is that of the caller's loop."""
    library: ContextVar[str | None] = ContextVar("library", default=None)
    library.set("asyncio")
    monkeypatch.setitem(sys.modules, "sniffio", SimpleNamespace(current_async_library_cvar=library))

    async def nap() -> str:
        await anyio.lowlevel.checkpoint()
        return str(library.get())

    def own() -> str:
        assert library.get() is None
        return asyncio.run(nap())

    assert asyncio.run(run_in_worker(own, nothing)) == "None"


def test_a_loop_that_closed_is_not_called() -> None:
    """The function goes on, and what it gives is dropped."""
    release, done = threading.Event(), threading.Event()

    async def main() -> None:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def late() -> None:
            loop.call_soon_threadsafe(begun.set)
            release.wait()
            done.set()

        task = asyncio.ensure_future(run_in_worker(late, nothing))
        await begun.wait()  # one that was cancelled before would not begin
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    release.set()
    assert done.wait(10)


def test_virtual_time_waits_for_a_worker() -> None:
    """A tool that computes takes no virtual time, and no timer overtakes it."""
    gate = threading.Event()

    def work() -> str:
        gate.wait()
        return "done"

    async def main() -> tuple[str, bool]:
        with anyio.move_on_after(5.0) as scope:
            threading.Timer(0.05, gate.set).start()
            return await run_in_worker(work, nothing), scope.cancelled_caught
        return "late", scope.cancelled_caught

    assert run_virtual(main) == ("done", False)
