"""Any event loop of asyncio runs programs; a runtime may be kept over calls from many tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentrt import EngineUnavailable, UsageError, chat, program
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig
from agentrt.runtime import Runtime
from agentrt.runtime.opening import RuntimeOpening
from agentrt.testing import LoopClock, ScriptedBackend


@program
async def greet(name: str) -> str:
    return await chat().user("Greet ", name).generate()


def scripted(seen: list[ScriptedBackend] | None = None) -> RuntimeOpening:
    @asynccontextmanager
    async def block() -> Any:
        backend = ScriptedBackend(["Hello Ada!", "Hello Bob!"], clock=LoopClock())
        if seen is not None:
            seen.append(backend)
        async with Runtime({"default": (backend, None)}) as runtime:
            yield runtime

    return RuntimeOpening(block)


class Notebook:
    """Cells as a notebook runs them: each in a task of its own, on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def cell(self, body: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(self._loop.create_task(body))


@pytest.fixture
def notebook() -> Any:
    loop = asyncio.new_event_loop()
    yield Notebook(loop)
    assert not asyncio.all_tasks(loop), "nothing is left behind"
    loop.close()


async def opened(opening: RuntimeOpening) -> Runtime:
    return await opening


def test_a_runtime_is_kept_over_the_cells_of_a_notebook(notebook: Notebook) -> None:
    runtime = notebook.cell(opened(scripted()))
    assert notebook.cell(runtime.run(greet, "Ada")) == "Hello Ada!"
    assert notebook.cell(runtime.run(greet, "Bob")) == "Hello Bob!"
    notebook.cell(runtime.aclose())
    notebook.cell(runtime.aclose())
    with pytest.raises(UsageError, match="not open"):
        notebook.cell(runtime.run(greet, "Ada"))


def test_a_runtime_that_cannot_be_opened_leaves_nothing(notebook: Notebook) -> None:
    with pytest.raises(EngineUnavailable):
        notebook.cell(opened(open_runtime(engine="http://127.0.0.1:9")))


def test_an_opening_that_is_cancelled_closes_what_was_opened(notebook: Notebook) -> None:
    started = asyncio.Event()

    @asynccontextmanager
    async def slow() -> Any:
        started.set()
        await asyncio.Event().wait()
        yield

    async def impatient() -> None:
        task = asyncio.ensure_future(opened(RuntimeOpening(slow)))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    notebook.cell(impatient())


def test_the_end_of_a_block_closes_its_runtime() -> None:
    async def main() -> None:
        async with scripted() as runtime:
            with pytest.raises(UsageError, match="its end closes it"):
                await runtime.aclose()
            assert await runtime.run(greet, "Ada") == "Hello Ada!"

    asyncio.run(main())


@pytest.mark.parametrize("enter", [lambda one: one.__aenter__(), lambda one: one.__await__()])
def test_the_loop_of_another_library_is_refused(enter: Callable[[Any], Any]) -> None:
    """Such a loop drives coroutines itself: no loop of asyncio is running then."""
    with pytest.raises(UsageError, match="needs an event loop of asyncio"):
        enter(scripted()).send(None)


@pytest.mark.model
def test_uvloop_runs_programs_on_an_engine_in_its_own_process(tiny: EngineConfig) -> None:
    uvloop = pytest.importorskip("uvloop", reason="it is not made for this platform")

    @program
    async def answer() -> str:
        return await chat().user("What is 1 + 1?").generate(max_tokens=3)

    async def main() -> tuple[str, str]:
        async with open_runtime(engine=tiny) as runtime:
            return type(asyncio.get_running_loop()).__module__, await runtime.run(answer)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        module, text = runner.run(main())
    assert module.startswith("uvloop")
    assert isinstance(text, str)
