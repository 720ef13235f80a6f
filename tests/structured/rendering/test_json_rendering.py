"""A rendering gives the beginning of the text of a value in a prompt, and gives it soon."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import uuid
from itertools import pairwise
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, RootModel, field_serializer
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from agentrt.base.canonical_json import content
from agentrt.base.json_style import JsonStyle, styled_json
from agentrt.structured import (
    JsonRendering,
    array_place,
    json_schema_shape,
    json_shape_of,
    output_place,
    shape_of,
)
from agentrt.structured.rendering.json_rendering import MAX_DEPTH

STYLES: tuple[JsonStyle, ...] = ("compact", "spaced", "indented")


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Note(BaseModel):
    title: str = Field(alias="theTitle")
    size: float
    side: Side = Side.BUY
    tags: list[str] = []
    day: dt.date | None = None


class Tree(BaseModel):
    text: str
    kids: list[Tree] = []


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    text: str


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    text: str


class Own(BaseModel):
    text: str

    @field_serializer("text")
    def loud(self, text: str) -> str:
        return text.upper()


@dataclasses.dataclass
class Point:
    x: int
    label: str = "none"
    y: list[float] = dataclasses.field(default_factory=list)


@pydantic_dataclass
class Pair:
    left: Annotated[int, PlainSerializer(str)]
    right: Point


class Row(TypedDict):
    name: str
    count: NotRequired[int]
    more: NotRequired[list[str]]


class Names(RootModel[dict[str, list[str]]]):
    pass


text = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"', "\\n", "\U0001f600\n", "\x00/"]
)
number = st.integers(-999, 999)
real = number | st.floats(-1e17, 1e17) | st.sampled_from([1e-7, 1e16, -0.0])
day = st.dates().map(str)


def record(required: dict[str, Any], optional: dict[str, Any]) -> Any:
    """Records in the order of their fields."""
    names = [*required, *optional]
    drawn = st.fixed_dictionaries(required, optional=optional)
    return drawn.map(lambda one: {name: one[name] for name in names if name in one})


note = record(
    {"theTitle": text, "size": real},
    {
        "side": st.sampled_from(["buy", "sell"]),
        "tags": st.lists(text, max_size=3),
        "day": day | st.none(),
    },
)
tree = st.recursive(
    st.fixed_dictionaries({"text": text}),
    lambda kids: record({"text": text, "kids": st.lists(kids, max_size=3)}, {}),
    max_leaves=5,
)
point = record({"x": number}, {"label": text, "y": st.lists(real, max_size=2)})
many = st.lists(text)
plain = st.recursive(
    st.none() | st.booleans() | real | text,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(text, inside, max_size=3),
    max_leaves=6,
)
CASES: dict[str, tuple[Any, Any]] = {
    "model": (Note, note),
    "list of models": (list[Note], st.lists(note, max_size=3)),
    "recursive": (Tree, tree),
    "extra fields": (Loose, record({"text": text, "more": plain}, {})),
    "stripped text": (Stripped, st.fixed_dictionaries({"text": text})),
    "dataclass": (Point, point),
    "pydantic dataclass": (Pair, record({"left": number, "right": point}, {})),
    "typed dict": (Row, record({"name": text}, {"count": number, "more": st.lists(text)})),
    "root model": (Names, st.dictionaries(text, st.lists(text, max_size=2), max_size=3)),
    "keys": (dict[uuid.UUID, int], st.dictionaries(st.uuids().map(str), number, max_size=2)),
    "tuple": (tuple[int, str, float], st.tuples(number, text, real)),
    "any length": (tuple[str, ...], st.lists(text, max_size=3)),
    "set": (list[set[int]], st.lists(st.lists(number, max_size=4), max_size=2)),
    "union": (list[int | str | list[str] | None], st.lists(number | text | many | st.none())),
    "records": (list[Note | Point], st.lists(note | point, max_size=3)),
    "bools": (list[bool | str], st.lists(st.booleans() | text, max_size=4)),
    "decimals": (list[decimal.Decimal | None], st.lists(number | st.none(), max_size=3)),
    "literals": (list[Literal["a", 1] | str], st.lists(st.sampled_from(["a", 1]) | text)),
    "moments": (list[dt.timedelta | dt.date], st.lists(day, max_size=2)),
    "anything": (dict[str, Any], st.dictionaries(text, plain, max_size=3)),
    "bytes": (list[bytes], st.lists(text, max_size=2)),
}  # fmt: skip


shape_for = functools.cache(json_shape_of)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[begin:end] for begin, end in pairwise(places)]


def written(value: Any, style: JsonStyle, escapes: bool) -> str:
    return json.dumps(value) if escapes else styled_json(value, style)


@settings(derandomize=True, max_examples=30, deadline=None)
@given(data=st.data(), cuts=st.lists(st.integers(0, 300), max_size=6), escapes=st.booleans())
@pytest.mark.parametrize("case", CASES)
def test_a_rendering_is_the_beginning_of_the_text(
    case: str, data: Any, cuts: Any, escapes: bool
) -> None:
    form, values = CASES[case]
    shape = shape_for(form)
    source = written(data.draw(values), data.draw(st.sampled_from(STYLES)), escapes)
    value = shape.parse(source)
    for style in STYLES:
        place = output_place(shape.parse)
        assert place is not None
        rendering = JsonRendering(place, style)
        whole = content(value, style)
        so_far = ""
        for piece in pieces(source, cuts):
            so_far += rendering.feed(piece)
            assert whole.startswith(so_far)
        assert so_far == whole


def rendered(form: Any, text: str, style: JsonStyle = "compact") -> str:
    place = output_place(shape_of(form).parse)
    assert place is not None
    return JsonRendering(place, style).feed(text)


@pytest.mark.parametrize(
    ("form", "text", "certain"),
    [
        (Note, '{"theTitle":"Half of ', '{"theTitle":"Half of '),
        (Note, '{"theTitle":"A","size":3', '{"theTitle":"A","size":'),
        (Note, '{"theTitle":"A","size":3,', '{"theTitle":"A","size":3.0'),
        (Point, '{"x":3,"y":[1', '{"x":3,"label":"none","y":['),
        (list[str], '["a\\', '["a'),
        (list[str], '["a\\ud83d\\u', '["a'),
        (list[str], '["a\\ud83d\\ude00', '["a\U0001f600'),
        (list[set[int]], "[[2,1],[3", "[[1,2],"),
        (list[str | None], "[n", "["),
        (Own, '{"text":"a', ""),
        (Stripped, '{"text":"a', ""),
        (Loose, '{"text":"a', ""),
    ],
)  # fmt: skip
def test_what_is_certain_comes_at_once(form: Any, text: str, certain: str) -> None:
    assert rendered(form, text) == certain


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ('["a" "b"]', '["a"'),
        ('["a\\x"]', '["a'),
        ('["\\ud800"]', '["'),
        ('["a\n"]', '["a'),
        ("{}", ""),
        ('["a",5,"b"]', '["a",'),
        ('["a"] and more', '["a"]'),
    ],
)
def test_nothing_is_certain_behind_what_the_type_does_not_allow(text: str, certain: str) -> None:
    assert rendered(list[str], text) == certain


def test_fields_in_another_order_end_it() -> None:
    assert rendered(Row, '{"count":3,"name":"a"}') == ""


def test_plain_json_and_items() -> None:
    schema = json_schema_shape({"type": "object"})
    place = output_place(schema.parse)
    assert place is not None
    assert JsonRendering(place, "spaced").feed('{"a":[1.50,{"b":"c') == '{"a": [1.5, {"b": "c'
    items = array_place(json_shape_of(Row).parse)
    assert items is not None
    assert JsonRendering(items, "compact").feed('[ {"name" : "a"} , {') == '[{"name":"a"},'
    assert output_place(str.upper) is None
    assert array_place(str.upper) is None


def test_deep_values_come_at_their_end() -> None:
    text = "[" * 200 + "]" * 200
    place = output_place(json_schema_shape({"type": "array"}).parse)
    assert place is not None
    rendering = JsonRendering(place, "compact")
    first = rendering.feed(text[:199])
    assert first == "[" * (MAX_DEPTH + 1)
    assert first + rendering.feed(text[199:]) == text
