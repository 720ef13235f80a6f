"""Keywords said in simpler ones: the same instances are valid, by an independent validator."""

from __future__ import annotations

import itertools
import json
import re

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import ConstraintError
from agentrt.structured import json_schema_shape
from agentrt.structured.json_schema.complement import complement, other_texts
from agentrt.structured.json_schema.references import localize

OBJECTS = [
    dict(items)
    for count in range(4)
    for names in itertools.combinations(("a", "b", "c"), count)
    for items in [[(name, at) for at, name in enumerate(names)]]
] + [{"a": "x"}, {"d": 1}, 3, "a", None]
ARRAYS = [
    list(items)
    for count in range(4)
    for items in itertools.product((0, 1, 2, True, "a"), repeat=count)
] + [{}, 1]
SCALARS = ["", "a", "ab", "b", "aba", -1, 0, 1, 2, 2.5, 3, 4, True, False, None, {}, []]
A_STRING = {"type": "string"}
A_BOOLEAN = {"type": "boolean"}
SMALL = {"$anchor": "here", "type": "integer", "maximum": 1}
A_TO_C = {name: {"type": "integer"} for name in "abc"}


def closed(*names):
    fields = {name: {"type": "integer"} for name in names}
    return {"type": "object", "properties": fields, "additionalProperties": False}


