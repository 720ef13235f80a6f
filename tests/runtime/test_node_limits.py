"""A program that calls itself, or makes nodes without end, ends with an error."""

from typing import Any

import anyio
import pytest

from agentrt import RunConfig, RunTooLarge, UsageError, program, tool
from agentrt.protocol.events import NodeDeclared
from agentrt.runtime import RunOptions


@program
async def endless(depth: int) -> int:
    return await endless(depth + 1)


@program
async def nested(depth: int) -> int:
    return await nested(depth - 1) if depth > 1 else 0


@tool(effects="read")
async def nap() -> int:
    """Sleeps."""
    await anyio.sleep(1.0)
    return 0


@program
async def naps(count: int) -> int:
    return sum([await node for node in [nap() for _ in range(count)]])


@program
async def in_turn(count: int) -> int:
    for _ in range(count):
        await nap()
    return count


@pytest.fixture
def rig(bench: Any) -> Any:
    return bench([])


def test_a_program_that_calls_itself_ends_with_the_chain_of_its_calls(rig: Any) -> None:
    with pytest.raises(RunTooLarge, match="max_depth=200 programs") as raised:
        rig.run(endless, 0)
    message, notes = raised.value.message, raised.value.__notes__
    assert "test_node_limits.py:15 (200 times)" in message
    assert "RunOptions(max_depth=...)" in raised.value.hint
    assert raised.value.where.endswith("test_node_limits.py:15")
    assert len(notes) <= 2, "a note that repeats is given once"


@pytest.mark.parametrize(("depth", "fits"), [(5, True), (6, False)])
def test_programs_nest_as_deep_as_the_options_say(rig: Any, depth: int, fits: bool) -> None:
    options = RunOptions(max_depth=5)
    if fits:
        assert rig.run(nested, depth, options=options) == 0
    else:
        with pytest.raises(RunTooLarge, match="max_depth=5 "):
            rig.run(nested, depth, options=options)


@pytest.mark.parametrize(("count", "fits"), [(7, True), (8, False)])
def test_a_run_makes_as_many_nodes_as_the_options_say(rig: Any, count: int, fits: bool) -> None:
    options = RunOptions(max_nodes=8)  # the program is one of them
    if fits:
        assert rig.run(in_turn, count, options=options) == count
    else:
        with pytest.raises(RunTooLarge, match="max_nodes=8 nodes"):
            rig.run(in_turn, count, options=options)
    assert len(rig.recorder.of(NodeDeclared)) == 8


@pytest.mark.parametrize(("count", "fits"), [(3, True), (4, False)])
def test_bodies_run_at_once_up_to_the_limit_of_the_runtime(
    rig: Any, count: int, fits: bool
) -> None:
    config = RunConfig(max_running=4)
    if fits:
        assert rig.run(naps, count, config=config) == 0
    else:
        with pytest.raises(RunTooLarge, match="max_running=4 programs and tools"):
            rig.run(naps, count, config=config)


def test_bodies_in_turn_are_no_bodies_at_once(rig: Any) -> None:
    assert rig.run(in_turn, 50, config=RunConfig(max_running=2)) == 50


def test_a_program_goes_on_after_a_node_that_was_one_too_many(rig: Any) -> None:
    @program
    async def careful() -> str:
        try:
            return str(await endless(0))
        except RunTooLarge:
            return str(await nap())

    assert rig.run(careful) == "0"


OPTIONS = {
    "max_depth": RunOptions(max_depth=0),
    "max_nodes": RunOptions(max_nodes=0),
    "max_running": RunOptions(max_running=0),
}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_a_limit_below_one_is_refused(rig: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}=0 is out of range"):
        rig.run(nested, 1, options=OPTIONS[name])
