"""Tools that yield their text: it goes into prompts as it comes, and the result is all of it."""

import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import anyio
import pytest

from agentrt import ToolFailed, chat, program, tool
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.events import PromptRevised
from agentrt.tools import ToolSpec, execute

ASK = chat(system="Be brief.")
LINES = [f"line {n} of the page, with some words in it\n" for n in range(24)]
PAGE = "".join(LINES)


@tool(effects="read")
async def page() -> AsyncIterator[str]:
    """The page, line by line."""
    for line in LINES:
        yield line
        await anyio.lowlevel.checkpoint()


@tool(effects="read")
def threaded() -> Iterator[str]:
    """The same from a thread."""
    yield from LINES


def whole_prompt(rig: Any) -> tuple[int, ...]:
    """The ids that the engine has of its last request when that is complete."""
    request = rig.backend.seen.requests[-1]
    ids: tuple[int, ...] = request.prompt.token_ids
    for request_id, fill in rig.backend.seen.fills:
        if request_id == request.request_id:
            ids += fill.token_ids
    return ids


def asked(source: Any) -> Any:
    @program
    async def summed() -> str:
        return await ASK.user("Of ", source(), ": sum up.").generate(name="sum")

    return summed


def expected(codec: Any, text: str) -> tuple[int, ...]:
    ids: tuple[int, ...] = codec.encode(
        (), prompt_segments(ASK.user("Of ", text, ": sum up."))
    ).token_ids
    return ids


def test_a_prompt_takes_what_a_tool_yields(bench: Any, codec: Any) -> None:
    rig = bench(["short"], codec=codec)
    assert rig.run(asked(page)) == "short"
    fills = [fill for _, fill in rig.backend.seen.fills]
    assert len(fills) > 4
    assert [fill.complete for fill in fills] == [False] * (len(fills) - 1) + [True]
    assert whole_prompt(rig) == expected(codec, PAGE)
    assert not rig.recorder.of(PromptRevised)


def test_a_generator_in_a_thread_gives_the_same(bench: Any, codec: Any) -> None:
    rig = bench(["short"], codec=codec)
    assert rig.run(asked(threaded)) == "short"
    assert whole_prompt(rig) == expected(codec, PAGE)


@pytest.mark.parametrize("same", [True, False])
def test_another_attempt_begins_anew(bench: Any, codec: Any, same: bool) -> None:
    attempts: list[int] = []

    @tool(effects="read", retries=1)
    async def flaky() -> AsyncIterator[str]:
        attempts.append(1)
        for line in LINES:
            yield line if same or len(attempts) == 2 else line.upper()
            await anyio.lowlevel.checkpoint()
            if len(attempts) == 1 and line is LINES[12]:
                raise OSError("the line is down")

    rig = bench(["short"], codec=codec)
    assert rig.run(asked(flaky)) == "short"
    assert len(attempts) == 2
    assert bool(rig.recorder.of(PromptRevised)) is not same, "equal text is not taken back"
    assert whole_prompt(rig) == expected(codec, PAGE)


def test_an_error_midway_ends_what_waits_for_it(bench: Any, codec: Any) -> None:
    @tool(effects="read")
    async def broken() -> AsyncIterator[str]:
        for line in LINES:
            yield line
            await anyio.lowlevel.checkpoint()
        raise OSError("the line is down")

    rig = bench([], codec=codec)
    with pytest.raises(ToolFailed, match="the line is down"):
        rig.run(asked(broken))
    assert not any(fill.complete for _, fill in rig.backend.seen.fills)


def test_a_cancelled_tool_is_closed(bench: Any, codec: Any) -> None:
    closed: list[str] = []

    @program
    async def stopped() -> str:
        began = anyio.Event()

        @tool(effects="read")
        async def endless() -> AsyncIterator[str]:
            try:
                while True:
                    yield LINES[0]
                    began.set()
                    await anyio.lowlevel.checkpoint()
            finally:
                closed.append("closed")

        node = endless()
        await began.wait()
        node.cancel("enough")
        return "done"

    assert bench([], codec=codec).run(stopped) == "done"
    assert closed == ["closed"]


def test_a_generator_in_an_abandoned_thread_is_closed_at_its_next_text() -> None:
    began, goes_on, closed = threading.Event(), threading.Event(), threading.Event()
    taken: list[str] = []

    def slow() -> Iterator[str]:
        try:
            yield "first"
            began.set()
            goes_on.wait()
            yield "second"
            taken.append("third is asked for")
        finally:
            closed.set()

    async def cancelled() -> None:
        spec = ToolSpec.of(slow, effects="read")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(execute, spec, {}, on_text=taken.append))
            await anyio.to_thread.run_sync(began.wait)
            tasks.cancel_scope.cancel()
        goes_on.set()
        await anyio.to_thread.run_sync(closed.wait)

    anyio.run(cancelled)
    assert taken == ["first"]


def test_too_much_text_closes_the_tool() -> None:
    def lines() -> Iterator[str]:
        while True:
            yield LINES[0]

    spec = ToolSpec.of(lines, effects="read", max_result_bytes=1000)
    with pytest.raises(ToolFailed, match="more than 1000 bytes"):
        anyio.run(lambda: execute(spec, {}))


def test_a_tool_yields_text_alone() -> None:
    def numbers() -> Any:
        yield 5

    spec = ToolSpec.of(numbers, effects="read")
    with pytest.raises(ToolFailed, match="it yields int"):
        anyio.run(lambda: execute(spec, {}))


def declared() -> Iterator[int]:
    yield 5


def test_a_tool_that_says_it_yields_something_else_is_refused() -> None:
    with pytest.raises(Exception, match="tool declared yields int"):
        ToolSpec.of(declared, effects="read")
    with pytest.raises(Exception, match="a process of its own"):
        ToolSpec.of(threaded.spec.fn, effects="read", process=True)
