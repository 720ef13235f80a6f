"""Tools of a real server: opened, called by programs and models, closed."""

import os
import select
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import agentrt
from agentrt import Calls, Final, NodeCancelled, ToolFailed, UsageError, chat, mcp_tools, program
from agentrt.testing import ScriptedRuntime, call, in_order

Scripted = Callable[..., ScriptedRuntime]


def called(scripted: Scripted, server: Any, tool: str, given: dict[str, Any], **more: Any) -> Any:
    """The result of one call by a program."""

    @program
    async def once() -> Any:
        async with mcp_tools(server, **more) as tools:
            return await tools[tool](**given)

    return scripted({}).run(once).value


def test_results(scripted: Scripted, server: Any) -> None:
    """Structured content if there is any, else the text."""

    @program
    async def everything() -> list[Any]:
        async with mcp_tools(server) as tools:
            return [
                await tools["price"](item="lamp"),
                await tools["price"](item="lamp", currency="USD"),
                await tools["order"](item="lamp", count=2),
                await tools["lines"](),
                await tools["stock_count"](item="lamp"),
            ]

    lamps = {"name": "lamp", "cents": 200}
    assert scripted({}).run(everything).value == ["4 EUR", "4 USD", lamps, "one\ntwo", "lamp"]


def test_a_model_calls_tools_and_reads_errors(scripted: Scripted, server: Any) -> None:
    @program
    async def agent(question: str) -> str:
        async with mcp_tools(server) as tools:
            ctx = chat("Use tools.").user(question)
            for _ in range(9):
                match await ctx.step(tools=tools, final=str):
                    case Final(answer):
                        return answer
                    case Calls() as turn:
                        ctx = turn.run()
        return ""

    answers = in_order(call("fail", why="closed today"), call("price", item="lamp"), '"4 EUR"')
    engine = scripted({"step": answers})
    run = engine.run(agent, "What is a lamp?")
    assert run.value == "4 EUR"
    assert "closed today" in run.tool_calls[0].error
    assert run.tool_calls[1].result == "4 EUR"


def test_calls_plans_and_held_arguments(scripted: Scripted, shop: str) -> None:
    """An argument outside of the schema cannot be written."""

    @program
    async def plan() -> list[Any]:
        async with mcp_tools(shop, only=["price", "order"]) as tools:
            started = [
                one.start() async for one in chat().user("Order.").calls(*tools, name="plan")
            ]
            return [await node for node in started]

    two = [call("price", item="lamp"), call("order", item="lamp", count=9)]
    assert scripted({"plan": two}).run(plan).value == ["4 EUR", {"name": "lamp", "cents": 900}]
    with pytest.raises(agentrt.AgentrtError, match="count"):
        scripted({"plan": [call("order", item="lamp", count=10)]}).run(plan)


def test_an_image_is_refused(scripted: Scripted, shop: str) -> None:
    with pytest.raises(ToolFailed, match=r"picture gave image \(image/png\)"):
        called(scripted, shop, "picture", {})
    assert called(scripted, shop, "page", {}) == "a lamp\n[image (image/png), left out]"


def test_a_tool_times_out(scripted: Scripted, shop: str) -> None:
    """In real time: the virtual one stands still while a socket is open."""

    @program
    async def late() -> str:
        async with mcp_tools(shop, effects="read", timeout=0.05) as tools:
            return str(await tools["sleep"]())

    async def main() -> None:
        async with scripted({}).open() as runtime:
            await runtime.run(late)

    with pytest.raises(ToolFailed, match=r"took longer than 0\.05 s"):
        anyio.run(main)


def test_the_death_of_a_server_ends_its_calls(scripted: Scripted, own_server: Any) -> None:
    @program
    async def both() -> list[str]:
        said = []
        async with mcp_tools(own_server) as tools:
            waiting = tools["sleep"]()
            for node in (tools["die"](), waiting, tools["price"](item="lamp")):
                with pytest.raises(ToolFailed) as failed:
                    await node
                said.append(failed.value.message)
        return said

    said = scripted({}).run(both).value
    assert all("while its tools are in use" in one for one in said), said


def test_the_process_ends_with_the_block(scripted: Scripted, stdio_server: Any) -> None:
    @program
    async def ended() -> int:
        async with mcp_tools(stdio_server) as tools:
            return int(await tools["pid"]())

    with pytest.raises(ProcessLookupError):
        os.kill(scripted({}).run(ended).value, 0)


