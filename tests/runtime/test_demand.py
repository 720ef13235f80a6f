"""Demand: `await` marks it, it walks back over data edges, and engines are told."""

from typing import Any

import anyio

from agentrt import chat, program
from agentrt.protocol.events import NodeDemanded

ASK = chat(system="Be brief.")


def demanded_names(rig: Any) -> list[str]:
    return [e.node_id.rpartition("/")[2] for e in rig.recorder.of(NodeDemanded)]


def requests(rig: Any) -> dict[str, Any]:
    return {r.node_id.rpartition("/")[2]: r for r in rig.backend.seen.requests}


def facts_of(rig: Any, name: str) -> list[bool]:
    request_id = requests(rig)[name].request_id
    return [f.demanded for f in rig.backend.seen.updates if f.request_id == request_id]


def test_what_is_awaited_at_once_is_sent_as_demanded(bench: Any) -> None:
    @program
    async def outer() -> str:
        slack = ASK.user("x").generate(name="slack")
        wanted = await ASK.user("x").generate(name="wanted")
        slack.cancel()
        return wanted

    rig = bench(["a", "b"], decode_tokens_per_s=10.0)
    rig.run(outer)
    assert not requests(rig)["slack#0"].demanded
    assert requests(rig)["wanted#0"].demanded
    assert demanded_names(rig) == ["outer#0", "wanted#0"]


def test_demand_walks_back_to_inputs(bench: Any, codec: Any) -> None:
    @program
    async def outer() -> str:
        first = ASK.user("x").generate(name="first")
        second = first.ctx.user("y").generate(name="second")
        third = second.ctx.user("z").generate(name="third")
        await anyio.sleep(0.15)
        return await third

    rig = bench(["a" * 9] * 3, codec=codec, decode_tokens_per_s=10.0)
    rig.run(outer)
    assert [requests(rig)[f"{n}#0"].demanded for n in ("first", "second", "third")] == [False] * 3
    assert facts_of(rig, "first#0") == [True]
    assert facts_of(rig, "second#0") == [True]
    assert facts_of(rig, "third#0") == [True]


def test_a_wait_that_is_cancelled_withdraws_demand(bench: Any) -> None:
    @program
    async def outer() -> str:
        gen = ASK.user("x").generate(name="gen")
        await anyio.sleep(0.05)
        with anyio.move_on_after(1.0):
            await gen
        await anyio.sleep(0.5)
        return await gen

    rig = bench(["a" * 50], decode_tokens_per_s=10.0)
    rig.run(outer)
    assert facts_of(rig, "gen#0") == [True, False, True]


def test_inside_an_undemanded_program_nothing_is_demanded(bench: Any) -> None:
    @program
    async def inner() -> str:
        return await ASK.user("x").generate(name="inside")

    @program
    async def outer() -> str:
        node = inner()
        await anyio.sleep(0.25)
        return await node

    rig = bench(["a" * 9], decode_tokens_per_s=10.0)
    rig.run(outer)
    assert not requests(rig)["inside#0"].demanded
    assert facts_of(rig, "inside#0") == [True]


def test_reading_along_demands(bench: Any) -> None:
    @program
    async def outer() -> str:
        gen = ASK.user("x").generate(name="gen")
        await anyio.sleep(0.05)
        async for _ in gen.stream():
            break
        await anyio.sleep(0.5)
        return await gen

    rig = bench(["a" * 20], decode_tokens_per_s=10.0)
    rig.run(outer)
    assert facts_of(rig, "gen#0") == [True, False, True]


def test_a_scopes_end_demands_what_is_left(bench: Any) -> None:
    @program
    async def outer() -> int:
        ASK.user("x").generate(name="gen")
        await anyio.sleep(0.05)
        return 1

    rig = bench(["a" * 9], decode_tokens_per_s=10.0)
    rig.run(outer)
    assert facts_of(rig, "gen#0") == [True]


def test_demanded_work_goes_first_on_the_engine(bench: Any) -> None:
    """Of ten prompts declared at once, the one that is awaited is answered first."""
    order: list[str] = []

    def script(request: Any, prompt: str) -> str:
        order.append(request.node_id)
        return "x"

    @program
    async def outer() -> str:
        made = [ASK.user(str(i)).generate(name=f"g{i}") for i in range(10)]
        return await made[7]

    rig = bench(script, decode_tokens_per_s=10.0)
    rig.run(outer)
    assert order[0] == "outer#0/g7#0"
