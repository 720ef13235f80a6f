"""Every type form: what may be written, what may not, and what is read back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired

import pytest
from pydantic import BaseModel, Field, HttpUrl, StringConstraints, ValidationError
from typing_extensions import TypedDict

from agentrt.base.errors import ConstraintError
from agentrt.structured import (
    array_shape,
    cfg_shape,
    choice_shape,
    json_schema_shape,
    json_shape_of,
    regex_shape,
    shape_of,
)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Home(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind")


class Tree(BaseModel):
    value: int
    kids: list[Tree] = []


class Bounded(BaseModel):
    code: str = Field(pattern=r"^[A-Z]{2}\d+$")
    short: str = Field(min_length=2, max_length=3)
    share: float = Field(gt=0, le=1)
    dozen: int = Field(ge=0, multiple_of=12)
    few: list[int] = Field(min_length=1, max_length=2)


class Named(BaseModel):
    price: int = Field(alias="thePrice")
    note: str | None = None


class Open(BaseModel, extra="allow"):
    a: int


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


UserId = NewType("UserId", int)

TAKEN = [
    (int, "-12", -12),
    (float, "2.5", 2.5),
    (bool, "true", True),
    (None, "null", None),
    (Literal["yes", "no"], "yes", "yes"),
    (Literal[1, "a", None], "null", None),
    (Color, "red", Color.RED),
    (Level, "2", Level.HIGH),
    (int | None, "null", None),
    (int | str, '"7"', "7"),
    (list[int], "[1,2]", [1, 2]),
    (list[Color], '["red","red"]', [Color.RED, Color.RED]),
    (set[int], "[1,1]", {1}),
    (tuple[int, str], '[1,"a"]', (1, "a")),
    (tuple[int, ...], "[]", ()),
    (dict[str, int], '{"a":1}', {"a": 1}),
    (dict[int, str], '{"-7":"a"}', {-7: "a"}),
    (dict[Color, int], '{"red":1}', {Color.RED: 1}),
    (dict[bool, int], '{"true":1}', {True: 1}),
    (dict[dt.date, int], '{"2024-02-29":1}', {dt.date(2024, 2, 29): 1}),
    (Movie, '{"title":"M","year":1931}', {"title": "M", "year": 1931}),
    (Movie, '{"title":"M"}', {"title": "M"}),
    (Point, '{"x":1}', Point(1)),
    (Pair, '[1,"a"]', Pair(1, "a")),
    (Home, '{"pet":{"kind":"dog","name":"Rex"}}', Home(pet=Dog(kind="dog", name="Rex"))),
    (Tree, '{"value":1,"kids":[{"value":2}]}', Tree(value=1, kids=[Tree(value=2)])),
    (Named, '{"thePrice":3}', Named(thePrice=3)),
    (Open, '{"a":1,"b":[2]}', Open.model_validate({"a": 1, "b": [2]})),
    (UserId, "5", 5),
    (Annotated[int, Field(ge=3)], "3", 3),
    (dt.date, '"2024-02-29"', dt.date(2024, 2, 29)),
    (dt.time, '"23:59:59.5"', dt.time(23, 59, 59, 500000)),
    (dt.datetime, '"2024-01-31T00:00:00"', dt.datetime(2024, 1, 31)),
    (dt.timedelta, '"P1DT2H"', dt.timedelta(days=1, hours=2)),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (uuid.UUID, f'"{uuid.UUID(int=7)}"', uuid.UUID(int=7)),
    (ipaddress.IPv4Address, '"10.0.0.1"', ipaddress.IPv4Address("10.0.0.1")),
    (HttpUrl, '"https://a.example/x?y=1"', HttpUrl("https://a.example/x?y=1")),
    (Any, '{"a":[null]}', {"a": [None]}),
    (Annotated[str, StringConstraints(pattern="^[a-c]+$")], "abc", "abc"),
    (Annotated[str, Field(min_length=2, max_length=4)], "ab c", "ab c"),
    (Annotated[Literal["a", "b"], "which"], "a", "a"),
]


@pytest.mark.parametrize(("form", "text", "value"), TAKEN)
def test_a_value_is_written_and_read(accepts, form, text, value):
    shape = shape_of(form)
    assert shape.spec is not None
    assert accepts(shape.spec, text)
    assert shape.parse(text) == value


BOUNDED = '{"code":"AB1","short":"ab","share":0.5,"dozen":24,"few":[1]}'

REFUSED = [
    (int, "1.0"),
    (int, "01"),
    (int, "9" * 19),
    (float, "1e400"),
    (bool, "True"),
    (Literal["yes", "no"], "y"),
    (Literal["yes", "no"], '"yes"'),
    (Color, "green"),
    (list[int], "[1, 2]"),
    (list[int], "[1,]"),
    (list[int], "[1"),
    (tuple[int, str], "[1]"),
    (dict[int, str], '{"a":"a"}'),
    (dict[Color, int], '{"green":1}'),
    (Movie, '{"year":1931}'),
    (Movie, '{"title":"M","more":1}'),
    (Home, '{"pet":{"kind":"dog","lives":9}}'),
    (Tree, '{"kids":[]}'),
    (Tree, '{"value":1,"kids":[{}]}'),
    (Named, '{"price":3}'),
    (Bounded, BOUNDED.replace("AB1", "xAB1")),
    (Bounded, BOUNDED.replace('"ab"', '"a"')),
    (Bounded, BOUNDED.replace('"ab"', '"abcd"')),
    (Bounded, BOUNDED.replace("0.5", "0")),
    (Bounded, BOUNDED.replace("0.5", "1.01")),
    (Bounded, BOUNDED.replace("24", "25")),
    (Bounded, BOUNDED.replace("[1]", "[]")),
    (Bounded, BOUNDED.replace("[1]", "[1,2,3]")),
    (Annotated[int, Field(ge=3)], "2"),
    (dt.date, '"2023-02-29"'),
    (dt.date, '"0000-01-01"'),
    (dt.time, '"23:59:60"'),
    (uuid.UUID, '"7"'),
    (ipaddress.IPv4Address, '"256.0.0.1"'),
    (HttpUrl, '"ftp://a.example"'),
    (Annotated[str, StringConstraints(pattern="^[a-c]+$")], "abd"),
    (Annotated[str, Field(min_length=2, max_length=4)], "abcde"),
]


@pytest.mark.parametrize(("form", "text"), REFUSED)
def test_what_the_type_does_not_take_is_not_written(accepts, form, text):
    spec = shape_of(form).spec
    assert spec is not None
    assert not accepts(spec, text)


def test_bounds_are_kept(accepts):
    spec = shape_of(Bounded).spec
    assert spec is not None
    assert accepts(spec, BOUNDED)


@pytest.mark.parametrize("form", [str, NewType("Name", str), Annotated[str, "a name"]])
def test_text_is_free(form):
    shape = shape_of(form)
    assert shape.spec is None
    assert shape.parse("a \n b") == "a \n b"


def test_text_inside_json_is_quoted(accepts):
    shape = json_shape_of(str)
    assert shape.spec is not None
    assert accepts(shape.spec, '"a\\nb é"')
    assert shape.parse('"a\\nb"') == "a\nb"
    assert not accepts(shape.spec, '"\\u00e9"'), "printable characters are never escaped"


def test_array_shape_reads_items_one_by_one(accepts):
    shape = array_shape(Point, max_items=2)
    assert shape.spec is not None
    assert shape.item is not None
    assert accepts(shape.spec, '[{"x":1},{"x":2}]')
    assert not accepts(shape.spec, '[{"x":1},{"x":2},{"x":3}]')
    assert shape.item.parse('{"x":1}') == Point(1)
    assert shape.parse('[{"x":1}]') == [Point(1)]


def test_field_order_is_kept(accepts):
    spec = shape_of(Bounded).spec
    assert spec is not None
    assert not accepts(spec, BOUNDED.replace('"short":"ab",', "")[:-1] + ',"short":"ab"}')


def test_choice_where_one_option_begins_another(accepts):
    shape = choice_shape("yes", "yes please", "no", "no")
    assert shape.spec is not None
    assert shape.spec.options == ("yes", "yes please", "no")
    for text in ("yes", "yes please", "no"):
        assert accepts(shape.spec, text)
        assert shape.parse(text) == text
    assert not accepts(shape.spec, "yes p")


def test_cfg_is_followed(accepts):
    shape = cfg_shape('start: "(" start ")" | "x"')
    assert shape.spec is not None
    assert accepts(shape.spec, "((x))")
    assert not accepts(shape.spec, "((x)")


def test_json_schema_is_read_as_plain_values(accepts):
    shape = json_schema_shape({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert shape.spec is not None
    assert accepts(shape.spec, '{"a":1,"b":2}'), "a schema of the user stays open"
    assert shape.parse('{"a":1}') == {"a": 1}


def test_parse_raises_value_error():
    with pytest.raises(ValidationError):
        shape_of(Point).parse('{"x":"a"}')
    assert issubclass(ValidationError, ValueError)


NO_TYPES = [
    (type[int], "class"),
    (type, "type"),
    (object(), "object"),
    (dict[tuple[int, int], str], "keys"),
    (list["Missing"], "Missing"),  # type: ignore[name-defined]  # noqa: F821
]


@pytest.mark.parametrize(("form", "named"), NO_TYPES)
def test_what_has_no_json_form_is_refused(form, named):
    with pytest.raises(ConstraintError, match=named):
        shape_of(form)


def test_choices_need_texts():
    with pytest.raises(ConstraintError, match="texts to choose from"):
        choice_shape()


def test_anchors_at_the_edges_say_nothing(accepts):
    shape = regex_shape("^ab$|^c$")
    assert shape.spec is not None
    assert accepts(shape.spec, "ab")
    assert accepts(shape.spec, "c")
    assert not accepts(shape.spec, "abc")
