"""Random types: values are written and read back equal, spoiled texts are not let through."""

from __future__ import annotations

import datetime as dt
import enum
from types import GenericAlias
from typing import Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, create_model

from agentrt import canonical_json
from agentrt.constraints import json_shape_of, shape_of


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


def leaf(form, values):
    return st.just((form, values))


text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5)
floats = st.integers(-(10**6), 10**6).map(lambda n: n / 64)

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
    )


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


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=quiet)
@given(st.data())
def test_values_are_written_and_read_back(accepts, data):
    """What pydantic writes compactly, the grammar takes, and the type reads back equal."""
    form, values = data.draw(types)
    shape = json_shape_of(form)
    value = data.draw(values)
    written = canonical_json.dumps(value)
    assert shape.spec is not None
    assert accepts(shape.spec, written), (shape.spec.source, written)
    assert canonical_json.dumps(shape.parse(written)) == written


@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=quiet)
@given(st.data())
def test_spoiled_texts_are_refused_or_still_of_the_type(accepts, data):
    """Cut, doubled or exchanged characters: what the grammar takes, the type reads."""
    form, values = data.draw(types)
    shape = shape_of(form)
    if shape.spec is None or shape.spec.kind != "json":
        return
    written = canonical_json.dumps(data.draw(values))
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
