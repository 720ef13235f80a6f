"""What a script can answer: each output of the language, in any style of JSON, with its times."""

from enum import Enum
from typing import Annotated, Any, Literal

import anyio
import pytest
from pydantic import BaseModel, Field

from agentrt import (
    EngineDied,
    RequestRejected,
    ToolFailed,
    UsageError,
    chat,
    choice,
    gather,
    limits,
    program,
    regex,
    tag,
    tool,
)
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.protocol.backend import GenerateRequest
from agentrt.testing import Reply, ScriptedRuntime, WordSpelling, call, calls_text, in_order

ASK = chat(system="Be brief.")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Order(BaseModel):
    item: str
    count: Annotated[int, Field(ge=1, le=99)]


@tool(effects="read")
def price(symbol: str) -> float:
    """The price of a symbol."""
    return float(len(symbol))


def value_of(script: Any, **options: Any) -> Any:
    """The value of one generation with these options."""
    out = options.pop("out", str)

    @program
    async def ask() -> Any:
        return await ASK.user("x").generate(out, name="ask", **options)

    return ScriptedRuntime(script).run(ask).value


@pytest.mark.parametrize(
    ("answer", "out", "value"),
    [
        ("Nile", str, "Nile"),
        ({"item": "lamp", "count": 3}, Order, Order(item="lamp", count=3)),
        (Order(item="lamp", count=3), Order, Order(item="lamp", count=3)),
        ('{"item": "lamp",\n "count": 3}', Order, Order(item="lamp", count=3)),
        (Colour.BLUE, Colour, Colour.BLUE),
        (42, int, 42),
        ("42", int, 42),
        (True, bool, True),
        ([1, 2, 3], list[int], [1, 2, 3]),
        ("[1, 2, 3]", list[int], [1, 2, 3]),
        ("yes", Literal["yes", "no"], "yes"),
        ("yes", choice("yes", "no"), "yes"),
        ("AB-12", regex("[A-Z]{2}-[0-9]{2}"), "AB-12"),
        ("a text", Annotated[str, Field(max_length=9)], "a text"),
        ("42", Annotated[str, Field(max_length=9)], "42"),
        (None, int | None, None),
    ],
)
def test_a_value_is_written_as_its_type_wants(answer: Any, out: Any, value: Any) -> None:
    assert value_of({"ask": answer}, out=out) == value


def test_answers_by_name_in_order_and_for_all_others() -> None:
    @program
    async def ask() -> list[str]:
        marks = [ASK.user(text).generate(name="mark") for text in "xy"]
        rest = [ASK.user(name).generate(name=name) for name in ("river", "ridge", "lake")]
        return list(await gather(*marks, *rest))

    script = {"mark": in_order("1", "2"), "r*": "r", "ridge": "own", "*": "other"}
    assert ScriptedRuntime(script).run(ask).value == ["1", "2", "r", "own", "other"]


def test_an_answer_by_the_path_of_its_node() -> None:
    @program
    async def ask() -> tuple[str, ...]:
        texts = [ASK.user(text).generate(name="s") for text in "xy"]
        return tuple(await gather(*texts))

    assert ScriptedRuntime({"ask#0/s#1": "b", "s": "a"}).run(ask).value == ("a", "b")


def test_a_name_without_an_answer_is_told_with_those_that_have_one() -> None:
    with pytest.raises(UsageError, match=r"no answer for 'ask' \(ask#0/ask#0, .*test_script.py:"):
        value_of({"river": "Nile"})
    with pytest.raises(UsageError, match=r"the 0 answers for 'ask' are used up"):
        value_of({"ask": in_order()})


def test_an_answer_that_the_type_forbids_is_told() -> None:
    with pytest.raises(RequestRejected, match=r"goes wrong at .*keys in the type's order"):
        value_of({"ask": {"count": 3, "item": "lamp"}}, out=Order)


def test_an_answer_that_is_no_option_is_told_with_the_options() -> None:
    with pytest.raises(RequestRejected, match=r"at 'maybe'.*The options are 'yes', 'no'$"):
        value_of({"ask": "maybe"}, out=Literal["yes", "no"])


