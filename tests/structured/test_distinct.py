"""Arrays of distinct items: no mask lets an item be written twice, and every walk ends."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import SEPARATORS
from agentrt.structured import Budgeted, bitmask_words, json_schema_shape
from agentrt.structured.distinct_state import DistinctConstraint
from agentrt.structured.json_schema.distinct import DistinctPlaces
from agentrt.structured.json_schema.distinct_text import (
    DocumentPosition,
    WrittenItems,
    follow,
)
from agentrt.structured.json_schema.distinct_values import (
    after_byte,
    is_complete,
    next_bytes,
    ways_to,
)
from agentrt.structured.json_schema.value_key import key_of
from agentrt.structured.matcher import allowed_ids
from tests.structured.schema_table import passes

TEXT = {"type": "string"}
POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"enum": [0, 1]}, "y": {"type": "boolean"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}

TNIOP = {**POINT, "properties": {name: POINT["properties"][name] for name in ("y", "x")}}


OPEN = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "patternProperties": {"^x-": {}},
    "additionalProperties": False,
}

CLOSED: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "additionalProperties": False,
}


def array_of(items, **more):
    return {"type": "array", "items": items, "uniqueItems": True, **more}


WALKED = [
    array_of(TEXT, maxItems=6),
    array_of({"type": "string", "pattern": "^[ab]{0,2}$"}),
    array_of({"enum": [f"word{n}" for n in range(30)]}),
    array_of({"type": ["integer", "null", "boolean"], "minimum": -12, "maximum": 12}),
    array_of(POINT),
    array_of(array_of({"type": "string", "pattern": "^a?$"})),
    array_of({"anyOf": [{"enum": ["a", "ab"]}, {"type": "integer", "minimum": 0, "maximum": 2}]}),
    array_of({"enum": [*"abcdefghijkl"]}, minItems=9),
    array_of({"enum": [{"symbol": f"S{at}", "value": at / 2 - 1.5} for at in range(6)]}),
    array_of({"enum": [[at, f"x{at % 3}"] for at in range(9)]}, minItems=9),
    {
        "type": "object",
        "properties": {"names": array_of({"type": "string", "maxLength": 1}), "n": TEXT},
        "required": ["names", "n"],
    },
    {
        "$defs": {"tags": array_of({"type": "string", "pattern": "^(on|off)$"}, minItems=1)},
        "type": "object",
        "additionalProperties": {"anyOf": [{"$ref": "#/$defs/tags"}, {"type": "null"}]},
        "maxProperties": 2,
    },
    array_of(array_of({"enum": [0, 1.5]})),
    array_of({"enum": [0, 1e-07, *(at / 2 - 1.75 for at in range(8))]}, minItems=9),
    array_of({"type": "number"}),
    array_of({"type": ["string", "number", "boolean"]}),
    array_of(OPEN),
]


def written(constraint, vocab, dice, most=300):
    """A text by tokens drawn evenly from the masks; None if it is too long."""
    state, row, text = constraint.start(), np.zeros(bitmask_words(vocab.logits_size), np.int32), b""
    for _ in range(most):
        state.fill_bitmask(row)
        allowed = [token for token in allowed_ids(row) if token not in vocab.eos_ids]
        if state.can_stop() and (not allowed or dice.random() < 0.2):
            return text.decode()
        assert allowed, text
        ends = [t for t in allowed if b'"' in vocab.token_bytes[t] or b"," in vocab.token_bytes[t]]
        token = dice.choice(ends if ends and dice.random() < 0.6 else allowed)
        assert state.advance([token]) == 1
        text += vocab.token_bytes[token]
    return None


@pytest.mark.parametrize("schema", WALKED, ids=lambda schema: json.dumps(schema)[:60])
def test_every_walk_ends_with_distinct_items(schema, compiled, vocab):
    constraint = compiled(json_schema_shape(schema).spec)
    assert isinstance(constraint, DistinctConstraint)
    judge, dice, seen = jsonschema.Draft202012Validator(schema), random.Random(0), set()
    for _ in range(12):
        text = written(constraint, vocab, dice)
        if text is not None:
            seen.add(text)
            assert judge.is_valid(json.loads(text)), text
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("items", "values"),
    [
        (TEXT, ["", "a", "ab", 'a"', "a\n"]),
        ({"type": "integer"}, [0, 1, 12, -1]),
        ({"enum": ["a", "ab", None, 1.5]}, ["a", "ab", None, 1.5]),
        (POINT, [{"x": 0, "y": True}, {"x": 0, "y": False}, {"x": 1, "y": True}]),
        ({"type": "array", "items": TEXT}, [[], ["a"], ["a", "a"]]),
    ],
)
def test_the_same_arrays_are_valid(items, values, accepts):
    spec = json_schema_shape(array_of(items)).spec
    for count in range(4):
        for array in itertools.product(values, repeat=count):
            text = json.dumps(array, separators=(",", ":"))
            distinct = len({json.dumps(item) for item in array}) == count
            assert accepts(spec, text) == distinct, text


NUMBERS = ["0", "-0", "0.0", "1", "1.0", "1e0", "1E+0", "-1", "12", "1.2e1", "0.5", "9" * 20]
RECORDS = [
    *('{"a":1,"x-b":"y"}', '{"x-b":"y","a":1}', '{"x-b":"y","a":1.0}', '{"a":1}', '{"a":0}', "{}"),
    *('{"x-b":[1,{"c":null}]}', '{"x-b":[1.0,{"c":null}]}', '{"x-b":[1,{"c":"\\n\\""}]}'),
]


@pytest.mark.parametrize(
    ("items", "texts"),
    [
        ({"type": "number"}, NUMBERS),
        ({"type": ["number", "string"]}, ["1", "1.0", '"1"', '"1.0"', '""']),
        ({**OPEN, "additionalProperties": True}, RECORDS),
        (True, ["1", "true", "null", "[]", "{}", "1.0", "[true]", "[1]", "[1.00]"]),
    ],
)
@pytest.mark.parametrize("style", ["compact", "spaced"])
def test_equal_items_with_different_texts_are_told_apart(items, texts, style, compiled, vocab):
    comma, colon = SEPARATORS[style]
    spec = json_schema_shape(array_of(items)).spec
    assert spec is not None
    constraint = compiled(replace(spec, style=style))
    judge = jsonschema.Draft202012Validator(array_of(items))
    in_style = [text.replace(",", comma).replace(":", colon) for text in texts]
    alone = [text for text in in_style if passes(constraint, vocab, f"[{text}]")]
    assert len(alone) >= len(texts) - 2
    for pair in itertools.product(alone, repeat=2):
        text = f"[{comma.join(pair)}]"
        assert passes(constraint, vocab, text) == judge.is_valid(json.loads(text)), text


def test_decimals_that_are_read_as_one_float_are_not_handed_on(accepts):
    shape = json_schema_shape(array_of({"type": "number"}))
    for text in ("[0.1,0.10000000000000000001]", "[0,1e-400]"):
        assert accepts(shape.spec, text)
        with pytest.raises(ValueError, match="non-unique"):
            shape.parse(text)


def test_items_that_are_nested_too_deeply_equal_no_item(accepts):
    """They have no key; the value is compared when it is finished."""
    shape = json_schema_shape(array_of(True))
    deep = "[" * 900 + "]" * 900
    assert accepts(shape.spec, f"[{deep},2,1]")
    assert not accepts(shape.spec, f"[{deep},2,2]")


NUMERIC = st.sampled_from([0, 1, 10, 120, 1.5, -0.25, 1e22, 3e-7])
NAMED = st.dictionaries(st.sampled_from(["", "a", "ab", 'b"']), NUMERIC, max_size=3)
SMALL = st.one_of(st.none(), st.booleans(), NUMERIC, NAMED)


@given(value=st.lists(st.one_of(SMALL, st.lists(SMALL, max_size=2)), max_size=3))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_each_text_of_a_value_leads_to_it_byte_by_byte(value):
    key = key_of(json.dumps(value).encode())
    assert key is not None
    for text in (json.dumps(value), json.dumps(_turned(value), separators=(",", ":"))):
        assert key_of(text.encode()) == key
        ways = ways_to(key, b"")
        for byte in text.encode():
            assert byte in next_bytes(ways)
            ways = after_byte(ways, byte)
        assert is_complete(ways)


def _turned(value):
    """An equal value with another text."""
    match value:
        case dict():
            return {name: _turned(value[name]) for name in reversed(value)}
        case list():
            return list(map(_turned, value))
        case int() if not isinstance(value, bool):
            return float(value)
        case _:
            return value


@pytest.mark.parametrize(
    ("value", "begun"),
    [
        *((b"12", text) for text in (b"13", b"-1", b"1.3", b"12e1", b"120e0", b"1.2e-", b"1.2e2")),
        *((b"0", text) for text in (b"1", b"0.01")),
        (b'{"a":1}', b'{"a":2'),
        (b'{"a":1}', b'{"a":1,'),
        (b'{"a":1}', b'{"b'),
        (b"[1,2]", b"[1]"),
        (b"[1,2]", b"[2"),
        (b'"a"', b'"ab'),
        (b"true", b"1"),
    ],
)
def test_other_texts_do_not_lead_to_a_value(value, begun):
    key = key_of(value)
    assert key is not None
    assert not ways_to(key, begun)


def test_one_item_has_one_text(accepts):
    texts = json_schema_shape(array_of(TEXT)).spec
    assert accepts(texts, r'["\n"]')
    assert not accepts(texts, r'["\u000a"]')
    numbers = json_schema_shape(array_of({"type": "integer"})).spec
    assert accepts(numbers, "[0,-10]")
    assert not accepts(numbers, "[0,-0]")
    assert not accepts(numbers, "[-0]")
    fields = json_schema_shape(array_of({**CLOSED, "properties": {"a": {"type": "integer"}}})).spec
    assert accepts(fields, '[{"a":0},{"a":-1}]')
    assert not accepts(fields, '[{"a":-0}]')


@pytest.mark.parametrize("more", [{"type": "integer"}, {"enum": [0, 1.5]}, array_of(TEXT)])
def test_a_listed_fraction_may_begin_with_minus_zero(more, accepts, compiled, vocab):
    spec = json_schema_shape(array_of({"anyOf": [{"enum": [-0.5, 1e-07, -0.25]}, more]})).spec
    assert accepts(spec, "[-0.5,1e-07,-0.25]")
    assert not accepts(spec, "[-0.5,-0.5]")
    assert not accepts(spec, "[-0,-0.5]")
    dice = random.Random(0)
    texts = [written(compiled(spec), vocab, dice) for _ in range(20)]
    assert any(text is not None and "-0." in text for text in texts)


def test_items_of_different_arrays_may_be_equal(accepts):
    spec = json_schema_shape(array_of({"type": "array", "items": TEXT})).spec
    assert accepts(spec, '[["a","a"],["a"]]')
    assert not accepts(spec, '[["a","a"],["a","a"]]')
    named = json_schema_shape({"properties": {"a": array_of(TEXT), "b": {"type": "array"}}}).spec
    assert accepts(named, '{"a":["x"],"b":["x","x"]}')
    assert not accepts(named, '{"a":["x","x"]}')


@pytest.mark.parametrize(
    "schema",
    [
        array_of({"enum": [*"abcdefghijkl"]}, minItems=13),
        array_of({"enum": [1, 2, 3], "minimum": 3}, minItems=2),
        array_of({"allOf": [{"enum": ["a", "ba"]}, {"pattern": "^a"}]}, minItems=2),
        array_of({"anyOf": [POINT, TNIOP]}),
        array_of({"type": "number", "maximum": 9}),
        array_of({"type": "number", "minimum": 3}, minItems=2),
        array_of({"enum": [{"a": 1}, {"a": 1.0}]}),
        array_of({"enum": [[0.0], [-0.0]]}),
        array_of({"anyOf": [{"enum": [{"a": 1}]}, {"enum": [{"a": 1.0}]}]}),
        array_of({"anyOf": [{"enum": [{"y": True, "x": 0}]}, POINT]}),
    ],
)
def test_what_is_not_told_apart_is_refused(schema):
    with pytest.raises(ConstraintError, match="uniqueItems") as refused:
        json_schema_shape({"items": schema, "type": "array", "maxItems": 40})
    assert "check=True" in refused.value.hint


def test_a_state_goes_back_and_forks(compiled, vocab):
    state = compiled(json_schema_shape(array_of({"enum": [*"abcdefghijkl"]})).spec).start()
    spelled = {text: token for token, text in enumerate(vocab.token_bytes) if text}
    tokens = [spelled[bytes([byte])] for byte in b'["a","b"]']
    assert state.advance(tokens) == len(tokens)
    state.rollback(3)
    fork = state.fork()
    for here in (state, fork):
        assert here.advance([spelled[b"a"]]) == 0
        assert here.advance(tokens[-3:]) == 3
        assert here.can_stop()


def test_an_output_closes_within_its_tokens(compiled, vocab):
    constraint = compiled(json_schema_shape(array_of({"enum": [*"abcdefghij"]}, minItems=5)).spec)
    assert constraint.shortest is not None
    state, dice = Budgeted.start(constraint, constraint.min_tokens + 3), random.Random(1)
    row, text = np.zeros(bitmask_words(vocab.logits_size), np.int32), b""
    while not state.can_stop():
        state.fill_bitmask(row)
        token = dice.choice(allowed_ids(row))
        if not state.advance([token]):
            token = state.fallback()
            assert state.advance([token]) == 1
        text += vocab.token_bytes[token]
    assert len(set(json.loads(text))) == len(json.loads(text)) >= 5


@pytest.mark.parametrize("schema", WALKED[:6], ids=lambda schema: json.dumps(schema)[:60])
def test_blanks_between_items_make_no_difference(schema, compiled, vocab):
    spec = json_schema_shape(schema).spec
    assert spec is not None
    constraint = compiled(replace(spec, style="spaced"))
    judge, dice = jsonschema.Draft202012Validator(schema), random.Random(0)
    texts = [written(constraint, vocab, dice) for _ in range(8)]
    assert any(text is not None and ", " in text for text in texts)
    assert all(judge.is_valid(json.loads(text)) for text in texts if text is not None)


def test_names_that_no_schema_states_are_not_kept():
    schema = {"properties": {"a": array_of(TEXT)}, "additionalProperties": array_of(POINT)}
    root = DistinctPlaces(schema).root
    assert root is not None
    free = root.field(b'"name"')
    assert root.field(b'"a"') is not free
    tracemalloc.start()
    try:
        assert all(root.field(b'"name%d"' % n) is free for n in range(2_000))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 20_000


def test_states_before_and_after_an_item_share_what_is_written():
    """A state keeps its history, so the items of each step may not be copied into the next."""
    count, kept = 1000, [WrittenItems()]
    for n in range(count):
        kept.append(kept[-1].adding(b"%d" % n))
    sets = {id(one): one for written in kept for one in written.sets}
    assert sum(map(len, sets.values())) < count * 2 * count.bit_length()
    assert all((b"%d" % n in kept[500]) == (n < 500) for n in range(count))
    assert set(kept[500].beginning_with(b"49")) == {b"49", *(b"49%d" % n for n in range(10))}


@pytest.mark.parametrize("more", [b"f}", b"1]", b"[1]]"])
def test_text_that_closes_what_is_not_open_has_no_position(more):
    """The end of an older completion is tried as it is, wherever the text has come since."""
    assert follow(DocumentPosition.at_start(None), b"", more) is None
