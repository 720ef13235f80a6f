"""Random faults of engine, rows and tools under small programs, on virtual time.

Each part of a program has the value that it has without faults, or the error of a fault that was
aimed at it. Nothing hangs, every node ends, and no request outlives its run.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import anyio

from agentrt import AgentrtError, chat, program, tool
from agentrt.base.config import RunConfig
from agentrt.base.errors import (
    DeadlineExceeded,
    EngineDied,
    OutcomeUnknown,
    RequestRejected,
    ToolFailed,
)
from agentrt.protocol.events import Event, NodeDeclared, NodeFinished
from agentrt.runtime import Runtime
from agentrt.testing import LoopClock, Reply, ScriptedBackend, run_virtual
from tests.fuzz.rounds import cases, dice_of

ASK = chat(system="Be brief.")
PARTS = ("text", "stream", "items", "chained", "read", "write")
TEXT = "one two three four five six"


class Foreign(BaseException):
    """No exception of Python's own tree."""


class Unspeakable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


RAISED: tuple[BaseException, ...] = (
    *(
        ValueError("x"),
        KeyboardInterrupt(),
        SystemExit(3),
        asyncio.CancelledError(),
        GeneratorExit(),
    ),
    *(StopIteration(1), StopAsyncIteration(), MemoryError(), RecursionError(), Foreign("x")),
    *(OSError(28, "full"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), ValueError("\ud800")),
    *(ExceptionGroup("x", [ValueError("y")]), BaseExceptionGroup("x", [KeyboardInterrupt()])),
    *(
        EngineDied("said by a tool"),
        TimeoutError(),
        ConnectionResetError(),
        Unspeakable(),
        AssertionError(),
    ),
    *(ToolFailed("said by a tool"), DeadlineExceeded("said by a tool"), ValueError("x" * 100_000)),
)


@dataclass(frozen=True)
class Faults:
    """What goes wrong in one play.

    Attributes:
        losses: Waits before each loss of the engine, and whether it was of its own making.
        rows: Parts whose request fails in the engine.
        raised: What the tool of a part raises.
        hanging: Tools that never end.
        deadlines_s: Deadlines of generations, by part.
    """

    losses: tuple[tuple[float, bool], ...] = ()
    rows: frozenset[str] = frozenset()
    raised: tuple[tuple[str, BaseException], ...] = ()
    hanging: frozenset[str] = frozenset()
    deadlines_s: tuple[tuple[str, float], ...] = ()

    @classmethod
    def drawn(cls, dice: Random) -> "Faults":
        losses = tuple(
            (dice.choice((0.0, dice.uniform(0, 0.3), dice.uniform(0, 1.5))), dice.random() < 0.3)
            for _ in range(dice.randint(0, 5))
        )
        generated = ("text", "stream", "items", "chained")
        return cls(
            losses,
            frozenset(part for part in generated if dice.random() < 0.1),
            tuple((part, dice.choice(RAISED)) for part in ("read", "write") if dice.random() < 0.5),
            frozenset(part for part in ("read", "write") if dice.random() < 0.1),
            tuple((part, dice.uniform(0, 4)) for part in generated if dice.random() < 0.1),
        )

    def errors_of(self, part: str) -> tuple[type[BaseException], ...]:
        """Classes of the errors that a part may end with."""
        found: list[type[BaseException]] = []
        aimed = (part, "first") if part == "chained" else (part,)
        if self.rows.intersection(aimed) or any(own_fault for _, own_fault in self.losses):
            found.append(RequestRejected)
        if part in dict(self.deadlines_s):
            found.append(DeadlineExceeded)
        if part in dict(self.raised):
            found.append(ToolFailed)
        if part in self.hanging:
            found += [ToolFailed, OutcomeUnknown]
        return tuple(found)


