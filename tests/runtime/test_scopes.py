"""Scopes own nodes: nothing outlives them, and limits hold inside them."""

from typing import Any

import anyio
import pytest

from agentrt import (
    BudgetExceeded,
    DeadlineExceeded,
    NodeCancelled,
    NoRun,
    chat,
    limits,
    program,
    tool,
)
from agentrt.base.ids import RunId
from agentrt.protocol.events import NodeDeclared, NodeFinished, RunFinished
from agentrt.runtime import RunOptions

ASK = chat(system="Be brief.")


@tool(effects="read")
async def nap(seconds: float) -> float:
    """Sleeps."""
    await anyio.sleep(seconds)
    return seconds


@program
async def leaf(n: int) -> int:
    return int(await nap(float(n)))


def outcomes(rig: Any) -> dict[str, tuple[str, str]]:
    return {e.node_id: (e.outcome, e.reason) for e in rig.recorder.of(NodeFinished)}


def test_a_scope_waits_for_nodes_nobody_awaited(bench: Any) -> None:
    @program
    async def outer() -> float:
        nap(5.0)
        return anyio.current_time()

    rig = bench([])
    made_at_s = rig.run(outer)
    ended = rig.recorder.of(NodeFinished, "nap")[0]
    finished = rig.recorder.of(RunFinished)[0]
    assert ended.outcome == "ok"
    assert ended.at_s == made_at_s + 5.0 == finished.at_s
    assert rig.recorder.of(NodeFinished, "outer")[0].after == "outer#0/nap#0"


def test_sub_programs_are_nodes_with_scopes_of_their_own(bench: Any) -> None:
    @program
    async def outer() -> int:
        one, two = leaf(1), leaf(2)
        return await one + await two

    rig = bench([])
    assert rig.run(outer) == 3
    parents = {e.node_id: e.parent for e in rig.recorder.of(NodeDeclared)}
    assert parents == {
        "outer#0": None,
        "outer#0/leaf#0": "outer#0",
        "outer#0/leaf#1": "outer#0",
        "outer#0/leaf#0/nap#0": "outer#0/leaf#0",
        "outer#0/leaf#1/nap#0": "outer#0/leaf#1",
    }


def test_a_sub_programs_deadline_ends_it_alone(bench: Any) -> None:
    @program(deadline=1.0)
    async def slow() -> int:
        return await leaf(9)

    @program
    async def outer() -> str:
        try:
            await slow()
        except DeadlineExceeded as error:
            return error.message
        return "in time"

    rig = bench([])
    assert "program:slow#0 passed its deadline of 1 s" in rig.run(outer)
    assert outcomes(rig)["outer#0/slow#0/leaf#0/nap#0"][0] == "cancelled"
    assert outcomes(rig)["outer#0"] == ("ok", "")


@pytest.mark.parametrize("plain", [False, True])
def test_a_block_ends_what_was_made_inside(bench: Any, plain: bool) -> None:
    @program
    async def outer() -> str:
        before = nap(3.0)
        try:
            if plain:
                with limits(seconds=1.0):
                    await nap(9.0)
            else:
                async with limits(seconds=1.0):
                    await nap(9.0)
        except DeadlineExceeded:
            await before
            return "late"
        return "in time"

    rig = bench([])
    assert rig.run(outer) == "late"
    ended = {e.node_id: e.at_s for e in rig.recorder.of(NodeFinished)}
    began = rig.recorder.of(NodeDeclared)[0].at_s
    assert ended["outer#0/limits#0/nap#0"] == began + 1.0
    assert ended["outer#0/nap#0"] == began + 3.0
    assert outcomes(rig)["outer#0/nap#0"][0] == "ok"


def test_a_block_waits_at_its_end_and_its_limit_holds_there(bench: Any) -> None:
    @program
    async def outer() -> str:
        try:
            async with limits(seconds=1.0):
                nap(9.0)
        except DeadlineExceeded as error:
            return error.message
        return "in time"

    message = bench([]).run(outer)
    assert "passed" in message
    assert "nap 1.0 s" in message


def test_a_plain_block_leaves_waiting_to_the_program_but_not_the_limit(bench: Any) -> None:
    @program
    async def outer() -> tuple[bool, str]:
        with limits(seconds=1.0):
            node = nap(9.0)
        pending = not node.done
        try:
            await node
        except DeadlineExceeded:
            return pending, "late"
        return pending, "in time"

    rig = bench([])
    assert rig.run(outer) == (True, "late")


