"""Keywords said in simpler ones: the same instances are valid, by an independent validator."""

from __future__ import annotations

import itertools
import json

import jsonschema
import pytest

from agentrt.constraints import json_schema_shape
from agentrt.constraints.lowering import MAX_ARRAYS
from agentrt.errors import ConstraintError

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
A_TO_C = {name: {"type": "integer"} for name in "abc"}

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
]


@pytest.mark.parametrize(("schema", "instances"), ROWS)
def test_the_same_instances_are_valid(accepts, schema, instances):
    spec = json_schema_shape(schema).spec
    judge = jsonschema.Draft202012Validator(schema)
    for instance in instances:
        written = json.dumps(instance, separators=(",", ":"))
        assert accepts(spec, written) == judge.is_valid(instance), written


def test_too_many_arrays_are_not_listed():
    schema = {"type": "array", "items": {"enum": list(range(9))}, "uniqueItems": True}
    with pytest.raises(ConstraintError, match="uniqueItems"):
        json_schema_shape(schema)
    assert MAX_ARRAYS < 9 * 8 * 7 * 6
