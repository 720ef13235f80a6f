"""Free text with tags, as it comes: text at once, each tag when it closes, nothing twice."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from agentrt import (
    ConstraintError,
    OneOf,
    OutputDiverged,
    Tagged,
    Truncated,
    UsageError,
    capture,
    chat,
    json_schema,
    program,
    regex,
    tag,
    tool,
    typed,
)
from agentrt.protocol.events import ItemClosed
from tests.runtime.test_checked import Even
from tests.runtime.test_replay import losing

ASK = chat(system="Be brief.").user("x")


class Calc(BaseModel):
    left: int
    right: int


TAGS = tag("calc", Calc) | tag("day", regex("[0-9]{2}"))
TEXT = 'It is <calc>{"left":1,"right":2}</calc>, or <day>07</day>. 1 <'
PIECES = [
    "It is ",
    Tagged("calc", Calc(left=1, right=2)),
    ", or ",
    Tagged("day", "07"),
    ". 1 <",
]
HOT: Any = {"temperature": 1.0, "on_limit": "close"}


def joined(pieces: list[Any]) -> list[Any]:
    found: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    return found


@program
async def tagged() -> list[Any]:
    gen = ASK.tagged(TAGS, name="x")
    pieces = [piece async for piece in gen]
    assert joined(pieces) == await gen
    assert [piece async for piece in gen] == pieces
    return await gen


def test_pieces_come_in_order_as_they_are_written(bench: Any) -> None:
    at_s: dict[Any, float] = {}

    @program
    async def outer() -> list[Any]:
        gen = ASK.tagged(TAGS)
        async for piece in gen:
            at_s[piece if isinstance(piece, str) else piece.name] = anyio.current_time()
        assert gen.text == TEXT
        return await gen

    rig = bench([TEXT], decode_tokens_per_s=10.0)
    assert rig.run(outer) == PIECES
    began_s = rig.recorder.events[0].at_s
    assert at_s["I"] == pytest.approx(began_s + 0.1)
    assert at_s["calc"] == pytest.approx(began_s + 0.1 * (TEXT.index("</calc>") + 7))
    assert [e.index for e in rig.recorder.of(ItemClosed)] == [0, 1]


def test_the_number_of_tags_is_enforced_by_the_constraint(bench: Any) -> None:
    sent = []

    def answer(request: Any, prompt: str) -> str:
        sent.append(request.constraint)
        return TEXT

    @program
    async def outer() -> None:
        await ASK.tagged(TAGS, min_tags=1, max_tags=2)
        await ASK.tagged(TAGS, min_tags=1, max_tags=2)

    bench(answer).run(outer)
    assert sent[0] is sent[1]
    assert "part{1,2}" in sent[0].source


def test_a_limit_ends_text_but_no_tag(bench: Any) -> None:
    """As for all free text, a limit is no error, unless it cuts a tag."""

    @program
    async def outer(most: int) -> Any:
        gen = ASK.tagged(TAGS, max_tokens=most)
        try:
            return await gen
        except Truncated as error:
            return error.partial

    assert bench([TEXT]).run(outer, 3) == ["It "]
    assert bench([TEXT]).run(outer, 20) == ["It is "]


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.lists(st.integers(0, len(TEXT)), max_size=4))
def test_an_equal_second_output_gives_no_piece_twice(losses: list[int]) -> None:
    rig, play = losing([TEXT], losses)
    assert play(tagged) == PIECES
    assert [event.index for event in rig.recorder.of(ItemClosed)] == [0, 1]


OTHER = TEXT.replace("07", "08")


@pytest.mark.parametrize("lost_at", [3, 20, TEXT.index("07") + 1, len(TEXT) - 1])
def test_another_second_output_is_an_error_once_a_piece_was_read(lost_at: int) -> None:
    _, play = losing([TEXT, OTHER], [lost_at])
    found = play(tagged)
    if lost_at <= TEXT.index("07") + 1:
        assert found == joined([*PIECES[:3], Tagged("day", "08"), *PIECES[4:]])
    else:
        assert isinstance(found, OutputDiverged)


def test_another_second_output_replaces_one_that_was_not_read() -> None:
    @program
    async def outer() -> list[Any]:
        gen = ASK.tagged(TAGS)
        value = await gen
        assert joined([piece async for piece in gen]) == value
        return value

    _, play = losing([TEXT, OTHER], [len(TEXT) - 1])
    assert play(outer)[3] == Tagged("day", "08")


def test_tags_are_described(bench: Any) -> None:
    prompts = []

    def answer(request: Any, prompt: str) -> str:
        prompts.append(prompt)
        return TEXT

    @program
    async def outer() -> None:
        await ASK.tagged(TAGS, describe=True)

    bench(answer).run(outer)
    assert "<calc>...</calc> with JSON of this type: {" in prompts[0]
    assert "<day>...</day> with text that matches [0-9]{2}" in prompts[0]


def test_what_cannot_be_a_tag_is_refused_where_it_is_written(bench: Any) -> None:
    with pytest.raises(ConstraintError, match="cannot be checked at the end"):
        tag("x", json_schema({"not": {"multipleOf": 3}}, check=True))
    with pytest.raises(ConstraintError, match="one name"):
        tag("x", int) | tag("x", str)
    with pytest.raises(ConstraintError, match="does not end by itself"):
        tag("x", int, end="")

    @program
    async def outer() -> None:
        with pytest.raises(UsageError, match="check=True"):
            ASK.tagged(TAGS, check=True)

    bench([]).run(outer)


@tool(effects="pure")
def rivers() -> list[str]:
    """Some rivers."""
    return ["Nile"]


def test_parts_have_no_late_options(bench: Any) -> None:
    @program
    async def outer() -> None:
        river = Annotated[str, OneOf(rivers())]
        with pytest.raises(ConstraintError, match="options that are not known yet"):
            tag("river", river)
        with pytest.raises(ConstraintError, match="options that are not known yet"):
            "The " + typed(river)

    bench([]).run(outer)


class Line(TypedDict):
    name: str
    calc: list[Calc]


LINE = (
    "Name: "
    + capture("name", regex("[a-z]{2,6}"))
    + (", " + capture("calc", Calc)).repeat(1, 2)
    + "."
).into(Line)


@pytest.mark.model
def test_captures_on_the_engine(engine: Any) -> None:
    @program
    async def outer() -> list[Any]:
        gens = [ASK.generate(LINE, max_tokens=400, seed=seed, temperature=1.0) for seed in range(3)]
        return [(await gen, gen.text) for gen in gens]

    for value, text in engine.run(outer):
        name, *calcs = text.removeprefix("Name: ").removesuffix(".").split(", ")
        assert value == {"name": name, "calc": [Calc.model_validate_json(one) for one in calcs]}


@pytest.mark.model
def test_tags_on_the_engine(engine: Any) -> None:
    """Real tokens and real masks: each output is read into its parts, closed ones too."""

    @program
    async def outer() -> list[list[Any]]:
        gens = [
            ASK.tagged(TAGS, min_tags=2, max_tags=2, max_tokens=60 + 7 * seed, seed=seed, **HOT)
            for seed in range(4)
        ]
        found = []
        for gen in gens:
            pieces = [piece async for piece in gen]
            assert joined(pieces) == await gen
            found.append(await gen)
        return found

    for pieces in engine.run(outer):
        tags = [piece for piece in pieces if isinstance(piece, Tagged)]
        assert len(tags) == 2
        for one in tags:
            assert isinstance(one.value, Calc if one.name == "calc" else str)


def test_captures_that_a_validator_refuses_are_asked_for_again(bench: Any) -> None:
    """The validators of a record run in the end; the model is shown the reason."""
    line = ("No. " + capture("number", int)).into(Even)

    @program
    async def outer() -> Even:
        gen = ASK.generate(line, retries=1)
        value = await gen
        assert [attempt.text for attempt in gen.attempts] == ["No. 3"]
        return value

    rig = bench(["No. 3", "No. 4"])
    assert rig.run(outer) == Even(number=4)
    assert "must be even" in rig.backend.seen.prompts[rig.backend.seen.requests[1].request_id]