def test_a_budget_of_tool_calls(bench: Any) -> None:
    @program
    async def outer() -> float:
        async with limits(calls=2):
            for _ in range(5):
                await nap(1.0)
        return 0.0

    rig = bench([])
    with pytest.raises(BudgetExceeded, match="budget of 2 tool calls is used up") as e:
        rig.run(outer)
    assert "test_scopes.py:" in e.value.where
    assert len(rig.recorder.of(NodeFinished, "nap")) == 2


def test_a_budget_of_tokens_closes_outputs(bench: Any) -> None:
    @program
    async def outer() -> tuple[list[list[int]], int]:
        async with limits(tokens=40, on_limit="close"):
            nodes = [ASK.user("x").generate(list[int], max_tokens=20) for _ in range(2)]
            values = [await node for node in nodes]
            return values, sum(node.written.produced_tokens for node in nodes)

    values, tokens = bench(lambda r, p: "[" + "1,2," * 50 + "3]").run(outer)
    assert tokens <= 40
    assert all(value[0] == 1 for value in values)


def test_unused_tokens_of_a_closing_budget_are_given_back(bench: Any) -> None:
    @program
    async def outer() -> int:
        async with limits(tokens=30, on_limit="close"):
            for _ in range(5):
                await ASK.user("x").generate(max_tokens=30)
        return 5

    assert bench(lambda r, p: "abc").run(outer) == 5


def test_cancelling_a_program_ends_its_nodes(bench: Any) -> None:
    @program
    async def outer() -> str:
        node = leaf(9)
        await anyio.sleep(1.0)
        node.cancel("enough")
        try:
            await node
        except NodeCancelled as error:
            return error.reason
        return "not cancelled"

    rig = bench([])
    assert rig.run(outer) == "enough"
    assert outcomes(rig)["outer#0/leaf#0"] == ("cancelled", "enough")
    assert outcomes(rig)["outer#0/leaf#0/nap#0"] == ("cancelled", "its scope failed")


def test_when_the_caller_goes_the_run_ends(bench: Any) -> None:
    @program
    async def outer() -> int:
        ASK.user("x").generate()
        return await leaf(60)

    rig = bench(["a" * 500], decode_tokens_per_s=1.0)

    async def main(runtime: Any) -> bool:
        with anyio.move_on_after(2.0) as scope:
            await runtime.run(outer)
        return scope.cancelled_caught

    assert rig.main(main)
    ended = outcomes(rig)
    assert {path: outcome for path, (outcome, _) in ended.items()} == {
        "outer#0": "cancelled",
        "outer#0/str#0": "cancelled",
        "outer#0/leaf#0": "cancelled",
        "outer#0/leaf#0/nap#0": "cancelled",
    }
    assert rig.recorder.of(RunFinished)[0].outcome == "cancelled"


def test_a_node_cannot_be_made_in_a_scope_that_has_ended(bench: Any) -> None:
    kept: list[Any] = []

    @program
    async def outer() -> int:
        from agentrt.program import active

        kept.append(active.get())
        return 1

    rig = bench([])

    async def main(runtime: Any) -> None:
        from agentrt.program import active

        await runtime.run(outer)
        active.set(kept[0])
        with pytest.raises(NoRun, match="after its scope had ended"):
            nap(1.0)

    rig.main(main)


def test_cancelling_a_wait_leaves_the_node_running(bench: Any) -> None:
    @program
    async def outer() -> tuple[bool, float]:
        node = nap(5.0)
        with anyio.move_on_after(1.0) as scope:
            await node
        return scope.cancelled_caught, await node

    assert bench([]).run(outer) == (True, 5.0)


def test_tasks_of_the_program_share_its_scope(bench: Any) -> None:
    @program
    async def outer() -> list[float]:
        found: list[float] = []

        async def one(seconds: float) -> None:
            found.append(await nap(seconds))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, 2.0)
            tasks.start_soon(one, 1.0)
        return found

    assert bench([]).run(outer) == [1.0, 2.0]


def test_several_runs_share_an_engine(bench: Any) -> None:
    @program
    async def asks(n: int) -> str:
        return await ASK.user(str(n)).generate(max_tokens=20)

    rig = bench(lambda request, prompt: request.run_id, decode_tokens_per_s=10.0)
    results: dict[str, str] = {}

    async def main(runtime: Any) -> float:
        async def one(n: int) -> None:
            run_id = RunId(f"{n:016x}")
            options = RunOptions(run_id=run_id)
            results[run_id] = await runtime.with_options(options).run(asks, n)

        before_s = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for n in range(8):
                tasks.start_soon(one, n)
        return anyio.current_time() - before_s

    took_s = rig.main(main)
    assert results == {key: key for key in results}
    assert len(results) == 8
    assert max(len(step.requests) for step in rig.backend.seen.steps) == 8
    assert took_s < 8 * 1.6 / 2