ROWS = [
    ({"properties": A_TO_C, "dependentRequired": {"a": ["b"]}}, OBJECTS),
    ({"properties": A_TO_C, "dependentRequired": {"a": ["b"], "b": ["c"]}}, OBJECTS),
    (
        {"properties": A_TO_C, "required": ["a"], "dependentRequired": {"a": ["c"]}},
        OBJECTS,
    ),
    (
        {
            "type": "object",
            "properties": A_TO_C,
            "additionalProperties": False,
            "dependentRequired": {"b": ["c"]},
        },
        OBJECTS,
    ),
    ({"properties": A_TO_C, "unevaluatedProperties": False}, OBJECTS),
    ({"prefixItems": [{"type": "integer"}], "unevaluatedItems": False}, ARRAYS),
    ({"type": "array", "items": {"enum": [0, 1, "a"]}, "uniqueItems": True}, ARRAYS),
    (
        {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 2},
            "uniqueItems": True,
            "minItems": 1,
            "maxItems": 2,
        },
        ARRAYS,
    ),
    ({"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}, ARRAYS),
    ({"propertyNames": {"enum": ["a", "b"]}}, OBJECTS),
    ({"propertyNames": {"pattern": "^[ab]$"}, "type": "object"}, OBJECTS),
    ({"propertyNames": False}, OBJECTS),
    ({"patternProperties": {"a.*": True, ".*b": False}}, OBJECTS),
    ({"uniqueItems": True, "prefixItems": [A_BOOLEAN, A_BOOLEAN], "items": False}, ARRAYS),
    ({"contains": True, "maxContains": 2, "type": "array"}, ARRAYS),
    ({"contains": {"const": 1}, "minContains": 0}, ARRAYS),
    ({"type": ["object", "string"], "not": {"required": ["a"]}}, OBJECTS),
    ({"not": {"type": ["object", "null"]}}, OBJECTS),
    ({"enum": ["a", "b", 1], "not": {"enum": ["a", 1]}}, [*SCALARS]),
    ({"type": "string", "not": {"enum": ["a", "ab", ""]}}, [*SCALARS]),
    ({"not": {"const": 1}}, SCALARS),
    ({"not": {"enum": [False, None, 3]}}, SCALARS),
    ({"not": {"anyOf": [{"minimum": 3}, {"type": "string"}]}}, SCALARS),
    ({"not": {"allOf": [{"type": "number"}, {"maximum": 2}]}}, SCALARS),
    ({"not": {"minLength": 2}}, SCALARS),
    ({"not": {"prefixItems": [{"const": 1}, {"const": 2}]}}, ARRAYS),
    ({"not": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "string"}}}, SCALARS),
    ({"if": {"exclusiveMaximum": 0}, "then": {"minimum": -10}}, [*SCALARS, -11, -10]),
    ({"if": {"exclusiveMaximum": 0}, "else": {"multipleOf": 2}}, SCALARS),
    (
        {
            "if": {"properties": {"a": {"const": 0}}, "required": ["a"]},
            "then": {"required": ["b"]},
            "else": {"required": ["c"]},
        },
        OBJECTS,
    ),
    ({"dependentSchemas": {"a": {"required": ["b"], "maxProperties": 2}}}, OBJECTS),
    ({"dependentRequired": {"a": ["b"]}, "anyOf": [{"required": ["c"]}, A_STRING]}, OBJECTS),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, OBJECTS),
    ({"oneOf": [{"type": "number"}, {"minimum": 2}]}, SCALARS),
    (
        {
            "properties": {"a": {"type": "integer"}},
            "anyOf": [{"properties": {"b": {"const": 1}}}, {"properties": {"c": {"const": 2}}}],
            "unevaluatedProperties": False,
        },
        OBJECTS,
    ),
    (
        {
            "$ref": "#/$defs/x",
            "properties": {"a": True},
            "unevaluatedProperties": {"type": "string"},
            "$defs": {"x": {"patternProperties": {"^b": {"type": "integer"}}}},
        },
        [*OBJECTS, {"d": "x"}],
    ),
    (
        {
            "if": {"properties": {"a": {"const": 0}}, "required": ["a"]},
            "then": {"properties": {"b": True}},
            "else": {"properties": {"c": True}},
            "unevaluatedProperties": False,
        },
        OBJECTS,
    ),
    (
        {
            "dependentSchemas": {"a": {"properties": {"b": True}}},
            "properties": {"a": True},
            "unevaluatedProperties": False,
        },
        OBJECTS,
    ),
    (
        {
            "oneOf": [{"properties": {"a": True}, "required": ["a"]}, {"required": ["b"]}],
            "unevaluatedProperties": False,
        },
        OBJECTS,
    ),
    (
        {
            "prefixItems": [True],
            "anyOf": [{"prefixItems": [True, {"const": 1}]}, {"prefixItems": [{"const": 0}]}],
            "unevaluatedItems": False,
        },
        ARRAYS,
    ),
    (
        {"allOf": [{"prefixItems": [True]}], "unevaluatedItems": {"type": "boolean"}},
        ARRAYS,
    ),
    (
        {
            "$id": "http://x.example/root",
            "items": {"$ref": "few"},
            "$defs": {"y": {"$id": "few", "$ref": "#here", "$defs": {"z": SMALL}}},
        },
        ARRAYS,
    ),
    ({"properties": {"a": A_BOOLEAN, "b": {"$ref": "#/properties/a"}}}, OBJECTS),
    ({"contains": {"const": 1}, "maxItems": 3}, ARRAYS),
    (
        {
            "type": "array",
            "items": {"enum": [0, 1, 2, "a"]},
            "contains": {"enum": [1, "a"]},
            "maxItems": 2,
        },
        ARRAYS,
    ),
    ({"contains": {"type": "integer", "minimum": 2}, "minItems": 2, "maxItems": 3}, ARRAYS),
    ({"type": "string", "not": {"pattern": "b"}}, SCALARS),
    ({"pattern": "^a", "not": {"pattern": "b$"}}, SCALARS),
    ({"if": {"pattern": "^a"}, "then": {"pattern": "b$"}, "else": {"minLength": 1}}, SCALARS),
    ({"oneOf": [{"pattern": "^a"}, {"pattern": "b$"}], "type": "string"}, SCALARS),
    ({"oneOf": [{"enum": ["a", 1]}, {"type": "string", "pattern": "^b"}, A_BOOLEAN]}, SCALARS),
    ({"oneOf": [closed("a"), closed("b")]}, OBJECTS),
    ({"oneOf": [closed("a", "c"), closed("b", "c"), {"type": "string"}]}, OBJECTS),
    ({"oneOf": [closed("a", "c"), {**closed("b", "c"), "required": ["c"]}]}, OBJECTS),
    ({"oneOf": [{"required": ["a"], "properties": {"a": A_STRING}}, {"required": ["b"]}]}, OBJECTS),
    ({"not": {"oneOf": [{"type": "string"}, {"type": "number", "minimum": 2}]}}, SCALARS),
    ({"not": {"anyOf": [{}, {"multipleOf": 2}], "type": "string", "instanceof": "x"}}, SCALARS),
    ({"propertyNames": {"minLength": 1, "not": {"const": "a"}}, "properties": A_TO_C}, OBJECTS),
    ({"propertyNames": {"anyOf": [A_STRING, {"const": "a"}]}}, OBJECTS),
    (
        {
            "type": "object",
            "propertyNames": {"enum": ["a", "b"]},
            "patternProperties": {"^[bc]": {"const": 1}},
            "additionalProperties": {"const": 0},
        },
        OBJECTS,
    ),
    (
        {
            "patternProperties": {"^[ab]": {"type": "integer"}, "[bc]$": {"minimum": 1}},
            "additionalProperties": False,
        },
        OBJECTS,
    ),
    ({**closed(*"abc"), "minProperties": 1}, OBJECTS),
    ({**closed(*"abc"), "maxProperties": 1}, OBJECTS),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"const": 0}},
            "minProperties": 1,
            "maxProperties": 1,
        },
        OBJECTS,
    ),
    ({"prefixItems": [True, True], "items": False, "contains": A_STRING}, ARRAYS),
    (
        {
            "type": ["object", "null"],
            "required": ["a"],
            "oneOf": [
                {"properties": {"a": {"const": 0}, "b": {"multipleOf": 2}}},
                {"properties": {"a": A_STRING}},
            ],
        },
        OBJECTS,
    ),
    (
        {
            "properties": {"a": {"multipleOf": 1}},
            "allOf": [
                {
                    "oneOf": [
                        {"properties": {"a": {"$ref": "#/$defs/whole"}}, "required": ["a"]},
                        {"required": ["b"]},
                    ]
                }
            ],
            "$defs": {"whole": {"multipleOf": 1}},
        },
        OBJECTS,
    ),
    ({"oneOf": [closed(name, "b") for name in "acdefgh"]}, OBJECTS),
    (
        {
            "oneOf": [
                {"properties": {"a": {"multipleOf": 2}}, "required": ["a"]},
                {"type": "object", "not": {"required": ["a"]}, "maxProperties": 1},
            ]
        },
        OBJECTS,
    ),
    ({"type": "object", "propertyNames": {"minLength": 1, "maxLength": 900}}, OBJECTS),
    ({"if": {"contains": {"const": 1}}, "then": {"minItems": 2, "maxItems": 2}}, ARRAYS),
    ({"not": {"contains": {"type": "string"}}, "type": "array"}, ARRAYS),
    ({"contains": {"const": 1}}, ARRAYS),
    ({"contains": {"enum": [1, "a"]}, "minContains": 2, "type": "array"}, ARRAYS),
    ({"contains": {"const": 1}, "maxContains": 1}, ARRAYS),
    ({"contains": {"enum": [1, 2]}, "minContains": 0, "maxContains": 1}, ARRAYS),
    ({"items": {"type": ["integer", "string"]}, "contains": {"minimum": 1}}, ARRAYS),
    ({"allOf": [{"contains": {"const": 1}}, {"items": {"type": "integer"}}]}, ARRAYS),
    ({"uniqueItems": True, "contains": {"const": 1}, "type": "array"}, ARRAYS),
    ({"not": {"items": {"type": "number"}}, "type": "array"}, ARRAYS),
    (
        {
            "oneOf": [{"type": "array", "items": {"type": kind}} for kind in ("number", "string")],
            "minItems": 1,
        },
        ARRAYS,
    ),
]


