"""check=True: what can be enforced is, and a whole validator has the last word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from agentrt.base.errors import ConstraintError
from agentrt.structured import (
    checked_schema_shape,
    checked_shape_of,
    json_schema_shape,
    shape_of,
)

DATA = Path(__file__).parent / "data"
DISTINCT = {"type": "array", "items": {"type": "number"}, "uniqueItems": True, "maxItems": 4}
TEXTS = {"type": "string", "pattern": "^(?=.*[0-9])[a-z0-9]{2,6}$"}


def shape_or_reason(schema):
    try:
        return checked_schema_shape(schema), ""
    except ConstraintError as refused:
        return None, refused.message


def told(instance):
    return json.dumps(instance, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize(
    ("schema", "passes", "fails"),
    [
        (TEXTS, ["a1", "22"], ["ab", "xyz"]),
        (
            {
                "type": "array",
                "items": {"type": "integer"},
                "contains": {"const": 7},
                "maxItems": 99,
            },
            [[7], [1, 7]],
            [[], [1, 2]],
        ),
        ({"type": "integer", "not": {"multipleOf": 3}}, [1, 2, 4], [3, 9]),
        (
            {"oneOf": [{"type": "integer", "minimum": 2}, {"type": "integer", "maximum": 4}]},
            [1, 5],
            [3],
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^(?!no).*$": {"type": "integer"}},
                "additionalProperties": False,
            },
            [{}, {"a": 1}],
            [{"nose": 1}],
        ),
    ],
)
def test_what_cannot_be_enforced_is_checked(accepts, schema, passes, fails):
    with pytest.raises(ConstraintError):
        json_schema_shape(schema)
    shape = checked_schema_shape(schema)
    assert shape.checked
    for instance in passes:
        assert accepts(shape.spec, told(instance))
        assert shape.parse(told(instance)) == instance
    for instance in fails:
        with pytest.raises(ValueError, match=r".+: .+"):
            shape.parse(told(instance))


def test_what_can_be_enforced_still_is(accepts):
    shape = checked_schema_shape({**DISTINCT, "minItems": 1})
    assert not accepts(shape.spec, "[]")
    assert not accepts(shape.spec, '["a"]')
    assert not accepts(shape.spec, "[1,2,3,4,5]")
    whole = {"type": "object", "properties": {"a": {"const": 1}, "b": TEXTS}, "required": ["a"]}
    shape = checked_schema_shape(whole)
    assert not accepts(shape.spec, '{"a":2}')
    assert accepts(shape.spec, '{"a":1,"b":"xy"}')


def test_every_schema_of_the_suite_is_taken_and_judged_rightly(accepts):
    """The mask allows what is valid; the check refuses what is not."""
    refused = taken = 0
    for line in (DATA / "suite_cases.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        try:
            json_schema_shape(case["schema"])
            continue
        except ConstraintError:
            pass
        shape, why = shape_or_reason(case["schema"])
        if shape is None:
            assert not (case["valid"] and "Unsatisfiable" in why), case
            refused += 1
            continue
        taken += 1
        text = told(case["instance"])
        if case["valid"]:
            assert accepts(shape.spec, text), case
            assert shape.parse(text) == case["instance"]
        else:
            with pytest.raises(ValueError, match=": "):
                shape.parse(text)
    assert taken >= 3
    assert refused <= 8  # what nothing fits, and a pattern that is none


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://example.org/elsewhere"},
        {"$ref": "#/$defs/nowhere"},
        {"type": "string", "pattern": "("},
        {"type": "wrong"},
        {"type": "integer", "allOf": [{"type": "string"}]},
        {**DISTINCT, "items": {"maximum": 9, "type": "integer"}, "contains": {"const": 77}},
        {"patternProperties": {"\\p{L}": {"type": "integer"}}, "additionalProperties": False},
        False,
    ],
)
def test_what_can_be_neither_is_refused(schema):
    with pytest.raises(ConstraintError) as raised:
        checked_schema_shape(schema)
    assert raised.value.hint


def test_a_pattern_that_only_the_grammar_reads_is_left_to_it(accepts):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^\\p{L}+$"}, "b": DISTINCT},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    shape = checked_schema_shape(schema)
    assert accepts(shape.spec, '{"a":"é","b":[1]}')
    assert not accepts(shape.spec, '{"a":"1","b":[1]}')
    assert shape.parse('{"a":"é","b":[1]}') == {"a": "é", "b": [1]}


class Even(BaseModel):
    number: int
    marks: Annotated[list[float], Field(json_schema_extra={"uniqueItems": True})] = []

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


def test_validators_of_a_type_are_part_of_the_check(accepts):
    with pytest.raises(ConstraintError):
        shape_of(Even)
    shape = checked_shape_of(Even)
    assert accepts(shape.spec, '{"number":3,"marks":[1.5,1.5]}')
    assert shape.parse('{"number":4,"marks":[1.5]}') == Even(number=4, marks=[1.5])
    with pytest.raises(ValueError, match="number: Value error, must be even"):
        shape.parse('{"number":3,"marks":[1.5]}')
    with pytest.raises(ValueError, match=r"marks: .*non-unique"):
        shape.parse('{"number":4,"marks":[1.5,1.5]}')


def test_a_type_without_validators_is_enforced_as_ever():
    assert checked_shape_of(list[int]).spec == shape_of(list[int]).spec
    assert checked_shape_of(str).spec is None


LEAVES = st.sampled_from(
    [
        {"type": "integer", "minimum": 0, "maximum": 3},
        {"type": "boolean"},
        {"enum": ["a", "b"]},
        {"type": "integer", "not": {"const": 2}},
    ]
)
SCHEMAS = st.one_of(
    LEAVES,
    st.builds(
        lambda item, held, fewest: {
            "type": "array",
            "items": item,
            "maxItems": 3,
            "contains": held,
            "minContains": fewest,
        },
        LEAVES,
        st.sampled_from([{"const": 1}, {"const": True}, {"type": "integer"}]),
        st.integers(0, 2),
    ),
    st.builds(
        lambda a, b: {"type": "object", "properties": {"x": a}, "oneOf": [b, {"required": ["x"]}]},
        LEAVES,
        st.sampled_from([{"maxProperties": 0}, {"minProperties": 1}, {"required": ["y"]}]),
    ),
)
VALUES = st.recursive(
    st.sampled_from([0, 1, 2, 3, True, False, "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner),
    max_leaves=4,
)


@settings(max_examples=120, derandomize=True, deadline=None)
@given(SCHEMAS, VALUES)
def test_masks_and_checks_agree_with_a_validator(accepts, schema, value):
    """What is valid can be written and passes; what is not valid never passes."""
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)  # the order of the schemas
    shape, why = shape_or_reason(schema)
    if shape is None:
        assert "Unsatisfiable" in why
        assert not valid
    elif valid:
        assert accepts(shape.spec, text)
        assert shape.parse(text) == value
    else:
        with pytest.raises(ValueError, match=": "):
            shape.parse(text)


def test_a_format_that_is_not_enforced_is_an_annotation(accepts):
    schema = {"type": "string", "format": "idn-email"}
    for name in ("idn-email", "html-selector", "json-pointer"):
        spec = json_schema_shape({**schema, "format": name}).spec
        assert accepts(spec, '"ab"')
    checked = checked_schema_shape(schema)
    assert checked.parse('"a@b.de"') == "a@b.de"
    with pytest.raises(ValueError, match="idn-email"):
        checked.parse('"ab"')
