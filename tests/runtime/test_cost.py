"""What a node costs, counted: functions it calls, callbacks and turns of the event loop, events.

Counts are the same on any machine; `orchestration_cost.py` beside this takes the times.
"""

import asyncio
import gc
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import opentelemetry.sdk.trace
import pytest
from opentelemetry.sdk.trace import TracerProvider

import agentrt
from agentrt import RunConfig, chat, gather, program, tool
from agentrt.base.clock import FakeClock, MonotonicClock
from agentrt.protocol.events import Event
from agentrt.runtime import Runtime
from agentrt.telemetry import SpanObserver, TranscriptObserver
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

PACKAGE = str(Path(agentrt.__file__).parent)
SDK = opentelemetry.sdk.trace.__file__
SCRIPTED = str(Path(PACKAGE) / "testing")
ASK = chat(system="Be brief.")
FEW, MANY = 20, 60


@tool(effects="pure")
async def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@program
async def leaf() -> int:
    return 1


@program
async def generations(n: int) -> int:
    return len(await gather(*(ASK.user("x").generate(max_tokens=4) for _ in range(n))))


@program
async def chain(n: int) -> int:
    for _ in range(n):
        await ASK.user("x").generate(max_tokens=4)
    return n


@program
async def tools(n: int) -> int:
    return len(await gather(*(double(i) for i in range(n))))


@program
async def programs(n: int) -> int:
    return len(await gather(*(leaf() for _ in range(n))))


@program
async def tool_chain(n: int) -> int:
    for i in range(n):
        await double(i)
    return n


@program
async def nested_programs(n: int) -> int:
    return await nested_programs(n - 1) if n else 0


