"""Text, items and partial values, as they come."""

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentrt import Calls, Final, Truncated, UsageError, chat, emit, program, structured, tool
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.events import ItemClosed
from agentrt.runtime import RunOptions
from agentrt.structured import ItemScanner, PartialJson
from agentrt.testing import calls_text

ASK = chat(system="Be brief.")


class Point(BaseModel):
    x: int
    name: str


@tool(effects="pure")
def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@tool(effects="pure")
def half(x: int) -> float:
    """Half of x."""
    return x / 2


def test_text_comes_as_it_is_written_and_may_be_read_again(bench: Any) -> None:
    @program
    async def outer() -> tuple[list[str], list[float], str, str]:
        gen = ASK.user("x").generate()
        pieces, at_s = [], []
        async for text in gen.stream():
            pieces.append(text)
            at_s.append(anyio.current_time())
        again = "".join([text async for text in gen.stream()])
        return pieces, at_s, again, gen.text

    pieces, at_s, again, text = bench(["abc"], decode_tokens_per_s=10.0).run(outer)
    assert pieces == ["a", "b", "c"]
    assert at_s == sorted(set(at_s))
    assert again == text == "abc"


def test_emit_hands_on_what_was_written_meanwhile(bench: Any) -> None:
    @program
    async def outer() -> str:
        draft = ASK.user("x").generate()
        await anyio.sleep(0.55)
        await emit(draft)
        return draft.text

    heard: list[str] = []
    rig = bench(["abcdefghij"], decode_tokens_per_s=10.0)
    text = rig.run(outer, options=RunOptions(on_emit=heard.append))
    assert "".join(heard) == text == "abcdefghij"
    assert len(heard[0]) > 1


def test_emit_without_a_listener_is_fine(bench: Any) -> None:
    @program
    async def outer() -> str:
        draft = ASK.user("x").generate()
        await emit(draft)
        return await draft

    assert bench(["abc"]).run(outer) == "abc"


def test_a_stream_ends_with_the_nodes_error(bench: Any) -> None:
    @program
    async def outer() -> str:
        gen = ASK.user("x").generate(Point, max_tokens=5)
        got = ""
        try:
            async for text in gen.stream():
                got += text
        except Truncated:
            return got
        return "no error"

    assert bench(['{"x":1,"name":"a"}']).run(outer) == '{"x":'


def test_partial_values_grow_to_the_whole(bench: Any) -> None:
    @program
    async def outer() -> list[Any]:
        gen = ASK.user("x").generate(Point)
        return [(p.data, p.complete) async for p in gen.partials()]

    seen = bench(['{"x":12,"name":"ab"}'], decode_tokens_per_s=10.0).run(outer)
    data = [d for d, _ in seen]
    assert {"x": 12, "name": "a"} in data
    assert data.index({"x": 12}) < data.index({"x": 12, "name": "a"})
    assert {"x": 1} not in data, "a number that may go on is not told"
    assert seen[-1] == ({"x": 12, "name": "ab"}, True)
    assert [c for _, c in seen].count(True) == 1


def test_partial_text(bench: Any) -> None:
    @program
    async def outer() -> list[Any]:
        return [p.data async for p in ASK.user("x").generate().partials()]

    assert bench(["ab"], decode_tokens_per_s=10.0).run(outer) == ["a", "ab", "ab"]


def test_items_come_as_each_one_closes(bench: Any) -> None:
    @program
    async def outer() -> tuple[list[Point], list[float], list[Point]]:
        each = ASK.user("x").each(Point)
        items, at_s = [], []
        async for item in each:
            items.append(item)
            at_s.append(anyio.current_time())
        return items, at_s, await each

    text = '[{"x":1,"name":"a"},{"x":2,"name":"b"}]'
    rig = bench([text], decode_tokens_per_s=10.0)
    items, at_s, whole = rig.run(outer)
    assert items == whole == [Point(x=1, name="a"), Point(x=2, name="b")]
    began_s = rig.recorder.events[0].at_s
    assert at_s[0] == pytest.approx(began_s + 0.1 * (text.index("}") + 1))
    assert [e.index for e in rig.recorder.of(ItemClosed)] == [0, 1]