@pytest.mark.parametrize(("schema", "instances"), ROWS)
def test_the_same_instances_are_valid(accepts, schema, instances):
    shape = json_schema_shape(schema)
    spec = shape.spec
    judge = jsonschema.Draft202012Validator(schema)
    for instance in instances:
        taken = any(accepts(spec, written) for written in in_any_order(instance))
        assert taken == judge.is_valid(instance), instance
        if taken:
            assert shape.parse(json.dumps(instance)) == instance


def in_any_order(instance):
    """Its texts: the grammar fixes the order of keys, the schema does not."""
    if not isinstance(instance, dict):
        return [json.dumps(instance, separators=(",", ":"))]
    orders = itertools.permutations(instance.items())
    return [json.dumps(dict(order), separators=(",", ":")) for order in orders]


def permuted(count, most):
    return [
        list(p) for length in range(most + 1) for p in itertools.permutations(range(count), length)
    ]


@pytest.mark.parametrize(("fewest", "most"), [(0, 10), (2, 3), (1, 1)])
def test_many_arrays_of_distinct_items(accepts, fewest, most):
    schema = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": 9},
        "uniqueItems": True,
        "minItems": fewest,
        "maxItems": most,
    }
    spec = json_schema_shape(schema).spec
    judge = jsonschema.Draft202012Validator(schema)
    whole = list(range(10))
    for instance in [*permuted(3, 3), whole, whole[::-1], [*whole, 0], [*whole[:-1], 0], [1, 1]]:
        written = json.dumps(instance, separators=(",", ":"))
        assert accepts(spec, written) == judge.is_valid(instance), written


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": f"^{'(a|b)' * 300}$"},
        {"multipleOf": 2},
        {"items": {"multipleOf": 2}},
        {"prefixItems": [True], "items": {"type": "string"}},
        {"type": "integer"},
        {"const": {}},
        {"$ref": "#"},
        {"properties": {"a": {"multipleOf": 2}}},
    ],
)
def test_what_has_no_exact_complement_gets_none(schema):
    assert complement(schema, schema) is None