class Count:
    """Counts what runs while it is entered, in this thread and in those that start meanwhile."""

    def __init__(self) -> None:
        self._by_thread: defaultdict[int, Counter[str]] = defaultdict(Counter)

    @property
    def found(self) -> Counter[str]:
        """What was counted in all threads; each counts for itself, since `+=` is not atomic."""
        return sum(self._by_thread.values(), Counter())

    def __call__(self, frame: FrameType, what: str, argument: object) -> None:
        if what != "call":
            return
        code = frame.f_code
        file, found = code.co_filename, self._by_thread[threading.get_ident()]
        # anyio asks sniffio if another library has installed it.
        found["calls"] += not file.startswith(SCRIPTED) and "/sniffio/" not in file
        if file.startswith(PACKAGE) and not file.startswith(SCRIPTED) and code.co_name[0] != "<":
            found["functions"] += 1  # comprehensions are frames in some Pythons only
        elif code.co_name == "_run" and file.endswith("events.py"):
            found["callbacks"] += 1
        elif code.co_name == "start_span" and file == SDK:
            found["spans"] += 1

    def __enter__(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def on_events(self, events: Sequence[Event]) -> None:
        self._by_thread[threading.get_ident()]["events"] += len(events)


async def run(
    shape: Any, nodes: int, folder: Path | None, *, live: bool, transcripts: bool
) -> Counter[str]:
    clock = FakeClock() if live else MonotonicClock()  # no stage is long enough for a span then
    backend = ScriptedBackend(lambda request, prompt: "y", clock=clock, max_running=999)
    count, provider = Count(), TracerProvider(shutdown_on_exit=False) if live else None
    written: SpanObserver | TranscriptObserver | None = None
    if folder is not None:
        written = (
            TranscriptObserver(folder)
            if transcripts
            else SpanObserver(folder=folder, environment={})
        )
    observers = [written] if written is not None else [count]
    config = RunConfig(blocking_call_s=0)  # the watch of the loop takes turns by the clock
    with count:
        async with Runtime(
            {"default": (backend, None)},
            observers=observers,
            config=config,
            clock=clock,
            tracer_provider=provider,
        ) as runtime:
            await runtime.run(shape, nodes)
        if written is not None:
            written.close(timeout_s=60.0)
    return count.found


def a_node(
    shape: Any, folder: Path | None = None, *, live: bool = False, transcripts: bool = False
) -> dict[str, float]:
    """What one node more costs."""
    measure = partial(run, live=live, transcripts=transcripts)
    anyio.run(measure, shape, FEW, folder)  # what is made once is made now
    gc.collect()
    gc.disable()  # what other tests have left is not collected meanwhile
    try:
        few, many = (anyio.run(measure, shape, nodes, folder) for nodes in (FEW, MANY))
    finally:
        gc.enable()
    return {name: (many[name] - few[name]) / (MANY - FEW) for name in few | many}


@pytest.mark.parametrize(
    ("shape", "calls", "functions", "callbacks", "events"),
    [
        (generations, 157, 123, 0, 5),
        (chain, 294, 170, 5, 6),
        (tools, 145, 83, 2, 5),
        (programs, 120, 67, 2, 3),
    ],
    ids=["generations", "chain", "tools", "programs"],
)
def test_what_a_node_costs(
    shape: Any, calls: int, functions: int, callbacks: int, events: int
) -> None:
    """A generation has no task: side by side they share all callbacks of the event loop."""
    cost = a_node(shape)
    assert cost["calls"] <= calls  # of libraries too
    assert cost["functions"] <= functions  # ours
    assert cost["callbacks"] <= callbacks + 0.1
    assert cost["events"] <= events + 0.1


def turns_of(shape: Any, nodes: int) -> int:
    """Turns of the event loop while a program runs."""

    async def main() -> int:
        loop, clock = asyncio.get_running_loop(), LoopClock()
        backend = ScriptedBackend(lambda request, prompt: "y", clock=clock)
        turns, is_over = 0, False

        def turn() -> None:
            nonlocal turns
            turns += 1
            if not is_over:
                loop.call_soon(turn)

        async with Runtime({"default": (backend, None)}, clock=clock) as runtime:
            loop.call_soon(turn)
            await runtime.run(shape, nodes)
            is_over = True
        return turns

    return run_virtual(main)


@pytest.mark.parametrize(
    ("shape", "turns"),
    [(generations, 0), (chain, 4), (tool_chain, 2), (nested_programs, 2)],
    ids=["generations", "chain", "tools", "programs"],
)
def test_turns_of_a_node(shape: Any, turns: int) -> None:
    """What code makes when it begins or goes on is handled in that turn, behind all such code.

    Of the turns of a generation in a chain two are the engine's and one its reader's.
    """
    assert turns_of(shape, MANY) - turns_of(shape, FEW) == turns * (MANY - FEW)


@pytest.mark.parametrize(
    ("shape", "functions"),
    [(generations, 232), (chain, 311), (tools, 156), (programs, 119)],
    ids=["generations", "chain", "tools", "programs"],
)
def test_what_a_node_costs_with_telemetry(shape: Any, functions: int, tmp_path: Path) -> None:
    """A node with its record, its spans and their text."""
    cost = a_node(shape, tmp_path)
    assert cost["functions"] <= functions


@pytest.mark.parametrize(
    ("shape", "calls", "functions"),
    [(generations, 464, 253), (chain, 636, 330), (tools, 370, 186), (programs, 309, 139)],
    ids=["generations", "chain", "tools", "programs"],
)
def test_what_a_node_costs_with_live_spans_too(
    shape: Any, calls: int, functions: int, tmp_path: Path
) -> None:
    """A node has one span of the provider, which is told everything once.

    A hundred calls or more are those of the provider.
    """
    cost = a_node(shape, tmp_path, live=True)
    assert cost["spans"] == 1
    assert cost["functions"] <= functions
    assert cost["calls"] <= calls  # of the provider too


@pytest.mark.parametrize(
    ("shape", "functions"),
    [(generations, 161), (chain, 210), (tools, 122), (programs, 104)],
    ids=["generations", "chain", "tools", "programs"],
)
def test_what_a_node_costs_with_transcripts(shape: Any, functions: int, tmp_path: Path) -> None:
    """A node with its content and its line, in both threads."""
    cost = a_node(shape, tmp_path, transcripts=True)
    assert cost["functions"] <= functions