def test_an_empty_list(bench: Any) -> None:
    @program
    async def outer() -> tuple[list[int], list[int]]:
        each = ASK.user("x").each(int)
        return [item async for item in each], await each

    assert bench(["[]"]).run(outer) == ([], [])


def test_what_follows_an_item_says_so(bench: Any) -> None:
    """A node made after an item was waited for names that item as its cause."""

    @program
    async def outer() -> int:
        plan = ASK.user("x").calls(double, name="plan")
        return len([await call.start() async for call in plan])

    text = calls_text(("double", {"x": 1}), ("double", {"x": 2}))
    rig = bench([text], decode_tokens_per_s=10.0)
    assert rig.run(outer) == 2
    declared = [e for e in rig.recorder.events if getattr(e, "kind", "") == "tool"]
    assert [(e.plan, e.plan_item) for e in declared] == [
        ("outer#0/plan#0", 0),
        ("outer#0/plan#0", 1),
    ]
    assert declared[0].after == "outer#0/plan#0"
    assert declared[0].after_item == 0


@pytest.mark.parametrize("asks_for_calls", [True, False])
def test_a_step_is_calls_or_a_final_answer(bench: Any, asks_for_calls: bool) -> None:
    text = calls_text(("double", {"x": 4})) if asks_for_calls else '{"x":1,"name":"a"}'

    @program
    async def outer() -> Any:
        match await ASK.user("x").step(tools=[double], final=Point):
            case Final(value):
                return value
            case Calls(calls=calls) as turn:
                ctx = turn.run()
                return calls[0].arguments, await ctx.user("And?").generate()

    rig = bench([text, "eight"])
    expected = ({"x": 4}, "eight") if asks_for_calls else Point(x=1, name="a")
    assert rig.run(outer) == expected
    if asks_for_calls:
        prompt = rig.backend.seen.prompts[rig.backend.seen.requests[1].request_id]
        assert "[result of double] 8" in prompt


@pytest.mark.parametrize("asks_for_calls", [True, False])
def test_a_step_may_have_text_around_its_calls(bench: Any, asks_for_calls: bool) -> None:
    call = calls_text(("double", {"x": 4}))

    @program
    async def outer() -> Any:
        gen = ASK.user("x").step(tools=[double], final=str, text=True, max_tokens=80)
        match await gen:
            case Final(value):
                return value
            case Calls(calls=calls, content=content):
                return calls[0].arguments, content

    rig = bench([f"Let me see. {call} So." if asks_for_calls else 'It is {"x":1}'])
    expected = ({"x": 4}, "Let me see.  So.") if asks_for_calls else 'It is {"x":1}'
    assert rig.run(outer) == expected
    constraint = rig.backend.seen.requests[0].constraint
    assert constraint.text
    assert constraint.min_calls == 0


def test_text_around_calls_is_the_final_answer(bench: Any) -> None:
    @program
    async def outer(most: int) -> Any:
        with pytest.raises(UsageError, match="no final answer but text"):
            ASK.user("x").step(tools=[double], final=Point, text=True)
        with pytest.raises(UsageError, match="no minimum number"):
            ASK.user("x").step(tools=[double], final=str, text=True, min_calls=2)
        return await ASK.user("x").step(tools=[double], final=str, text=True, max_tokens=most)

    assert bench(["It is"]).run(outer, 3) == Final("It ")  # a limit ends free text
    cut = "a " + calls_text(("double", {"x": 4}))
    with pytest.raises(Truncated):
        bench([cut]).run(outer, len(cut) - 5)


