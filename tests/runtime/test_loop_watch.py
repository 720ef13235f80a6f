"""A call that blocks the event loop is reported with its line, once."""

import asyncio
import sys
import threading
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from pydantic_core import core_schema

from agentrt import Node, RunConfig, chat, program, tool
from agentrt.runtime.loop_watch import LoopSample, LoopWatch, users_frame
from agentrt.testing import run_virtual


def test_a_blocking_call_is_reported_with_its_line(bench: Any) -> None:
    """The tool blocks until the report is there: without one it would not end."""
    said = threading.Event()
    reports: list[str] = []

    class Stderr:
        def write(self, text: str) -> None:
            reports.append(text)
            if " in slow blocks the event loop" in text:
                said.set()

        def flush(self) -> None: ...

    @tool(effects="read")
    async def slow() -> bool:
        return said.wait(60)

    @program
    async def job() -> bool:
        return await slow()

    async def main() -> bool:
        async with bench([]).runtime(RunConfig(blocking_call_s=0.01)) as runtime:
            return bool(await runtime.run(job))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", Stderr())
        assert anyio.run(main)
    line = slow.spec.fn.__code__.co_firstlineno + 2
    assert f"{__file__}:{line} in slow blocks the event loop for over 10 ms" in "".join(reports)


def test_a_line_is_reported_once() -> None:
    async def main() -> list[str]:
        reports: list[str] = []
        watch = LoopWatch(0.1, reports.append)
        for _ in range(3):
            watch.report(LoopSample.of(sys._getframe()))
        return reports

    assert len(anyio.run(main)) == 1


def test_callbacks_of_one_turn_are_not_one_call() -> None:
    """As where many runs are busy with one function, each for a moment."""
    samples: list[LoopSample] = []

    def users() -> None:
        samples.extend(LoopSample.of(sys._getframe()) for _ in range(2))

    async def main() -> None:
        for _ in range(2):
            asyncio.get_running_loop().call_soon(users)
        await checkpoint()
        await checkpoint()

    anyio.run(main)
    first, again, second, _ = samples
    assert first.is_one_call_with(again)
    assert not first.is_one_call_with(second)


def test_the_code_that_runs_the_loop_does_not_block_it() -> None:
    async def main() -> FrameType | None:
        frame = sys._getframe()
        assert users_frame(frame) is frame
        while frame.f_code.co_name != "_run_once":  # as while it waits for events
            assert frame.f_back is not None
            frame = frame.f_back
        return users_frame(frame)

    assert anyio.run(main) is None
    assert users_frame(None) is None


def test_a_generated_method_is_told_by_its_caller() -> None:

    @dataclass
    class Made:
        frame: FrameType = field(default_factory=sys._getframe)  # that of `__init__`

    assert users_frame(Made().frame) is sys._getframe()


def test_work_of_this_package_is_not_laid_to_the_line_that_asks_for_it(bench: Any) -> None:
    """As the first `step` of a process, which imports and compiles what all later ones use."""
    within: list[LoopSample] = []

    def compiled(*_: object) -> Any:
        within.append(LoopSample.of(sys._getframe()))
        return core_schema.int_schema()

    compiled.__code__ = compiled.__code__.replace(co_filename="<string>")  # no user's code
    slow: Any = type("Slow", (), {"__get_pydantic_core_schema__": staticmethod(compiled)})
    own: list[LoopSample] = []

    @program
    async def job() -> int:
        number: Node[int] = chat().user("A number.").generate(slow)
        own.append(LoopSample.of(sys._getframe()))
        own.append(LoopSample.of(sys._getframe()))
        return await number

    assert bench(["5"]).run(job) == 5
    assert not within[0].is_one_call_with(within[0])
    assert own[0].is_one_call_with(own[1])
    assert within[0].is_one_call_with(own[0]), "its own code still runs at the later instant"


def test_virtual_time_is_not_watched() -> None:
    async def fits() -> bool:
        await checkpoint()
        return LoopWatch.fits()

    assert anyio.run(fits)
    assert not run_virtual(fits)


def test_nothing_is_watched_if_the_setting_is_zero(bench: Any) -> None:
    async def threads(config: RunConfig) -> int:
        async with bench([]).runtime(config):
            return sum(one.name == "agentrt loop watch" for one in threading.enumerate())

    before = sum(one.name == "agentrt loop watch" for one in threading.enumerate())
    assert anyio.run(threads, RunConfig(blocking_call_s=0)) == before
    assert anyio.run(threads, RunConfig()) == before + 1
