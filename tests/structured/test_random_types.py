"""Random types: values are written and read back equal, spoiled texts are not let through."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import json
import uuid
from types import GenericAlias
from typing import Annotated, Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, HttpUrl, TypeAdapter, create_model
from typing_extensions import TypedDict

from agentrt.structured import json_shape_of, shape_of


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Tree(BaseModel):
    value: int
    kids: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"] = Field(alias="kind")
    name: str = Field(alias="theName", max_length=4)


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


def leaf(form, values):
    return st.just((form, values))


# DEL is written as \u007f by the grammar, and as itself by pydantic.
text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=5
)
floats = st.integers(-(10**6), 10**6).map(lambda n: n / 64)

trees = st.recursive(
    st.integers(-9, 9).map(lambda n: Tree(value=n)),
    lambda inner: st.lists(inner, max_size=2).map(lambda kids: Tree(value=1, kids=kids)),
    max_leaves=4,
)
pets = st.one_of(
    st.integers(1, 9).map(lambda n: Cat(kind="cat", lives=n)),
    text.map(lambda t: Dog(kind="dog", theName=t[:4])),
)

leaves = st.one_of(
    leaf(int, st.integers(-(10**17), 10**17)),
    leaf(bool, st.booleans()),
    leaf(float, floats),
    leaf(str, text),
    leaf(type(None), st.none()),
    leaf(Literal["a", 'b"c', 3], st.sampled_from(["a", 'b"c', 3])),
    leaf(Side, st.sampled_from(Side)),
    leaf(dt.date, st.dates()),
    leaf(dt.timedelta, st.timedeltas(dt.timedelta(0), dt.timedelta(days=900))),
    leaf(dt.time, st.times()),
    leaf(dt.datetime, st.datetimes(timezones=st.none() | st.just(dt.UTC))),
    leaf(uuid.UUID, st.uuids()),
    leaf(ipaddress.IPv4Address, st.ip_addresses(v=4)),
    leaf(
        HttpUrl, st.sampled_from(["https://a.example/", "http://b.example:8080/x?y=1"]).map(HttpUrl)
    ),
    leaf(decimal.Decimal, st.decimals(-1000, 1000, places=2)),
    leaf(
        Annotated[int, Field(ge=-6, lt=30, multiple_of=3)], st.integers(-2, 9).map(lambda n: 3 * n)
    ),
    leaf(Annotated[float, Field(gt=0, le=1)], st.integers(1, 64).map(lambda n: n / 64)),
    leaf(Annotated[str, Field(min_length=1, max_length=3)], text.filter(bool).map(lambda t: t[:3])),
    leaf(
        Annotated[str, Field(pattern="^[a-c]{2,4}$")], st.from_regex("[a-c]{2,4}", fullmatch=True)
    ),
    leaf(Tree, trees),
    leaf(Pet, pets),
)


def of(kind, *arguments):
    return GenericAlias(kind, arguments)


def compound(inner):
    return st.one_of(
        inner.map(lambda t: (of(list, t[0]), st.lists(t[1], max_size=3))),
        inner.map(lambda t: (t[0] | None, st.none() | t[1])),
        inner.map(lambda t: (of(dict, str, t[0]), st.dictionaries(text, t[1], max_size=2))),
        st.tuples(inner, inner).map(
            lambda ts: (of(tuple, ts[0][0], ts[1][0]), st.tuples(ts[0][1], ts[1][1]))
        ),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=4).map(model),
        inner.map(lambda t: (few(of(list, t[0])), st.lists(t[1], min_size=1, max_size=2))),
        inner.map(
            lambda t: (
                few(of(dict, str, t[0])),
                st.dictionaries(text, t[1], min_size=1, max_size=2),
            )
        ),
        inner.map(lambda t: (of(tuple, t[0], ...), st.lists(t[1], max_size=2).map(tuple))),
        st.tuples(inner, inner).map(typed_dict),
        st.tuples(inner, inner).map(dataclass),
    )


def few(form):
    return Annotated[form, Field(min_length=1, max_length=2)]


def typed_dict(parts):
    (one, ones), (other, others) = parts
    told: Any = TypedDict
    made = told("Told", {"one": one, "other": other})
    return made, st.tuples(ones, others).map(lambda pair: {"one": pair[0], "other": pair[1]})


def dataclass(parts):
    (one, ones), (other, others) = parts
    fields: Any = [("one", one), ("other", other | None, dataclasses.field(default=None))]
    made = dataclasses.make_dataclass("Record", fields)
    return made, st.builds(made, one=ones, other=st.none() | others)


def dumped(form, value):
    """As pydantic writes it, compactly, by alias."""
    return TypeAdapter(form).dump_json(value, by_alias=True).decode()


make: Any = create_model


def model(fields):
    """A model whose fields are required or have a default, and its values."""
    made = make(
        "Made",
        **{
            f"f{at}": (form | None, Field(default=None)) if optional else (form, ...)
            for at, ((form, _), optional) in enumerate(fields)
        },
    )
    values = [st.none() | inner if optional else inner for (_, inner), optional in fields]
    built = st.tuples(*values).map(
        lambda found: made(**{f"f{at}": value for at, value in enumerate(found)})
    )
    return made, built


types = st.recursive(leaves, compound, max_leaves=5)
quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=quiet)
@given(st.data())
def test_values_are_written_and_read_back(accepts, data):
    """What pydantic writes compactly, the grammar takes, and the type reads back equal."""
    form, values = data.draw(types)
    shape = json_shape_of(form)
    value = data.draw(values)
    written = dumped(form, value)
    assert shape.spec is not None
    assert accepts(shape.spec, written), (shape.spec.source, written)
    assert dumped(form, shape.parse(written)) == written


@settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=quiet)
@given(st.data())
def test_spoiled_texts_are_refused_or_still_of_the_type(accepts, data):
    """Cut, doubled or exchanged characters: what the grammar takes, the type reads."""
    form, values = data.draw(types)
    shape = shape_of(form)
    if shape.spec is None or shape.spec.kind != "json":
        return
    written = dumped(form, data.draw(values))
    at = data.draw(st.integers(0, len(written) - 1))
    spoiled = data.draw(
        st.sampled_from(
            [
                written[:at] + written[at + 1 :],
                written[:at] + written[at] + written[at:],
                written[:at] + data.draw(st.sampled_from('0x",:{}[]tn-')) + written[at + 1 :],
                written[:at],
            ]
        )
    )
    if accepts(shape.spec, spoiled):
        shape.parse(spoiled)


@settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=quiet)
@given(st.data())
def test_exchanged_parts_are_refused_or_still_of_the_type(accepts, data):
    """Another value, one more or one fewer somewhere inside: accepted is only what parses."""
    form, values = data.draw(types)
    shape = json_shape_of(form)
    value = json.loads(dumped(form, data.draw(values)))
    other = data.draw(st.sampled_from([None, True, 0, -7, 31, 2.5, "", "abcde", [], [1, 1, 1], {}]))
    changed = exchanged(value, other, data.draw(st.integers(0, 9)), data.draw(st.booleans()))
    text = json.dumps(changed, ensure_ascii=False, separators=(",", ":"))
    assert shape.spec is not None
    if accepts(shape.spec, text):
        shape.parse(text)


def exchanged(value, other, turns, drops):
    """`value` with one part, found by going down `turns`, dropped or replaced by `other`."""
    if not isinstance(value, dict | list) or not value:
        return other
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[turns % len(keys)]
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if turns < 2 and drops:
        del copy[key]
    elif turns < 2:
        copy["more" if isinstance(value, dict) else key] = other
    else:
        copy[key] = exchanged(value[key], other, turns // 2, drops)
    return copy