def test_a_step_with_fewer_tools_leaves_the_prompt_as_it_is(bench: Any) -> None:
    """The mask forbids the others; the prompt still tells of them, so its beginning is shared."""

    @program
    async def outer() -> None:
        first = ASK.user("x").step(tools=[double, half], final=Point)
        await first
        await first.ctx.user("And?").step(tools=[half], final=Point)

    rig = bench(['{"x":1,"name":"a"}'] * 2)
    rig.run(outer)
    one, two = rig.backend.seen.requests
    prompts = rig.backend.seen.prompts
    assert [tool.name for tool in two.prompt.tools] == ["double", "half"]
    assert prompts[two.request_id].startswith(prompts[one.request_id])
    assert [tool.name for tool in one.constraint.tools] == ["double", "half"]
    assert [tool.name for tool in two.constraint.tools] == ["half"]


def test_a_final_answer_may_be_text(bench: Any) -> None:
    @program
    async def outer() -> str:
        match await ASK.user("x").step(tools=[double], final=str):
            case Final(value):
                return value
        return "calls"

    assert bench(['"yes [{"']).run(outer) == "yes [{"


def test_a_call_is_started_once(bench: Any) -> None:
    @program
    async def outer() -> bool:
        calls = await ASK.user("x").calls(double)
        return calls[0].start() is calls[0].start()

    assert bench([calls_text(("double", {"x": 4}))]).run(outer)


def test_react_goes_round(bench: Any) -> None:
    def script(request: GenerateRequest, prompt: str) -> str:
        done = prompt.count("[result of double]")
        return calls_text(("double", {"x": done + 1})) if done < 2 else '{"x":4,"name":"done"}'

    @program
    async def react() -> Point:
        ctx = ASK.user("x")
        for _ in range(8):
            match await ctx.step(tools=[double], final=Point):
                case Final(value):
                    return value
                case Calls() as turn:
                    ctx = turn.run()
        raise AssertionError("no answer")

    rig = bench(script)
    assert rig.run(react) == Point(x=4, name="done")
    assert len(rig.backend.seen.requests) == 3


def test_branches_of_a_fork_are_named(bench: Any) -> None:
    @program
    async def outer() -> list[str]:
        draft, guard = ASK.user("x").fork(names=("draft", "guard"))
        first = draft.generate()
        second = guard.user("Is it allowed?").generate()
        third = first.ctx.user("Shorter.").generate()
        await first, await second, await third
        return [node.id.rpartition("/")[2] for node in (first, second, third)]

    rig = bench(lambda request, prompt: "ok")
    assert rig.run(outer) == ["draft#0", "guard#0", "str#0"]
    forks = [e.fork_of for e in rig.recorder.events if getattr(e, "kind", "") == "generate"]
    assert forks == [None, "outer#0/draft#0", None]


@pytest.mark.parametrize("tokens", [True, False], ids=["tokens", "text"])
def test_what_streams_is_read_once_and_alike(
    bench: Any, codec: Any, monkeypatch: pytest.MonkeyPatch, tokens: bool
) -> None:
    """From an engine that sends ids or one that sends text: every character is fed once."""
    fed: dict[str, list[str]] = {"items": [], "partial": []}

    class Items(ItemScanner):
        def feed_text(self, text: str) -> list[str]:
            fed["items"].append(text)
            return super().feed_text(text)

    class Read(PartialJson):
        def feed_text(self, text: str) -> None:
            fed["partial"].append(text)
            super().feed_text(text)

    monkeypatch.setattr(structured, "ItemScanner", Items)
    monkeypatch.setattr(structured, "PartialJson", Read)
    answer = '[{"x":1,"name":"a]\\"é"},{"x":-20,"name":""}]'

    @program
    async def outer() -> tuple[list[Point], list[Any]]:
        each = ASK.user("x").each(Point, max_tokens=99)
        points = [point async for point in each]
        gen = ASK.user("y").generate(list[Point], max_tokens=99)
        return points, [p.data async for p in gen.partials()]

    points, data = bench([answer, answer], codec=codec if tokens else None).run(outer)
    assert points == [Point(x=1, name='a]"é'), Point(x=-20, name="")]
    assert data[-1] == [point.model_dump() for point in points]
    assert [{"x": 1, "name": 'a]"é'}] in data
    assert "".join(fed["items"]) == "".join(fed["partial"]) == answer
    assert len(fed["items"]) > 5