class Recorder:
    """Every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_events(self, events: Sequence[Event]) -> None:
        self.events += events


@dataclass
class Play:
    """One program under faults."""

    faults: Faults

    def tools(self) -> dict[str, Any]:
        raised = dict(self.faults.raised)

        async def act(part: str) -> str:
            await anyio.sleep(0.2)
            if part in self.faults.hanging:
                await anyio.sleep(1_000)
            if part in raised:
                raise raised[part]
            return f"{part} is done"

        @tool(effects="read", timeout=5)
        async def look() -> str:
            """Read something."""
            return await act("read")

        @tool(effects="write", timeout=5)
        async def pay() -> str:
            """Write something."""
            return await act("write")

        return {"read": look, "write": pay}

    async def part(self, part: str, tools: dict[str, Any]) -> Any:
        limits: Any = {"deadline": dict(self.faults.deadlines_s).get(part), "name": part}
        asked = ASK.user(part)
        match part:
            case "text":
                return await asked.generate(**limits)
            case "stream":
                node = asked.generate(**limits)
                pieces = [piece async for piece in node.stream()]
                assert "".join(pieces) == await node
                return "".join(pieces)
            case "items":
                return [item async for item in asked.each(int, **limits)]
            case "chained":
                first = ASK.user("first").generate(name="first")
                return await ASK.user("chained ", first).generate(**limits)
        return await tools[part]()

    def script(self, request: Any, prompt: str) -> Reply:
        part = str(request.node_id).rpartition("/")[2].partition(":")[2].partition("#")[0]
        error = RequestRejected("a row") if part in self.faults.rows else None
        if request.constraint is not None:
            return Reply("[1,22,333]", error=error)
        return Reply(TEXT, error=error)


def outcomes(faults: Faults, parts: Sequence[str]) -> dict[str, Any]:
    """What each part of a program gives: its value, or its error."""
    one, recorder = Play(faults), Recorder()
    found: dict[str, Any] = {}

    @program
    async def single(part: str) -> Any:
        return await one.part(part, one.tools())

    async def main() -> None:
        clock = LoopClock()
        backend = ScriptedBackend(one.script, clock=clock, decode_tokens_per_s=20.0, seeds=True)
        engines = {"default": (backend, None)}

        async def lose() -> None:
            for wait_s, own_fault in faults.losses:
                await anyio.sleep(wait_s)
                backend.lose_engine(own_fault=own_fault)

        async def run(part: str) -> None:
            try:
                found[part] = await runtime.run(single, part)
            except Exception as error:
                found[part] = error

        async with Runtime(
            engines, clock=clock, observers=[recorder], config=RunConfig(seed=1)
        ) as runtime:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lose)
                for part in parts:
                    tasks.start_soon(run, part)
            assert backend.ongoing == (), "a request outlives its run"

    run_virtual(main)
    check_ends(recorder.events)
    return found


def check_ends(events: Sequence[Event]) -> None:
    """Each node ends once."""
    declared = [(e.run_id, e.node_id) for e in events if isinstance(e, NodeDeclared)]
    finished = [(e.run_id, e.node_id) for e in events if isinstance(e, NodeFinished)]
    assert sorted(finished) == sorted(declared)


def leaves_of(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in leaves_of(part)]
    return [error]


UNDISTURBED = {
    "text": TEXT,
    "stream": TEXT,
    "items": [1, 22, 333],
    "chained": TEXT,
    "read": "read is done",
    "write": "write is done",
}


def test_without_faults_all_parts_have_their_values() -> None:
    assert outcomes(Faults(), PARTS) == UNDISTURBED


def test_faults_end_in_the_same_values_or_in_their_errors() -> None:
    ended = {"value": 0, "error": 0}
    for case in cases(120):
        dice = dice_of(case)
        faults = Faults.drawn(dice)
        parts = dice.sample(PARTS, dice.randint(1, len(PARTS)))
        try:
            for part, found in outcomes(faults, parts).items():
                if not isinstance(found, Exception):
                    assert found == UNDISTURBED[part], part
                    ended["value"] += 1
                    continue
                allowed = faults.errors_of(part)
                for leaf in leaves_of(found):
                    assert isinstance(leaf, AgentrtError), f"{part}: {type(leaf)}"
                    assert isinstance(leaf, allowed), f"{part}: {type(leaf).__name__} {leaf}"
                ended["error"] += 1
        except BaseException as error:
            error.add_note(f"case {case}: {parts}, {faults}")
            raise
    assert min(ended.values()) > 50