@tool(effects="read")
def shares(symbol: str, year: int, month: int = 1) -> int:
    """How many shares there were."""
    return year + month


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (call("prize", symbol="IBM"), "No tool 'prize' is offered here, only price, shares"),
        (call("price", ticker="IBM"), "'price' has no argument 'ticker': it takes symbol"),
        (call("shares", symbol="IBM"), "'shares' needs the argument 'year': it takes symbol, "),
        (call("shares", year=1999, symbol="IBM"), "in the tool's order: symbol, year"),
        ([call("price", symbol="IBM"), call("p", a=1)], "No tool 'p' is offered here"),
    ],
)
def test_a_call_that_no_tool_allows_is_told_by_its_names(wrong: Any, told: str) -> None:
    @program
    async def ask() -> int:
        return len(await ASK.user("x").calls(price, shares, name="ask"))

    with pytest.raises(RequestRejected) as failure:
        ScriptedRuntime({"ask": wrong}).run(ask)
    assert told in failure.value.hint


def test_an_exception_is_the_end_of_a_generation() -> None:
    with pytest.raises(EngineDied, match="gone"):
        value_of({"ask": EngineDied("the engine is gone")})


def test_calls_with_text_around_them() -> None:
    @program
    async def plan() -> list[float]:
        calls = ASK.user("x").calls(price, name="plan")
        return [await one.start() async for one in calls]

    calls = [call("price", symbol="IBM"), call("price", symbol="MSFT")]
    assert ScriptedRuntime({"plan": calls}).run(plan).value == [3.0, 4.0]
    assert ScriptedRuntime([call("price", symbol="IBM")]).run(plan).value == [3.0]


def test_calls_are_written_in_a_frame() -> None:
    text = calls_text(("a", {"x": 1}), ("b", {}), content="So: ")
    assert text == 'So: [{"name":"a","arguments":{"x":1}},{"name":"b","arguments":{}}]'
    assert JSON_ARRAY_FRAME.calls_text([("a", "{}")]) == '[{"name":"a","arguments":{}}]'


def test_tags_hold_json_in_any_style() -> None:
    @program
    async def sums() -> Any:
        text = ASK.user("x").tagged(tag("sum", list[int]), name="sums")
        return await text

    run = ScriptedRuntime({"sums": "It is <sum>[1, 2]</sum>."}).run(sums)
    assert [one.value for one in run.value if not isinstance(one, str)] == [[1, 2]]


def scores_of(answer: Any) -> list[tuple[str, float]]:
    @program
    async def scored() -> list[tuple[str, float]]:
        kind = ASK.user("x").generate(choice("a", "b", "c"), scored=True, name="kind")
        await kind
        return [(one.value, round(one.probability, 3)) for one in kind.scores]

    return ScriptedRuntime({"kind": answer}).run(scored).value  # type: ignore[no-any-return]


def test_scores_of_a_choice() -> None:
    assert scores_of("b") == [("a", 0.05), ("b", 0.9), ("c", 0.05)]
    likeliest = {"ask": Reply(scores={"a": 0.2, "b": 0.8})}
    assert value_of(likeliest, out=choice("a", "b"), scored=True) == "b"
    given = Reply("a", scores={"a": 0.5, "c": 0.5})
    assert scores_of(given) == [("a", 0.5), ("b", 0.0), ("c", 0.5)]
    with pytest.raises(RequestRejected, match=r"scores 'd' .*options are 'a', 'b', 'c'"):
        scores_of(Reply("a", scores={"d": 1.0}))


def test_logprobs_of_tokens() -> None:
    @program
    async def sure(logprobs: int) -> list[float]:
        gen = ASK.user("x").generate(name="gen", logprobs=logprobs)
        await gen
        return [one.logprob for one in gen.meta.logprobs]

    tokens = len(WordSpelling().ids("a river"))
    assert ScriptedRuntime(["a river"]).run(sure, 1).value == [-0.1] * tokens
    assert ScriptedRuntime([Reply("a river", logprobs=-2)]).run(sure, 1).value == [-2] * tokens
    assert ScriptedRuntime(["a river"]).run(sure, 0).value == []
    with pytest.raises(RequestRejected, match=r"gives 1 logprobs for the \d+ tokens"):
        ScriptedRuntime([Reply("a river", logprobs=[-1.0])]).run(sure, 1)


def test_thinking_stands_before_the_answer() -> None:
    @program
    async def think() -> tuple[str, str]:
        gen = ASK.user("x").generate(choice("yes", "no"), thinking=20, max_tokens=64, name="gen")
        return await gen, gen.thinking

    run = ScriptedRuntime([Reply("no", thinking="Hm.")]).run(think)
    assert run.value == ("no", "Hm.")
    assert run.generation("gen").thinking == "Hm."