@given(
    st.lists(st.text(alphabet="ab.\\]", max_size=3), max_size=4),
    st.text(alphabet="abc.\\]\n", max_size=4),
)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_other_texts_are_all_but_these(excluded, text):
    pattern = other_texts(excluded).replace("\\x{", "\\u{")
    python = re.sub(r"\\u\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), pattern)
    assert bool(re.fullmatch(python, text)) == (text not in excluded)


def test_a_schema_with_plain_references_is_left_alone():
    schema = {"$defs": {"x": A_STRING}, "items": {"$ref": "#/$defs/x"}}
    assert localize(schema) is schema


def test_a_reference_out_of_the_schema_is_refused_by_name():
    with pytest.raises(ConstraintError, match=r"other\.json"):
        json_schema_shape({"$id": "http://x.example/", "items": {"$ref": "other.json"}})


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        (
            "uri-reference",
            [
                "",
                "a/b",
                "/x?y#z",
                "//a.b/c",
                "http://a:80/",
                "mailto:x@y",
                "//087.1.0.1/",
                "//u:p@h:1",
            ],
            ["a b", "é", "//a@b@c", "//[a", "%4"],
        ),
        ("iri-reference", ["é/ü", "/ä?x", "//ö.å/∂#π"], ["a b", "<"]),
        ("uri-template", ["http://x/{id}{?q,r*}", "a", "{%41}", "a😀b"], ["{", "}", "{a b}"]),
        ("regex", ["a+b?", "^x$", "a|b", r"\\d."], ["(", "a**", "["]),
        ("idn-hostname", ["a.example"], ["-a", "a b"]),
    ],
)
def test_formats_are_enforced(accepts, name, valid, invalid):
    spec = json_schema_shape({"type": "string", "format": name}).spec
    for text in valid:
        assert accepts(spec, json.dumps(text, ensure_ascii=False)), text
    for text in invalid:
        assert not accepts(spec, json.dumps(text, ensure_ascii=False)), text
