"""Older drafts are read as their authors meant them."""

from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from agentrt.base.errors import ConstraintError
from agentrt.structured import checked_schema_shape, json_schema_shape
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


NEW = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(("draft", "is_held"), [(None, True), (URI.format(7), True), (NEW, False)])
def test_a_format_holds_unless_the_draft_calls_it_an_annotation(accepts, draft, is_held):
    named = {} if draft is None else {"$schema": draft}
    schema = {**named, "type": "string", "format": "ipv4"}
    shape, checked = json_schema_shape(schema), checked_schema_shape(schema)
    assert accepts(shape.spec, '"1.2.3.4"')
    assert accepts(shape.spec, '"none"') != is_held
    if is_held:
        with pytest.raises(ValueError, match="ipv4"):
            checked.parse('"none"')
    else:
        assert checked.parse('"none"') == "none"


def test_a_reference_to_a_name_below_the_definitions(accepts):
    schema = {
        "$ref": "#/definitions/group/small",
        "definitions": {"group": {"small": {"enum": [1], "default": 1}}},
    }
    spec = json_schema_shape(schema).spec
    assert accepts(spec, "1")
    assert not accepts(spec, "2")


def test_definitions_of_a_draft_without_them_may_be_anything():
    schema = {"$schema": URI.format(7), "$defs": {"note": "a text"}, "type": "null"}
    assert json_schema_shape(schema).spec is not None
    with pytest.raises(ConstraintError, match="note"):
        json_schema_shape({"$defs": {"note": "a text"}})