def test_tokens_are_of_a_few_characters() -> None:
    text = "The quick brown fox jumps over the lazy dog; naïve 😀."
    spelling = WordSpelling()
    ids = spelling.ids(text)
    assert "".join(spelling.pieces(ids, keep_special=False)) == text
    assert len(text) / 4 < len(ids) < len(text.encode())


def test_limits_count_tokens_of_a_few_characters() -> None:
    text = "A sentence of about fifty characters, no more."
    assert value_of({"ask": text}, max_tokens=40) == text

    @program
    async def short() -> str:
        async with limits(tokens=3):
            return await ASK.user("x").generate(name="ask")

    with pytest.raises(Exception, match="of 3 tokens"):
        ScriptedRuntime([text]).run(short)


def test_times_of_an_answer() -> None:
    @program
    async def ask() -> str:
        return await ASK.user("x").generate(name="ask")

    reply = Reply("a river", queue_s=0.5, prefill_s=0.25, decode_s=2.0)
    run = ScriptedRuntime([reply]).run(ask)
    assert run.compound_s == pytest.approx(2.75)
    ledger = run.generation("ask").ledger
    assert (ledger.queue_s, ledger.prefill_s, ledger.decode_s) == (0.5, 0.25, 2.0)
    assert run.split.queue == pytest.approx(0.5)


def test_times_that_are_not_given_follow_the_speed() -> None:
    @program
    async def ask() -> str:
        return await ASK.user("x").generate(name="ask")

    engine = ScriptedRuntime([Reply("a river", queue_s=1.0)], decode_tokens_per_s=10.0)
    tokens = len(WordSpelling().ids("a river"))
    assert engine.run(ask).compound_s == pytest.approx(1.0 + tokens / 10)


def test_text_of_a_timed_answer_comes_over_its_time() -> None:
    @program
    async def ask() -> list[float]:
        began_s = anyio.current_time()
        gen = ASK.user("x").generate(name="ask")
        return [anyio.current_time() - began_s async for _ in gen.stream()]

    run = ScriptedRuntime([Reply("a river ran", prefill_s=1.0, decode_s=2.0)]).run(ask)
    assert run.value[0] == pytest.approx(1.0)
    assert run.value[-1] == pytest.approx(3.0)
    assert run.value == sorted(run.value)


def test_timed_answers_take_a_place_in_the_engine() -> None:
    @program
    async def both() -> None:
        await gather(*(ASK.user(text).generate(name="s") for text in "xy"))

    reply = Reply("a", decode_s=2.0)
    assert ScriptedRuntime({"s": reply}).run(both).compound_s == 2.0
    assert ScriptedRuntime({"s": reply}, max_running=1).run(both).compound_s == 4.0


def test_a_timed_answer_is_cancelled_and_closed() -> None:
    @program
    async def cut(on_limit: Literal["raise", "close"]) -> Any:
        gen = ASK.user("x").generate(list[int], name="gen", on_limit=on_limit, deadline=1.0)
        return await gen

    reply = Reply([1, 2, 3, 4, 5, 6, 7, 8], decode_s=2.0)
    run = ScriptedRuntime([reply]).run(cut, "close")
    assert run.value[:2] == [1, 2]
    assert len(run.value) < 8
    assert 0.5 < run.compound_s <= 1.0
    engine = ScriptedRuntime([reply])
    with pytest.raises(Exception, match=r"1(\.0*)? s"):
        engine.run(cut, "raise")
    assert engine.runs[-1].compound_s == pytest.approx(1.0)
    assert 0 < engine.runs[-1].generation("gen").ledger.decode_s <= 1.0


def test_a_function_sees_the_request_and_the_prompt() -> None:
    def script(request: GenerateRequest, prompt: str) -> Any:
        return {"item": prompt.split()[-1], "count": 1}

    assert value_of(script, out=Order) == Order(item="x", count=1)


def test_a_tool_that_fails_is_part_of_the_language() -> None:
    @tool(effects="read")
    def broken(symbol: str) -> float:
        """Never works."""
        raise ValueError(f"no {symbol}")

    @program
    async def plan() -> Any:
        calls = ASK.user("x").calls(broken, name="plan")
        return [await one.start() async for one in calls]

    with pytest.raises(ToolFailed, match="no IBM"):
        ScriptedRuntime([call("broken", symbol="IBM")]).run(plan)
