"""Older drafts are read as their authors meant them."""

from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from agentrt.base.errors import ConstraintError
from agentrt.structured import json_schema_shape
from agentrt.structured.json_schema.drafts import modernize

URI = "http://json-schema.org/draft-0{}/schema#"
CASES = [
    ({"minimum": 1, "exclusiveMinimum": True}, 4, [0, 1, 2, "a"]),
    ({"maximum": 1, "exclusiveMaximum": False}, 4, [0, 1, 2]),
    (
        {"items": [{"type": "null"}], "additionalItems": {"type": "string"}},
        7,
        [[], [None], [None, "a"], [None, 1], [1]],
    ),
    ({"items": [{"type": "null"}]}, 7, [[], [None, 1], [1]]),
    ({"items": {"type": "null"}, "additionalItems": False}, 7, [[], [None, None], [1]]),
    ({"dependencies": {"a": ["b"]}}, 7, [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}]),
    ({"dependencies": {"a": {"required": ["c"]}}}, 7, [{}, {"a": 1}, {"a": 1, "c": 1}]),
    (
        {
            "items": {"$ref": "#/definitions/x", "maximum": 1},
            "definitions": {"x": {"type": "integer"}},
        },
        7,
        [[5], ["a"]],
    ),
]


@pytest.mark.parametrize(("schema", "draft", "values"), CASES)
def test_a_rewritten_schema_allows_the_same(schema, draft, values):
    old = {"$schema": URI.format(draft), **schema}
    new = deepcopy(old)
    modernize(new)
    assert "$schema" not in new
    before = jsonschema.validators.validator_for(old)(old)
    after = jsonschema.Draft202012Validator(new)
    assert [before.is_valid(v) for v in values] == [after.is_valid(v) for v in values]
    assert json_schema_shape(old).spec is not None


def test_a_dynamic_reference_with_one_meaning_is_a_reference():
    tree: dict[str, Any] = {
        "$dynamicAnchor": "node",
        "properties": {"kid": {"$dynamicRef": "#node"}},
    }
    modernize(tree)
    assert tree["properties"]["kid"] == {"$ref": "#node"}
    two = {
        "$defs": {"a": {"$dynamicAnchor": "n"}, "b": {"$dynamicAnchor": "n"}},
        "$dynamicRef": "#n",
    }
    modernize(two)
    assert "$dynamicRef" in two


MALFORMED = [
    {"$dynamicRef": {}},
    {"dependencies": 3, "dependentRequired": 1},
    {"dependencies": {"a": ["b"]}, "dependentRequired": 1},
    {"items": [{}], "additionalItems": 3},
    {"minimum": [], "exclusiveMinimum": True},
    {"$schema": {}, "$ref": 3, "$id": []},
    {"$schema": 3},
]


@pytest.mark.parametrize("schema", MALFORMED)
def test_malformed_keywords_are_left_to_be_refused(schema):
    with pytest.raises(ConstraintError):
        json_schema_shape(schema)
