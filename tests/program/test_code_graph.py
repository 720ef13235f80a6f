"""The graph that code implies: sites, the values between them, loops and branches."""
# ruff: noqa: PERF401  # what is read here is code as people write it

from typing import Any, Literal

import pytest

from agentrt import Calls, Final, agent, ask, chat, fan, gather, program, race, tool
from agentrt.program import Program
from agentrt.program.code.code_graph import CodeGraph, code_graph
from agentrt.program.code.code_picture import code_picture

CLERK = chat(system="Be brief.")


@tool(effects="pure")
def price(symbol: str) -> float:
    return 1.0


@tool(effects="pure")
def rate(symbol: str) -> float:
    return 1.0


TOOLS = (price, rate)


def text_of(graph: CodeGraph) -> list[str]:
    """Links by the names of their sites: `a>b`, `a.b` of a plan, `a?b` if a value decides."""
    names = {site.key: site.name for site in graph.sites} | {"input": "in", "result": "out"}
    marks = {"value": ">", "starts": ".", "decides": "?"}
    return sorted(f"{names[one.source]}{marks[one.how]}{names[one.target]}" for one in graph.links)


def marks_of(graph: CodeGraph) -> dict[str, str]:
    """Marks of sites by name: `n` in a loop, `m` in a branch."""
    return {site.name: "n" * site.is_many + "m" * site.is_maybe for site in graph.sites}


@program
async def plain(question: str) -> str:
    first = CLERK.user(question).generate(name="first")
    second = first.ctx.user("More.").generate(name="second")
    return f"{await first}{await second}"


@program
async def planned(question: str) -> str:
    plan = CLERK.user(question).calls(*(t.bind() for t in TOOLS), name="plan")
    facts = [call.start() async for call in plan]
    return await plan.ctx.results(facts).user("Report.").generate(name="report")


@program
async def looped(question: str) -> str:
    ctx = CLERK.user(question)
    for _ in range(3):
        match await ctx.step(tools=[price, rate], final=str, name="turn"):
            case Final(value):
                return value
            case Calls() as turn:
                ctx = turn.run()
    return await ctx.user("Answer now.").generate(name="last")


@program
async def handed_over(question: str) -> str:
    ctx = CLERK.user(question)
    found = await agent(ctx, TOOLS, final=str)
    return await found.ctx.user("Shorter.").generate(name="short")


@program
async def branched(question: str) -> float:
    kind = await CLERK.user(question).generate(Literal["a", "b"], name="kind")
    if kind == "a":
        return await price("a")
    return await rate("b")


@program
async def sampled(question: str, n: int = 3) -> list[str]:
    samples = [CLERK.user(question).generate(name=f"s{i}") for i in range(n)]
    found = []
    async with race(samples) as finished:
        async for sample in finished:
            found.append(await planned(sample))
    return found


@program
async def others(question: str) -> list[Any]:
    sure = await ask(bool, "Sure?")
    prices = fan(price, ["a", "b"])
    return [sure, *await gather(*prices), await followed(question), held(prices)]


async def followed(text: str) -> str:
    return await CLERK.user(text).generate(name="inside")


def held(values: list[Any]) -> list[Any]:
    if not values:
        return held(values)
    return values


@program
async def inner(question: str) -> str:
    async def judge(text: str) -> str:
        return await CLERK.user(text).generate(name="judge")

    answer = await CLERK.user(question).generate(name="answer")
    return await judge(answer)


@program
async def grown(question: str) -> str:
    found: dict[str, Any] = {}
    found["a"] = CLERK.user(question).generate(name="a")
    (b := CLERK.user("b").generate(name="b"))
    try:
        text = str(await gather(found["a"], b))
    except ValueError:
        text = await CLERK.user("c").generate(name="c")
    while await price(str(text)) > 1:
        text = await CLERK.user(str(text)).generate(name="again")
    return text if text else await CLERK.user("d").generate(name="d")


