"""Outputs held to what nodes give: sent with a hole, filled with the options."""

import gc
import json
import weakref
from typing import Annotated, Any

import anyio
import pytest
from pydantic import BaseModel

from agentrt import ConstraintError, OneOf, ToolFailed, chat, choice, program, tool
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.program.node import report_failure_as_text
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.events import HoleFilled, RequestSent, Scheduled

ASK = chat(system="Be brief.")


class Fact(BaseModel):
    symbol: str
    value: float


class Report(BaseModel):
    fact: Fact
    words: str


@tool(effects="read")
async def facts(*, seconds: float = 2.0, count: int = 2) -> list[Fact]:
    """Facts."""
    await anyio.sleep(seconds)
    return [Fact(symbol=f"S{at}", value=at + 0.5) for at in range(count)]


@tool(effects="read")
async def fact(symbol: str, seconds: float) -> dict[str, Any]:
    """One fact."""
    await anyio.sleep(seconds)
    return {"symbol": symbol, "value": 1.5}


@tool(effects="read")
async def broken() -> list[Fact]:
    """Fails."""
    await anyio.sleep(1.0)
    raise ValueError("no data")


@program
async def name() -> Any:
    known = facts()
    return await ASK.user("Which?").generate(Annotated[Fact, OneOf(known)], name="which")


@program
async def report(count: int = 2) -> Any:
    known = facts(count=count)

    class Held(Report):
        fact: Annotated[Fact, OneOf(known)]

    return await ASK.user("Facts: ", known).generate(Held, name="which", max_tokens=60)


S1 = '{"symbol":"S1","value":1.5}'


def test_a_request_with_a_hole_in_its_constraint_is_sent_at_once(bench: Any, codec: Any) -> None:
    rig = bench([S1], codec=codec)
    assert rig.run(name) == Fact(symbol="S1", value=1.5)
    sent = rig.recorder.of(RequestSent, "which")[0]
    began_s = rig.recorder.events[0].at_s
    assert (sent.at_s, sent.complete) == (began_s, False)
    asked = rig.backend.seen.requests[0]
    assert asked.constraint.holes == ("options:0",)
    assert asked.prompt.token_ids == codec.encode((), prompt_segments(ASK.user("Which?"))).token_ids
    [(_, fill)] = rig.backend.seen.fills
    assert (fill.token_ids, fill.complete, fill.constraint.holes) == ((), True, ())
    assert S1 in fill.constraint.source
    assert rig.recorder.of(HoleFilled, "which")[0].at_s == began_s + 2.0


def test_the_prompt_and_the_constraint_are_filled_together(bench: Any, codec: Any) -> None:
    rig = bench([f'{{"fact":{S1},"words":"up"}}'], codec=codec)
    found = rig.run(report)
    assert (found.fact, found.words) == (Fact(symbol="S1", value=1.5), "up")
    [(_, fill)] = rig.backend.seen.fills
    assert fill.complete
    assert fill.token_ids
    assert fill.constraint is not None


def test_the_prompt_goes_ahead_of_the_options(bench: Any, codec: Any) -> None:
    """Each hole is filled when it can be; the request is complete with the last."""

    @program
    async def two() -> Any:
        quick, slow = fact("A", 1.0), fact("B", 3.0)
        ask = ASK.user("Data: ", quick, ".")
        return await ask.generate(Annotated[Fact, OneOf([quick, slow])], name="which")

    rig = bench(['{"symbol":"B","value":1.5}'], codec=codec)
    assert rig.run(two).symbol == "B"
    first, last = [fill for _, fill in rig.backend.seen.fills]
    assert first.token_ids
    assert (first.complete, first.constraint) == (False, None)
    assert (last.token_ids, last.complete) == ((), True)


def test_an_engine_without_holes_gets_the_request_when_the_options_are_known(bench: Any) -> None:
    rig = bench([S1])
    assert rig.run(name).symbol == "S1"
    sent = rig.recorder.of(RequestSent, "which")[0]
    assert sent.at_s == rig.recorder.events[0].at_s + 2.0
    assert sent.complete
    assert rig.backend.seen.requests[0].constraint.holes == ()
    assert not rig.backend.seen.fills


def test_options_known_at_declaration_leave_no_hole(bench: Any, codec: Any) -> None:
    @program
    async def known() -> Any:
        nodes = facts()
        await nodes
        ask = ASK.user("Which?")
        plain = await ask.generate(Annotated[str, OneOf(["a", "b"])])
        return plain, await ask.generate(Annotated[Fact, OneOf(nodes)])

    rig = bench(["b", S1], codec=codec)
    assert rig.run(known) == ("b", Fact(symbol="S1", value=1.5))
    assert [one.prompt.complete for one in rig.backend.seen.requests] == [True, True]
    assert [one.constraint.holes for one in rig.backend.seen.requests] == [(), ()]
    assert rig.backend.seen.requests[0].constraint == choice("a", "b").shape.spec


@pytest.mark.parametrize("tokens", [True, False])
def test_a_text_that_is_no_option_is_refused(bench: Any, codec: Any, tokens: bool) -> None:
    """The scripted engine holds its script to the constraint, so a wrong record fails there."""
    rig = bench(['{"symbol":"S1","value":0.5}'], codec=codec if tokens else None)
    with pytest.raises(Exception, match="script's answer"):
        rig.run(name)


