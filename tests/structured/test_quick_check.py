"""The quick check agrees with the complete validator wherever it says that a value fits."""

import json
from decimal import Decimal
from random import Random

import jsonschema
import pytest

from agentrt.structured import json_schema_shape
from agentrt.structured.json_schema.quick_check import quick_check
from tests.fuzz.constraints import plain

VALUES: list[object] = [
    *(None, True, False, 0, 1, 1.0, 2.5, -3, 40, 99, "", "x", "aa", "long", [], [1], ["x", 1]),
    *([True], [[1]], {}, {"a": 1}, {"a": "x", "b": None}, {"b": []}, {"é": 2.5}, {"0": {"a": 1}}),
]
MORE = [
    {"type": "number", "exclusiveMinimum": 0, "maximum": 40},
    {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
    {"minProperties": 1, "additionalProperties": {"type": ["integer", "null"]}},
    {"minLength": 2, "maxItems": 1},
    {"enum": [1, "x", None, False]},
    {"properties": {"a": {"$ref": "#"}}, "type": ["object", "integer"], "required": ["a"]},
]


def decimal_of(value):
    return Decimal(str(value))


def test_both_checks_agree():
    dice = Random(3)
    drawn = [
        {"$defs": {"a": plain(dice, 0), "b": {"const": 1}}, **plain(dice, 3)} for _ in range(300)
    ]
    compared = 0
    for schema in [*MORE, *drawn]:
        fits = None if '"#/$defs/a"' in json.dumps(schema) else quick_check(schema, decimal_of)
        if fits is None:
            continue
        judge = jsonschema.Draft202012Validator(
            json.loads(json.dumps(schema).replace("pattern", "x"))
        )
        for value in VALUES:
            compared += 1
            assert fits(value) == judge.is_valid(value), (schema, value)
    assert compared > 3_000


@pytest.mark.parametrize(
    "schema", [{"multipleOf": 2}, {"uniqueItems": True}, {"not": {}}, {"enum": [[]]}, {"$ref": "x"}]
)
def test_other_keywords_are_left_to_the_complete_validator(schema):
    assert quick_check(schema, decimal_of) is None


def test_what_is_written_beyond_a_bound_does_not_pass():
    """Its float is within the bound."""
    shape = json_schema_shape({"type": "number", "maximum": 0.1})
    assert shape.parse("0.1") == 0.1
    with pytest.raises(ValueError, match="greater than the maximum"):
        shape.parse("0.10000000000000000001")
    assert json_schema_shape({"const": 1}).parse("1") == 1
    with pytest.raises(ValueError, match="was expected"):
        json_schema_shape({"const": 1}).parse("true")
