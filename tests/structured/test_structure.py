"""What cannot be enforced is refused at declaration, with pointer and keyword."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from agentrt.base.errors import ConstraintError
from agentrt.structured import cfg_shape, json_schema_shape, regex_shape, shape_of
from agentrt.structured.json_schema.limits import (
    MAX_DEPTH,
    MAX_ENUM,
    MAX_GRAMMAR_BYTES,
    MAX_REPEAT,
    MAX_SCHEMA_BYTES,
)
from agentrt.structured.json_schema.normalize import for_generation, normalize

A_STRING: dict[str, object] = {"type": "string"}


def nested(levels):
    schema = A_STRING
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


ARRAYS = [{"type": "array", "items": {"type": kind}} for kind in ("string", "integer")]

REFUSED = [
    ({"not": {"items": {"multipleOf": 3}}}, "/not", "not"),
    (
        {"properties": {"a/b~": {"items": {"contains": A_STRING, "maxItems": 99}}}},
        "/properties/a~1b~0/items/contains",
        "contains",
    ),
    (
        {"anyOf": [A_STRING, {"uniqueItems": True, "items": {"type": "number", "maximum": 9}}]},
        "/anyOf/1/uniqueItems",
        "uniqueItems",
    ),
    ({"$defs": {"x": {"if": {"multipleOf": 3}, "then": {}}}}, "/$defs/x/if", "if"),
    (
        {
            "anyOf": [{"properties": {name: A_STRING}} for name in "abcdefg"],
            "unevaluatedProperties": False,
        },
        "/unevaluatedProperties",
        "unevaluatedProperties",
    ),
    ({"$ref": "#/$defs/missing"}, "/$ref", "$ref"),
    ({"properties": {"a": {"$ref": "http://x.example/y"}}}, "/properties/a/$ref", "$ref"),
    ({"properties": {"a": {"type": "strin"}}}, "/properties/a/type", "type"),
    ({"properties": {"a": {"pattern": "(?=a)"}}}, "/properties/a/pattern", "pattern"),
    (
        {"items": {"oneOf": ARRAYS}},
        "/items/oneOf",
        "oneOf",
    ),
    ({"properties": {"a": 3}}, "/properties/a", ""),
    (nested(MAX_DEPTH + 1), "/items" * (MAX_DEPTH + 1), ""),
    ({"enum": list(range(MAX_ENUM + 1))}, "/enum", "enum"),
    ({"type": "array", "maxItems": MAX_REPEAT + 1}, "/maxItems", "maxItems"),
    ({"pattern": "(a{1000}){1000}"}, "/pattern", "pattern"),
    ({"pattern": "a" * 20_000}, "/pattern", "pattern"),
    ({"pattern": "a\x00"}, "/pattern", "pattern"),
    ({"const": "x" * MAX_SCHEMA_BYTES}, "", ""),
]


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"), REFUSED, ids=[str(i) for i in range(len(REFUSED))]
)
def test_refusals_name_their_place(schema, pointer, keyword):
    with pytest.raises(ConstraintError) as caught:
        json_schema_shape(schema)
    assert caught.value.pointer == pointer
    assert caught.value.keyword == keyword
    assert caught.value.hint
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("schema", [3, "x", None, {"a": object()}, {"a": float("nan")}])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(ConstraintError):
        json_schema_shape(schema)


def test_self_referring_dict_is_refused():
    schema: dict[str, object] = {}
    schema["items"] = schema
    with pytest.raises(ConstraintError):
        json_schema_shape(schema)


@pytest.mark.parametrize(
    "pattern", ["(", "(?=a)b", r"(a)\1", "a{3", "[z-a]", "a\x00", "x^a", "(a{1000}){1000}"]
)
def test_bad_patterns_are_refused(pattern):
    with pytest.raises(ConstraintError, match="regex"):
        regex_shape(pattern)


@pytest.mark.parametrize("lark", ["", "start: missing", 'start: "a', "x: /a/", "start: /(/"])
def test_bad_grammars_are_refused(lark):
    with pytest.raises(ConstraintError, match="grammar"):
        cfg_shape(lark)


def test_long_grammars_are_refused():
    with pytest.raises(ConstraintError, match="too large"):
        cfg_shape('start: "' + "a" * MAX_GRAMMAR_BYTES + '"')


def test_a_set_that_must_hold_several_holds_them(accepts):
    """Repeats in the list would be dropped, and the set would be too small."""
    spec = shape_of(Annotated[set[str], Field(min_length=2)]).spec
    assert accepts(spec, '["a","b"]')
    assert not accepts(spec, '["a","a"]')


NORMAL = [
    ({"title": "T", "properties": {"title": {"default": 1}}}, {"properties": {"title": {}}}),
    ({"uniqueItems": False, "maxItems": 2.0}, {"maxItems": 2}),
    ({"if": {"type": "string"}}, {}),
    ({"format": "int32", "type": "integer"}, {"type": "integer"}),
    (
        {"propertyNames": {"enum": ["b", "a"]}, "additionalProperties": A_STRING},
        {"properties": {"b": A_STRING, "a": A_STRING}, "additionalProperties": False},
    ),
    (
        {"propertyNames": {"pattern": "^a"}},
        {"patternProperties": {"^a": True}, "additionalProperties": False},
    ),
    ({"dependentRequired": {"a": []}}, {}),
    (
        {"properties": {"a": A_STRING}, "unevaluatedProperties": False},
        {"properties": {"a": A_STRING}, "additionalProperties": False},
    ),
    ({"items": A_STRING, "unevaluatedItems": False}, {"items": A_STRING}),
    (
        {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 1},
        {"enum": [[1], [2], [1, 2], [2, 1]]},
    ),
    (
        {"propertyNames": {"enum": ["a", 1]}},
        {"patternProperties": {"^(?:[\\x{61}])$": True}, "additionalProperties": False},
    ),
]


@pytest.mark.parametrize(("schema", "expected"), NORMAL)
def test_normal_form_says_the_same(schema, expected):
    assert normalize(schema) == expected


def branch(kind):
    return {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}


def test_one_of_branches_with_their_own_tag_is_any_of():
    defs = {"a": branch("a"), "b": branch("b")}
    schema = {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": defs}
    assert "anyOf" in normalize(schema)
    same = {"oneOf": [branch("a"), branch("a")]}
    assert "anyOf" not in normalize(same)


NARROWED = [
    ({"type": "object", "properties": {}}, "additionalProperties", False),
    ({"type": "object", "properties": {}, "additionalProperties": True}, None, None),
    ({"type": "integer", "minimum": 10**20}, "maximum", 10**21),
    ({"type": "integer", "maximum": -(10**20)}, "minimum", -(10**21)),
    ({"type": "object"}, None, None),
    ({"allOf": [{"properties": {"a": {}}}]}, None, None),
]


@pytest.mark.parametrize(("schema", "keyword", "value"), NARROWED)
def test_types_are_narrowed_for_writing(schema, keyword, value):
    expected = schema if keyword is None else {**schema, keyword: value}
    assert for_generation(schema) == expected