def test_the_process_ends_with_a_cancelled_program(scripted: Scripted, stdio_server: Any) -> None:
    @program
    async def waiting(found: list[int], begun: anyio.Event) -> None:
        async with mcp_tools(stdio_server, effects="read") as tools:
            found.append(os.pidfd_open(int(await tools["pid"]())))
            begun.set()
            await tools["sleep"]()

    @program
    async def outer() -> int:
        found: list[int] = []
        begun = anyio.Event()
        inner = waiting(found, begun)
        await begun.wait()
        inner.cancel("enough")
        with pytest.raises(NodeCancelled):
            await inner
        return found[0]

    ended = select.poll()
    descriptor = scripted({}).run(outer).value
    ended.register(descriptor, select.POLLIN)
    assert ended.poll(30_000), "the process goes on"
    os.close(descriptor)


def test_the_environment_stays_here(
    scripted: Scripted, small_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "secret")
    for env, value in (
        ((), "unset"),
        (["SHOP_KEY"], "secret"),
        ({"SHOP_KEY": "other"}, "other"),
        ({"SHOP_KEY": "env:SHOP_KEY"}, "secret"),
    ):
        asked = {"name": "SHOP_KEY"}
        assert called(scripted, small_server, "variable", asked, env=env) == value


def test_tools_belong_to_their_block(scripted: Scripted, shop: str) -> None:
    @program
    async def after() -> str:
        async with mcp_tools(shop) as tools:
            pass
        return str(await tools["price"](item="lamp"))

    with pytest.raises(ToolFailed, match="is closed"):
        scripted({}).run(after)


def test_two_servers_with_prefixes(scripted: Scripted, shop: str) -> None:
    @program
    async def two() -> list[str]:
        async with (
            mcp_tools(shop, only=["price"], prefix="one_") as one,
            mcp_tools(shop, without=["price"], prefix="two_") as other,
        ):
            names = [tool.name for tool in (*one, *other)]
            assert await one["one_price"](item="sea") == "3 EUR"
            return names

    names = scripted({}).run(two).value
    assert names[0] == "one_price"
    assert "two_price" not in names
    assert "two_order" in names


def test_bound_arguments_are_hidden(scripted: Scripted, shop: str) -> None:
    @program
    async def bound() -> tuple[Any, str]:
        async with mcp_tools(shop) as tools:
            price = tools["price"].bind(currency="USD")
            return price.spec.parameters["properties"], await price(item="lamp")

    properties, value = scripted({}).run(bound).value
    assert list(properties) == ["item"]
    assert value == "4 USD"


def test_effects(scripted: Scripted, shop: str) -> None:
    @program
    async def seen(effects: Any) -> list[str]:
        async with mcp_tools(shop, only=["price", "order", "fail"], effects=effects) as tools:
            return [tool.spec.effects for tool in tools]

    engine = scripted({})
    assert engine.run(seen, "annotated").value == ["read", "idempotent", "write"]
    assert engine.run(seen, {"fail": "pure"}).value == ["write", "write", "pure"]
    assert engine.run(seen, "read").value == ["read", "read", "read"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"only": ["cost"]}, "has no tool 'cost'"),
        ({"effects": {"cost": "read"}}, "has no tool 'cost'"),
        ({"without": "price"}, "is one text"),
        ({"effects": "none"}, "effects='none'"),
        ({"effects": {"price": "annotated"}}, "effects='annotated'"),
        ({"prefix": "x" * 64}, "a tool cannot be called"),
        ({"prefix": "1"}, "a tool cannot be called"),
        ({"timeout": 0}, "timeout of 0 s"),
        ({"open_timeout": 0}, "open_timeout=0"),
        ({"retries": 1}, "never started twice"),
    ],
)
def test_settings_that_cannot_work(
    scripted: Scripted, shop: str, settings: Any, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        called(scripted, shop, "price", {"item": "lamp"}, **settings)


def test_unknown_arguments_and_tools(scripted: Scripted, shop: str) -> None:
    with pytest.raises(UsageError, match="unexpected keyword argument 'colour'"):
        called(scripted, shop, "price", {"item": "lamp", "colour": "red"})
    with pytest.raises(UsageError, match="gave no tool 'cost'"):
        called(scripted, shop, "cost", {})


def test_a_published_server(scripted: Scripted) -> None:
    """The reference server for times."""
    given = {"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    command = [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]
    found = called(scripted, command, "convert_time", given)
    assert found["target"]["datetime"].endswith("T20:00:00+09:00")
