"""The public surface as type checkers see it. Read by mypy and pyright, never run.

A line that ends in `# error` must be an error for both, `# error: pyright` for pyright only. Any
other line must be an error for neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict, assert_type

from agentrt import AgentResult, Calls, Chat, CheckFailed, ContextOverflow, DeadlineExceeded, Each, EngineConfig, Final, Gen, MapProgress, MapResult, Node, OneOf, Overflow, Partial, Program, RunConfig, RunEnded, RunEvent, RunMap, RunOptions, Runtime, Score, StartedRun, Tagged, TaggedText, Tags, TextWritten, Tool, ToolCall, ToolCalled, Truncated, agent, ask, capture, cfg, chat, choice, emit, fan, gather, json_schema, limits, open_runtime, race, regex, split, tag, tool, trim, typed
from agentrt import program


class Report(BaseModel):
    ticker: str


class Refusal(BaseModel):
    why: str


class Row(TypedDict):
    x: int


@dataclass
class Point:
    x: int


@tool(effects="read", timeout=5, retries=2, stable_for=60)
async def prices(ticker: str, days: int = 90) -> list[float]:
    return []


@tool(effects="pure")
def growth(old: float, new: float) -> float:
    return new / old


@tool
def unlike(old: float, new: float) -> bool:
    return old != new


@program
async def leaf(n: int) -> int:
    return n


@program(deadline=8.0)
async def finance(ticker: str, data: Path = Path()) -> Report:
    ask_ = chat(system="x").user("Ticker: ", ticker)
    assert_type(ask_, Chat)
    plan = ask_.calls(prices, growth, max_tokens=400, name="plan")
    assert_type(plan, Each[ToolCall])
    data_ = [call.start() async for call in plan]
    assert_type(data_, list[Node[Any]])
    report = plan.ctx.results(data_).generate(Report, on_limit="close")
    assert_type(report, Gen[Report])
    return await report


async def outputs(c: Chat) -> None:
    assert_type(await c.generate(), str)
    assert_type(await c.generate(int), int)
    assert_type(await c.generate(Report), Report)
    assert_type(await c.generate(Report | Refusal), Report | Refusal)
    assert_type(await c.generate(Report | None), Report | None)
    assert_type(await c.generate(Literal["yes", "no"]), Literal["yes", "no"])
    assert_type(await c.generate(list[Report]), list[Report])
    assert_type(await c.generate(dict[str, int]), dict[str, int])
    assert_type(await c.generate(Row), Row)
    assert_type(await c.generate(Point), Point)
    assert_type(await c.generate(Annotated[int, Field(ge=1)]), int)
    assert_type(await c.generate(regex("[a-z]+")), str)
    assert_type(await c.generate(cfg("start: 'a'")), str)
    assert_type(await c.generate(choice(1, 2)), int)
    assert_type(await c.generate(json_schema({})), Any)
    assert_type(await c.each(Report), list[Report])
    line = "Name: " + capture("x", int) + (regex("a") | "b").repeat(1, 2) + typed(Report)
    assert_type(await c.generate(line), str)
    assert_type(await c.generate(line.into(Row)), Row)
    assert_type(await c.each(int, min_items=2, max_items=3), list[int])
    line + 3  # error
    assert_type(tag("r", Report) | tag("n", int), Tags[Report | int])
    assert_type(c.tagged(tag("r", Report)), TaggedText[Report])
    assert_type(await c.tagged(tag("d", regex("a"))), list[str | Tagged[str]])
    c.tagged(Report)  # error
    async for piece in c.tagged(tag("r", Report) | tag("n", int)):
        assert_type(piece, str | Tagged[Report | int])
    async for item in c.each(int):
        assert_type(item, int)
    async for piece in c.generate(Report).stream():
        assert_type(piece, str)
    async for partial in c.generate(Report).partials():
        assert_type(partial, Partial[Report])
    assert_type(c.generate(Report).ctx, Chat)
    assert_type(c.fork(2, names=("a", "b")), list[Chat])


async def phases(c: Chat) -> None:
    assert_type(c.generate(Report, thinking=200, max_tokens=500), Gen[Report])
    assert_type(c.each(int, thinking=20), Each[int])
    assert_type(c.calls(prices, thinking=20), Each[ToolCall])
    assert_type(c.generate(Report, thinking=20).thinking, str)
    assert_type(await c.generate(Report, check=True, retries=3), Report)
    assert_type(await c.generate(json_schema({}, check=True)), Any)
    scored = c.generate(Literal["yes", "no"], scored=True)
    assert_type(await scored, Literal["yes", "no"])
    assert_type(scored.scores, tuple[Score[Literal["yes", "no"]], ...])
    assert_type(c.generate(choice(1, 2), scored=True).scores[0].value, int)
    assert_type(scored.scores[0].probability, float)
    c.generate(Report, thinking="long")  # error
    c.generate(Report, check="yes")  # error
    c.generate(Report, retry=3)  # error
    json_schema({}, checks=True)  # error
    try:
        await c.generate(Report, check=True)
    except CheckFailed as never:
        assert_type(never.attempts[0].reason, str)
        assert_type(never.attempts[0].text, str)


async def steps(c: Chat) -> Report:
    match await c.step(tools=[prices, growth], final=Report):
        case Final(value):
            assert_type(value, Report)
            return value
        case Calls() as turn:
            assert_type(turn.run(), Chat)
    return await c.generate(Report)


def shorter(overflow: Overflow) -> Chat | None:
    assert_type(overflow.chat, Chat)
    assert_type(overflow.fits(overflow.chat), bool)
    assert_type(overflow.parts[0].tokens, int)
    return None


async def summary(overflow: Overflow) -> Chat:
    return chat("x").user(await overflow.chat.user("Summarise.").generate())


def declines(overflow: Overflow) -> None: ...


def gives_text(overflow: Overflow) -> str:
    return ""


def histories() -> None:
    assert_type(chat("x", history="append"), Chat)
    assert_type(chat(history="template").history, Literal["template", "append"])
    chat("x", history="keep")  # error
    chat("x", "append")  # error
    assert_type(chat("x", tools=[prices, growth]), Chat)
    chat("x", tools=[leaf])  # error


async def limits_of_one(c: Chat) -> None:
    assert_type(c.generate(Report, on_overflow=trim), Gen[Report])
    assert_type(c.each(int, on_overflow=shorter), Each[int])
    assert_type(c.calls(prices, on_overflow=summary), Each[ToolCall])
    await c.step(tools=[prices], final=int, on_overflow=declines)
    c.generate(on_overflow="trim")  # error
    c.generate(on_overflow=gives_text)  # error
    try:
        await c.generate(Report)
    except DeadlineExceeded as late:
        assert_type(late.progress.path[0].slack_s, float | None)
        assert_type(late.progress.branches[0].name, str)
    except Truncated as short:
        assert_type(short.partial_text, str)
        assert_type(short.partial, Any)
    except ContextOverflow as long:
        assert_type(long.parts[0].name, str)


async def calls() -> None:
    assert_type(prices, Tool[[str, int], list[float]])  # error
    assert_type(prices("X"), Node[list[float]])
    assert_type(await growth(1.0, 2.0), float)
    assert_type(unlike(1.0, 2.0), Node[bool])
    assert_type(prices.bind(days=3), Tool[..., list[float]])
    assert_type(await leaf(3), int)
    assert_type(finance.run("X"), Report)
    assert_type(await ask(Literal["yes", "no"], "Send?"), Literal["yes", "no"])


async def combined(c: Chat) -> None:
    a, b = await gather(c.generate(int), c.generate(str))
    assert_type(a, int)
    assert_type(b, str)
    assert_type(await gather(*[c.generate(int)]), list[int])
    async with race([c.generate(int)], errors="skip") as finished:
        async for value in finished:
            assert_type(value, int)
    assert_type(fan(leaf, [1, 2, 3], limit=2), list[Node[int]])
    async with limits(seconds=2.0, tokens=100, calls=3, on_limit="close"):
        await emit(c.generate())
    with limits(seconds=2.0):
        await c.generate()


async def doors() -> None:
    async with open_runtime(engine=EngineConfig(Path()), config=RunConfig(seed=1)) as runtime:
        assert_type(runtime, Runtime)
        assert_type(await runtime.run(finance, "X"), Report)
        reports: list[Report | None] = [None]
        reports[0] = await runtime.run(finance, "X")
        assert_type(await runtime.with_options(RunOptions(seed=3)).run(finance, "X"), Report)
        await runtime.run(finance, 3)  # error
        await runtime.run(prices, "X")  # error
        await runtime.with_options(RunOptions()).run(leaf, "x")  # error


async def texts() -> AsyncIterator[str]:
    yield ""


@program
async def both(n: int, text: str) -> Report | None:
    return None


async def mapped(runtime: Runtime) -> None:
    assert_type(runtime.map(finance, ["X"]), RunMap[Report])
    assert_type(await runtime.map(leaf, range(3), concurrency=2, order="ends"), list[int])
    wider: list[Report | None] = [*await runtime.map(finance, texts())]
    wider += await runtime.map(both.bind(n=1), ["x"])
    covariant: RunMap[Report | None] = runtime.map(finance, ["X"])
    assert_type(await runtime.map(finance, ["X"], errors="collect"), list[MapResult[str, Report]])
    options = RunOptions()
    async with runtime.with_options(options).map(leaf, {1, 2}, errors="collect") as results:
        assert_type(results.progress, MapProgress)
        async for result in results:
            assert_type(result, MapResult[int, int])
            assert_type(result.value, int)
            assert_type(result.output, int | None)
            assert_type(result.input, int)
            loose: MapResult[int | None, float] = result
    async with runtime.map(leaf, [1]) as values:
        async for value in values:
            assert_type(value, int)
    await runtime.map(leaf, ["x"])  # error
    await runtime.map(leaf, texts())  # error
    await runtime.map(both, [1])  # error
    await runtime.map(prices, ["X"])  # error
    await runtime.map(leaf, 3)  # error
    await runtime.map(leaf, [1], errors="skip")  # error
    await runtime.map(leaf, [1], at_once=3)  # error


async def parts() -> None:
    assert_type(await split("x", 400, overlap=40), list[str])
    assert_type(await split("x", 400, count=len), list[str])
    await split("x", "400")  # error
    await split("x", 400, by="word")  # error


async def watched(runtime: Runtime) -> None:
    run = runtime.start(finance, "X")
    assert_type(run, StartedRun[Report])
    assert_type(await run, Report)
    wider: StartedRun[Report | None] = run
    async with runtime.with_options(RunOptions(unread_events=9)).start(leaf, 3) as other:
        async for event in other:
            assert_type(event, RunEvent)
            match event:
                case TextWritten(text=text):
                    assert_type(text, str)
                case ToolCalled(arguments=arguments):
                    assert_type(arguments, Mapping[str, Any])
                case RunEnded(value=value):
                    assert_type(value, Any)
                case _:
                    pass
        assert_type(await other, int)
    runtime.start(leaf, "x")  # error
    runtime.start(leaf)  # error
    runtime.start(prices, "X")  # error


async def agents(c: Chat) -> None:
    assert_type(await agent(c, [prices, growth]), AgentResult[str])
    result = await agent(c, [prices], final=Report | None, max_turns=3, temperature=0.0)
    assert_type(result, AgentResult[Report | None])
    assert_type(result.value, Report | None)
    assert_type(result.ctx, Chat)
    assert_type(result.calls, tuple[ToolCall, ...])
    assert_type(agent(c, [prices], final=list[int]), Node[AgentResult[list[int]]])
    nodes = fan(lambda text: agent(c.user(text), [prices], final=int), ["x"])
    assert_type(nodes, list[Node[AgentResult[int]]])
    kept: AgentResult[Report | None] = await agent(c, [prices], final=Report)
    agent(c, [leaf])  # error
    agent(c)  # error
    agent("x", [prices])  # error
    agent(c, [prices], at_max="stop")  # error
    agent(c, [prices], max_turn=3)  # error


@tool(effects="read", retries=2, backoff=0.5)
def patient() -> int:
    return 1


@tool(effects="read", retries=2, backoff=lambda failed: 2.0 * failed)
async def steady() -> int:
    return 1


tool(backoff="long")  # error


def takes_text(node: Node[str]) -> None: ...


def forgotten_await(report: Gen[Report]) -> None:
    if report:  # error: pyright
        pass


async def mistakes(c: Chat, report: Gen[Report]) -> None:
    print(report.ticker)  # error
    c.generate(max_token=3)  # error
    c.generate(Report, on_limit="stop")  # error
    prices(3)  # error
    prices("X", dayz=3)  # error
    finance()  # error
    finance.run(ticker=3)  # error
    leaf("x")  # error
    takes_text(c.generate(int))  # error
    c.user("n = ", 3)  # error
    c.step(tools=[prices])  # error
    tool(effects="reads")  # error
    c.calls(leaf)  # error
    fan(leaf, ["x"])  # error
    wrong: Program[[str], str] = finance  # error
    await gather(c.generate(int), 3)  # error
    race([c.generate(int)], errors="ignore")  # error
    c.generate(choice("a")).stream().ticker  # error


@tool(effects="pure")
def closes(table: dict[str, float], symbol: Annotated[str, OneOf(lambda table: table)]) -> Point:
    return Point(int(table[symbol]))


async def held(table: dict[str, float]) -> None:
    assert_type(await chat().user("x").generate(Annotated[str, OneOf(["a", "b"])]), str)
    facts = [closes(table, "a"), closes(table, "b")]
    assert_type(await chat().user("x").generate(Annotated[Point, OneOf(facts)]), Point)
    assert_type(await chat().user("x").generate(Annotated[Point, OneOf(facts[0])]), Point)

    class Held(Report):
        points: list[Annotated[Point, OneOf(facts)]]

    assert_type((await chat().user("x").generate(Held)).points, list[Point])
    OneOf(1)  # error