@program
async def routed(question: str) -> str:
    kind = await CLERK.user(question).generate(Literal["a", "b"], name="kind")
    number = await (price if kind == "a" else rate)(question)
    return await {"a": plain, "b": inner}[kind](str(number))


GRAPHS: list[tuple[Program[..., Any], list[str], dict[str, str]]] = [
    (plain, ["first>out", "first>second", "in>first", "second>out"], {"first": "", "second": ""}),
    (
        planned,
        ["calls of tools>report", "in>plan", "plan.calls of tools", "plan>report", "report>out"],
        {"plan": "", "calls of tools": "nm", "report": ""},
    ),
    (
        looped,
        [
            *("calls of tools>last", "calls of tools>turn", "in>turn", "last>out"),
            *("turn.calls of tools", "turn>out"),
        ],
        {"turn": "n", "calls of tools": "nm", "last": ""},
    ),
    (
        branched,
        ["in>kind", "kind?price", "price>out", "rate>out"],
        {"kind": "", "price": "m", "rate": ""},
    ),
    (
        sampled,
        ["in>s{i}", "planned>out", "s{i}>planned"],
        {"s{i}": "n", "planned": "n"},
    ),
    (
        others,
        ["ask>out", "in>inside", "inside>out", "price>out"],
        {"ask": "", "price": "n", "inside": ""},
    ),
    (
        routed,
        [
            *("in>kind", "in>price", "in>rate", "inner>out"),
            *("kind?inner", "kind?plain", "kind?price", "kind?rate", "plain>out"),
            *("price>inner", "price>plain", "rate>inner", "rate>plain"),
        ],
        {"kind": "", "price": "m", "rate": "m", "plain": "m", "inner": "m"},
    ),
    (inner, ["answer>judge", "in>answer", "judge>out"], {"answer": "", "judge": ""}),
]


@pytest.mark.parametrize(("given", "links", "marks"), GRAPHS, ids=[one[0].name for one in GRAPHS])
def test_sites_and_links(given: Program[..., Any], links: list[str], marks: dict[str, str]) -> None:
    graph = code_graph(given)
    assert text_of(graph) == links
    assert marks_of(graph) == marks
    assert graph.not_followed == []


def test_values_in_containers_and_loops_are_followed() -> None:
    found = text_of(code_graph(grown))
    for link in ("a>price", "b>price", "a>again", "price?again", "c>out", "d>out"):
        assert link in found
    assert marks_of(code_graph(grown))["c"] == "m"
    assert marks_of(code_graph(grown))["again"] == "n"
    assert marks_of(code_graph(grown))["d"] == "m"


def test_a_site_tells_where_and_what() -> None:
    plan, calls, report = code_graph(planned).sites
    assert plan.where.endswith(f"test_code_graph.py:{planned.fn.__code__.co_firstlineno + 2}")
    assert (plan.kind, calls.kind, report.kind) == ("generate", "tool", "generate")
    assert calls.detail == "price, rate"
    assert report.detail == "str"
    assert code_graph(branched).sites[0].detail == "Literal['a', 'b']"
    assert code_graph(looped).sites[0].detail == "calls or str"
    assert code_graph(sampled).result == "list[str]"


def test_the_picture_says_what_it_cannot_show() -> None:
    picture = code_picture(code_graph(sampled))
    assert picture.nodes[0].lines == ("input", "question, n")
    assert picture.nodes[-1].lines == ("result", "list[str]")
    keys = {node.key for node in picture.nodes}
    assert all({edge.source, edge.target} <= keys for edge in picture.edges)
    assert "nothing was run" in picture.notes[0]
    assert "Not shown" in picture.notes[1]


def test_an_agent_is_a_place_that_may_start_its_tools() -> None:
    graph = code_graph(handed_over)
    assert text_of(graph) == ["agent.calls of tools", "agent>short", "in>agent", "short>out"]
    assert marks_of(graph)["calls of tools"] == "nm"
    (site,) = (one for one in graph.sites if one.name == "agent")
    assert site.kind == "program"
