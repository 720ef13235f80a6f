"""A limit for one call: it ends alone, and whatever else is under way goes on."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agentrt import (
    DeadlineExceeded,
    NodeCancelled,
    OutcomeUnknown,
    UsageError,
    chat,
    gather,
    program,
    tool,
)
from agentrt.protocol.events import NodeFinished

ASK = chat(system="Be brief.")


@tool(effects="read")
async def nap(seconds: float) -> float:
    """Sleeps."""
    await anyio.sleep(seconds)
    return seconds


@tool(effects="write")
async def save(seconds: float) -> float:
    """Sleeps, and must not be cut short."""
    await anyio.sleep(seconds)
    return seconds


def ends(rig: Any) -> dict[str, tuple[str, str, float]]:
    """Outcome, reason and instant of each node's end, since the first event."""
    events = rig.recorder.of(NodeFinished)
    return {one.node_id.rpartition("/")[2]: (one.outcome, one.reason, one.at_s) for one in events}


def test_a_call_that_is_late_is_cancelled_alone(bench: Any) -> None:
    @program
    async def outer() -> tuple[float, str]:
        beside = nap(3.0)
        try:
            await nap(60.0).within(1.0)
            late = ""
        except DeadlineExceeded as error:
            late = f"{error.message} at {error.where}"
        return await beside, late

    rig = bench([])
    slept, late = rig.run(outer)
    assert slept == 3.0
    assert late.startswith("tool:nap#1 took longer than 1 s: nap 1.0 s")
    assert "test_within.py:" in late
    ended = ends(rig)
    assert ended["nap#1"][:2] == ("cancelled", "took longer than 1 s")
    assert ended["nap#0"][0] == "ok"
    assert ended["outer#0"][2] - ended["nap#1"][2] == pytest.approx(2.0, abs=0.1)


def test_a_generation_leaves_the_engine(bench: Any) -> None:
    @program
    async def outer() -> str:
        gen = ASK.user("x").generate(name="gen")
        try:
            return await gen.within(0.5)
        except DeadlineExceeded:
            return "late"

    rig = bench(["a" * 500], decode_tokens_per_s=10.0)
    assert rig.run(outer) == "late"
    assert ends(rig)["gen#0"][:2] == ("cancelled", "took longer than 0.5 s")


def test_what_is_in_time_gives_its_value_or_its_error(bench: Any) -> None:
    @program
    async def inner(n: float) -> float:
        if not n:
            raise ValueError("none")
        return await nap(n)

    @program
    async def outer() -> list[float]:
        with pytest.raises(ValueError, match="none"):
            await inner(0.0).within(1.0)
        done = nap(1.0)
        return [await inner(0.5).within(1.0), await done, await done.within(0.001)]

    assert bench([]).run(outer) == [0.5, 1.0, 1.0]


def test_others_that_await_it_see_it_cancelled(bench: Any) -> None:
    @program
    async def outer() -> str:
        shared = nap(60.0)

        async def bounded() -> None:
            with pytest.raises(DeadlineExceeded):
                await shared.within(1.0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bounded)
            with pytest.raises(NodeCancelled, match="longer than 1 s"):
                await gather(shared, nap(2.0))
        return "both"

    assert bench([]).run(outer) == "both"


def test_a_write_that_is_late_has_an_unknown_outcome(bench: Any) -> None:
    @program
    async def outer() -> str:
        try:
            await save(5.0).within(1.0)
        except OutcomeUnknown as error:
            return error.tool
        return ""

    assert bench([]).run(outer) == "save"


def test_the_caller_may_be_cancelled_first(bench: Any) -> None:
    @program
    async def outer() -> float:
        node = nap(3.0)
        with anyio.move_on_after(1.0) as scope:
            await node.within(2.0)
        assert scope.cancelled_caught
        return await node

    assert bench([]).run(outer) == 3.0, "a cancelled wait leaves the node running"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_no_time_is_no_limit(bench: Any, seconds: float) -> None:
    @program
    async def outer() -> float:
        return await nap(1.0).within(seconds)

    with pytest.raises(UsageError, match="Give seconds above 0"):
        bench([]).run(outer)


def test_the_name_that_others_have_leads_to_ours(bench: Any) -> None:
    @program
    async def outer() -> str:
        return await ASK.user("x").generate(timeout=2.0)  # type: ignore[call-overload, no-any-return]  # pyright: ignore

    with pytest.raises(UsageError, match="Did you mean deadline"):
        bench([]).run(outer)


def test_the_remedy_is_none_that_the_call_has_already(bench: Any) -> None:
    @program
    async def outer(close: bool) -> str:
        try:
            on_limit: Any = "close" if close else "raise"
            await ASK.user("a").generate(max_tokens=40, on_limit=on_limit, deadline=0.01)
        except DeadlineExceeded as error:
            return error.hint
        return ""

    @program
    async def tools() -> str:
        try:
            await nap(60.0).within(1.0)
        except DeadlineExceeded as error:
            return error.hint
        return ""

    hints = [bench(["late"], prefill_tokens_per_s=10).run(outer, close) for close in (False, True)]
    hints.append(bench([]).run(tools))
    assert ["on_limit='close'" in hint for hint in hints] == [True, False, False]
    assert all(hint.startswith("Raise the deadline") for hint in hints)
