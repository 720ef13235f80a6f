"""Two schemas are proved to exclude each other, and never wrongly."""

import json
from random import Random

import jsonschema
import pytest

from agentrt.structured.json_schema.disjoint import exclude_each_other
from tests.fuzz.constraints import plain

TAG = {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]}
DISJOINT = [
    ({"type": "string"}, {"type": ["null", "integer"]}),
    ({"const": 1}, {"enum": [2, "1"]}),
    ({"minLength": 4, "type": "string"}, {"maxLength": 3}),
    ({"enum": ["ab", "cd"]}, {"type": "string", "pattern": "^[0-9]+$"}),
    (TAG, {"properties": {"k": {"enum": ["b", "c"]}}, "type": "object"}),
    (TAG, {"type": "object", "properties": {"x": True}, "additionalProperties": False}),
    ({"anyOf": [{"type": "null"}, TAG]}, {"type": "array"}),
    ({"allOf": [{"type": "number"}, {"$ref": "#/$defs/low"}]}, {"minimum": 5}),
    (
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        {"type": "array", "items": {"type": "null"}},
    ),
    (False, {}),
    (TAG, {"type": "object", "patternProperties": {"^k$": {"const": "b"}}}),
    (TAG, {"patternProperties": {"^x-": {}}, "additionalProperties": False, "type": "object"}),
    ({"required": ["a", "b"], "type": "object"}, {"not": {"required": ["a"]}}),
    ({"required": ["a"]}, {"not": {"required": ["a"]}}),
    (
        {"allOf": [TAG, {"properties": {"a": {"minimum": 3}}}]},
        {"not": {"type": "object", "properties": {"k": {}, "a": {"minimum": 3}}}},
    ),
]
NOT_PROVED = [
    ({"type": "integer"}, {"type": "number"}),
    ({"const": 1}, {"const": 1.0}),
    ({"minLength": 4}, {"maxLength": 3}),
    ({"pattern": "^a"}, {"pattern": "^b"}),
    (TAG, {"type": "object", "patternProperties": {"^x": {"const": "b"}}}),
    (
        TAG,
        {
            "type": "object",
            "patternProperties": {"^.{0,400}k.{400}$": {}},
            "additionalProperties": False,
        },
    ),
    ({"required": ["a"], "type": "object"}, {"not": {"required": ["a", "b"]}}),
    ({"type": "number"}, {"not": {"type": "integer"}}),
    (TAG, {"not": {"properties": {"k": {"const": "b"}}}}),
    ({"required": ["a"], "type": "object"}, {"required": ["b"], "type": "object"}),
    ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": False}),
    ({"enum": [[1]]}, {"enum": [[1.0]]}),
    (
        {"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]},
        {"not": {"properties": {"k": {"const": True}}}},
    ),
]
ROOT = {"$defs": {"low": {"type": "number", "maximum": 4}}}


@pytest.mark.parametrize(("one", "other"), DISJOINT)
def test_schemas_are_proved_disjoint(one, other):
    assert exclude_each_other([one, other], ROOT)
    assert exclude_each_other([other, one], ROOT)


@pytest.mark.parametrize(("one", "other"), NOT_PROVED)
def test_what_may_overlap_is_not_proved(one, other):
    assert not exclude_each_other([one, other], ROOT)
    assert not exclude_each_other([other, one], ROOT)


VALUES: list[object] = [
    *(None, True, 0, 1, 2.5, -3, 40, 500, "", "x", "aa", "ab", "xyy", "2024-01", [], [1]),
    *(["x"], [True, 1], {}, {"a": 1}, {"a": "x", "b": None}, {"b": []}, {"0": 2.5}, {"a": 1}),
]


def test_no_value_fits_both_of_what_is_proved():
    dice = Random(5)
    proved = 0
    for _ in range(400):
        root = {"$defs": {"a": {"type": "string"}, "b": {"type": "integer"}}}
        one, other = plain(dice, 2), plain(dice, 2)
        if '"("' in json.dumps([root, one, other]):
            continue  # no regex
        if exclude_each_other([one, other], root):
            proved += 1
            judges = [jsonschema.Draft202012Validator({**root, **half}) for half in (one, other)]
            both = [v for v in VALUES if all(judge.is_valid(v) for judge in judges)]
            assert not both, (one, other, both)
    assert proved > 100