def test_a_failed_tool_fails_the_generation_at_once(bench: Any, codec: Any) -> None:
    @program
    async def failing() -> Any:
        known = [facts(seconds=9.0), broken()]
        return await ASK.user("Which?").generate(Annotated[Fact, OneOf(known)], name="which")

    rig = bench([S1], codec=codec)
    with pytest.raises(ToolFailed, match="no data"):
        rig.run(failing)
    assert rig.backend.seen.cancels, "the engine need not wait for the other tool"


def test_a_failure_that_stands_in_the_prompt_gives_no_option(bench: Any, codec: Any) -> None:
    """As in prompts, the failure of a tool that a model called is text, not an error."""

    @program
    async def partly() -> Any:
        nodes = [broken(), fact("A", 1.0)]
        for node in nodes:
            report_failure_as_text(node)
        ask = ASK.user("Data: ", *nodes)
        return await ask.generate(Annotated[Fact, OneOf(nodes)], name="which")

    rig = bench(['{"symbol":"A","value":1.5}'], codec=codec)
    assert rig.run(partly).symbol == "A"
    [fill] = [fill for _, fill in rig.backend.seen.fills if fill.constraint is not None]
    assert json.loads(fill.constraint.source)["$defs"]["options:0"]["enum"] == [
        {"symbol": "A", "value": 1.5}
    ]


def test_equal_options_count_once(bench: Any, codec: Any) -> None:
    @program
    async def twice() -> Any:
        known = [fact("A", 1.0), fact("A", 2.0)]
        return await ASK.user("Which?").generate(Annotated[Fact, OneOf(known)], name="which")

    rig = bench(['{"symbol":"A","value":1.5}'], codec=codec)
    rig.run(twice)
    [(_, fill)] = rig.backend.seen.fills
    assert len(json.loads(fill.constraint.source)["$defs"]["options:0"]["enum"]) == 1


@pytest.mark.parametrize("late", [True, False])
def test_an_option_of_bare_text_is_text(bench: Any, codec: Any, late: bool) -> None:
    """Other options never reach the engine, whose wire holds texts there."""

    @program
    async def odd() -> Any:
        known = fact("A", 1.0)
        if not late:
            await known
        return await ASK.user("Which?").generate(Annotated[str, OneOf(known)], name="which")

    rig = bench(["A"], codec=codec)
    with pytest.raises(ConstraintError, match="none of its type: Input should be a valid string"):
        rig.run(odd)
    assert not rig.backend.seen.fills


def test_an_option_without_a_json_form_is_an_error_of_its_generation(
    bench: Any, codec: Any
) -> None:
    @tool(effects="pure")
    def endless() -> list[float]:
        """No number."""
        return [float("inf")]

    @program
    async def wrong() -> Any:
        return await ASK.user("x").generate(Annotated[float, OneOf(endless())], name="which")

    rig = bench(["1.0"], codec=codec)
    with pytest.raises(ConstraintError, match="no JSON form") as caught:
        rig.run(wrong)
    assert caught.value.where.startswith("tests/runtime/test_late_options.py:")


def test_like_generations_are_computed_once(bench: Any, codec: Any) -> None:
    """Two prompts become equal, and so do their constraints, although other nodes fill them."""

    @program
    async def both() -> Any:
        ask = ASK.user("Which?")
        asked = [
            ask.generate(Annotated[Fact, OneOf(facts(seconds=at))], name="which", temperature=0.0)
            for at in (1.0, 2.0)
        ]
        return [await one for one in asked]

    rig = bench([S1], codec=codec, seeds=True, decode_tokens_per_s=5.0)
    one, other = rig.run(both)
    assert one == other
    assert "joined" in [event.decision for event in rig.recorder.of(Scheduled)]


def test_a_lost_engine_gets_the_constraint_as_it_was_filled(bench: Any, codec: Any) -> None:
    rig = bench([S1, S1], codec=codec, decode_tokens_per_s=2.0)

    async def main(runtime: Any) -> Any:
        async with anyio.create_task_group() as tasks:

            async def lose() -> None:
                await anyio.sleep(1.0)
                rig.backend.lose_engine()  # before the options are there
                await anyio.sleep(2.0)
                rig.backend.lose_engine()  # after

            tasks.start_soon(lose)
            return await runtime.run(name)

    assert rig.main(main).symbol == "S1"
    holes = [one.constraint.holes for one in rig.backend.seen.requests]
    assert holes == [("options:0",), ("options:0",), ()]
    assert rig.backend.seen.requests[2].prompt.complete


def test_a_type_with_pending_options_goes_with_its_run(bench: Any, codec: Any) -> None:
    made: list[weakref.ref[Any]] = []

    @program
    async def held() -> Any:
        known = facts()

        class Held(Report):
            fact: Annotated[Fact, OneOf(known)]

        made.append(weakref.ref(Held))
        return (await ASK.user("Which?").generate(Held, name="which")).words

    bench([f'{{"fact":{S1},"words":"up"}}'], codec=codec).run(held)
    gc.collect()
    assert made[0]() is None


def test_a_spec_is_filled_by_name() -> None:
    open_ = ConstraintSpec(
        "json", '{"$ref":"#/$defs/b","$defs":{"a":{"type":"null"}}}', holes=("b",)
    )
    filled = open_.filled({"b": ('{"x":1.5}', '"y"')})
    assert filled == ConstraintSpec(
        "json", '{"$ref":"#/$defs/b","$defs":{"a":{"type":"null"},"b":{"enum":[{"x":1.5},"y"]}}}'
    )
    assert filled.filled({}) is filled
