"""Agents: turns, calls side by side, failures told to the model, limits, and call sites."""

import inspect
from typing import Any

import anyio
import pytest

from agentrt import (
    AgentResult,
    BudgetExceeded,
    UsageError,
    agent,
    chat,
    emit,
    fan,
    gather,
    program,
    tool,
)
from agentrt.protocol.events import NodeDeclared, ToolStarted
from agentrt.testing import call, in_order

ASK = chat("Use tools.").user("What are they worth?")


@tool(effects="read")
async def price(symbol: str) -> float:
    """The price of a share."""
    await anyio.sleep(1)
    if symbol == "NONE":
        raise KeyError(symbol)
    return {"IBM": 98.5, "AAPL": 171.0}[symbol]


IBM, AAPL, NONE = (call("price", symbol=symbol) for symbol in ("IBM", "AAPL", "NONE"))


@program
async def worth(max_turns: int = 10, at_max: Any = "answer") -> AgentResult[float]:
    return await agent(ASK, [price], final=float, max_turns=max_turns, at_max=at_max)


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


def test_an_agent_calls_side_by_side_until_it_answers(bench: Any) -> None:
    rig = bench([[IBM, AAPL], "269.5"])
    result = rig.run(worth)
    assert (result.value, result.turns) == (269.5, 2)
    assert [made.name for made in result.calls] == ["price", "price"]
    roles = [message["role"] for message in result.ctx.messages()]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant"]
    first, second = rig.recorder.of(ToolStarted)
    assert first.at_s == second.at_s


def test_the_model_is_told_of_failures(bench: Any) -> None:
    rig = bench([NONE, "0"])
    assert rig.run(worth).value == 0
    assert "error: 'NONE'" in rig.backend.seen.prompts[1]


def test_the_last_turn_must_answer(bench: Any) -> None:
    rig = bench({"step": IBM, "answer": "98.5"})
    result = rig.run(worth, max_turns=3)
    assert (result.value, result.turns, len(result.calls)) == (98.5, 3, 2)
    alone = bench({"answer": "98.5"})
    assert alone.run(worth, max_turns=1).turns == 1
    (asked,) = alone.backend.seen.requests
    assert [one.name for one in asked.prompt.tools] == ["price"]  # as in turns that may call


def test_an_agent_may_fail_at_its_limit_without_the_last_calls(bench: Any) -> None:
    rig = bench({"step": IBM})
    with pytest.raises(BudgetExceeded, match="has not answered in 2 turns"):
        rig.run(worth, max_turns=2, at_max="raise")
    assert len(rig.recorder.of(ToolStarted)) == 1
    assert bench({"step": "1.5"}).run(worth, max_turns=1, at_max="raise").value == 1.5


def test_all_nodes_have_the_call_site_of_the_agent(bench: Any) -> None:
    rig = bench({"step": in_order([IBM, AAPL], IBM), "answer": "1"})
    rig.run(worth, max_turns=3)
    inside = [one for one in rig.recorder.of(NodeDeclared) if one.node_id.count("/")]
    assert [one.name for one in inside] == [
        "agent",
        "step",
        "price",
        "price",
        "step",
        "price",
        "answer",
    ]
    line = line_of(worth.fn, "await agent")
    assert {one.site.rpartition("/")[2] for one in inside} == {f"test_agent.py:{line}"}


def test_agents_are_nodes(bench: Any) -> None:
    @program
    async def both(symbols: list[str]) -> list[str]:
        ask = chat()
        nodes = fan(lambda symbol: agent(ask.user(symbol), [price]), symbols, limit=1)
        return [result.value for result in await gather(*nodes[:1], *nodes[1:2])]

    rig = bench({"step": '"fine"'})
    assert rig.run(both, ["IBM", "AAPL"]) == ["fine", "fine"]


def test_options_are_those_of_each_turn(bench: Any) -> None:
    @program
    async def hot() -> str:
        return (await agent(ASK, [price], max_tokens=133, temperature=0.25, name="act")).value

    rig = bench({"act": in_order(IBM, '"done"')})
    assert rig.run(hot) == "done"
    sampling = [request.sampling for request in rig.backend.seen.requests]
    assert {(one.max_tokens, one.temperature) for one in sampling} == {(133, 0.25)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_turns": 0}, "max_turns=0"),
        ({"at_max": "stop"}, "at_max='stop'"),
        ({"max_token": 3}, "no option 'max_token'"),
        ({"tools": []}, "cannot be offered"),
    ],
)
def test_misuse_is_told_with_the_line(bench: Any, options: dict[str, Any], said: str) -> None:
    @program
    async def wrong() -> Any:
        return await agent(ASK, **{"tools": [price], **options})

    with pytest.raises(UsageError, match=said):
        bench([]).run(wrong)


def test_a_task_of_the_users_own_has_its_own_lines(bench: Any) -> None:
    @program
    async def outer() -> str:
        gen = ASK.generate()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(emit, gen)
            tasks.start_soon(late)
        return await gen

    rig = bench(["a", "b"])
    assert rig.run(outer) == "a"
    (made,) = rig.recorder.of(NodeDeclared, "late")
    assert made.site.rpartition("/")[2] == f"test_agent.py:{line_of(late, 'generate')}"


async def late() -> None:
    await ASK.generate(name="late")
