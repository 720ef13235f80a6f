"""One node an input, with a limit on how many are under way."""

from itertools import pairwise
from typing import Any

import anyio
import pytest

from agentrt import UsageError, chat, fan, gather, program, tool
from agentrt.protocol.events import NodeDeclared, ToolStarted

ASK = chat(system="Be brief.")


@tool(effects="read")
async def nap(seconds: float) -> float:
    """Sleeps."""
    await anyio.sleep(seconds)
    return seconds


@program
async def leaf(seconds: float) -> float:
    return await nap(seconds)


@pytest.mark.parametrize("limit", [None, 1, 2, 3, 10])
@pytest.mark.parametrize("f", [nap, leaf])
def test_no_more_than_the_limit_are_under_way(bench: Any, f: Any, limit: int | None) -> None:
    @program
    async def outer() -> list[float]:
        return list(await gather(*fan(f, [3.0, 1.0, 2.0, 1.0, 3.0, 2.0], limit=limit)))

    rig = bench([])
    assert rig.run(outer) == [3.0, 1.0, 2.0, 1.0, 3.0, 2.0]
    under_way = most = 0
    for event in rig.recorder.events:
        if type(event).__name__ == "ToolStarted":
            under_way += 1
        elif type(event).__name__ == "ToolEnded":
            under_way -= 1
        most = max(most, under_way)
    assert most == min(limit or 6, 6)
    assert len(rig.recorder.of(NodeDeclared, "nap")) == 6


def test_a_function_that_makes_several_nodes_is_held_whole(bench: Any) -> None:
    @program
    async def outer() -> list[str]:
        def one(seconds: float) -> Any:
            return ASK.user("Data: ", nap(seconds)).generate()

        return list(await gather(*fan(one, [1.0, 1.0, 1.0], limit=1)))

    rig = bench(["a", "b", "c"], decode_tokens_per_s=10.0)
    assert rig.run(outer) == ["a", "b", "c"]
    started = [e.at_s for e in rig.recorder.of(ToolStarted)]
    assert [round(b - a, 3) for a, b in pairwise(started)] == [1.1, 1.1]


def test_held_nodes_can_be_cancelled(bench: Any) -> None:
    @program
    async def outer() -> int:
        nodes = fan(nap, [5.0, 5.0, 5.0], limit=1)
        for node in nodes:
            node.cancel("no")
        return len(nodes)

    rig = bench([])
    assert rig.run(outer) == 3
    assert len(rig.recorder.of(ToolStarted)) <= 1


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="limit=0"):
        fan(nap, [1.0], limit=0)
