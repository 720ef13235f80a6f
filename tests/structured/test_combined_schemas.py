"""Keywords that meet each other keep their meaning: the masks take what an exact judge takes."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from agentrt.base.errors import ConstraintError
from agentrt.structured import json_schema_shape
from tests.structured.combined_schemas import (
    EXACT,
    are_equal,
    combined_schema,
    instances_near,
    repeats,
)
from tests.structured.schema_table import accepts

BATCHES = 8
INSTANCES = 50


def wrong_verdicts(schema: Any, values: list[Any], compiled: Any, vocab: Any) -> list[Any] | None:
    """The values of which masks and judge differ; None for a schema that is refused.

    Alternatives of which one asks for distinct items all ask for them, which refuses more.
    """
    try:
        constraint = compiled(json_schema_shape(schema).spec)
    except ConstraintError:
        return None
    is_distinct, judge = '"uniqueItems"' in json.dumps(schema), EXACT(schema)
    wrong = []
    for value in values:
        is_valid = judge.is_valid(value)
        may_be_refused = is_valid and is_distinct and repeats(value)
        if is_valid != bool(accepts(constraint, vocab, value)) and not may_be_refused:
            wrong.append(value)
    return wrong


def hold(cases: range, compiled: Any, vocab: Any) -> None:
    taken = 0
    for case in cases:
        dice = Random(f"combined {case}")
        schema = combined_schema(dice)
        values = instances_near(dice, schema, INSTANCES)
        wrong = wrong_verdicts(schema, values, compiled, vocab)
        taken += wrong is not None
        assert not wrong, f"case {case}: {json.dumps(schema)}"
    assert taken > len(cases) / 3


def test_some_combinations_keep_their_meaning(compiled, vocab):
    hold(range(60), compiled, vocab)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_many_combinations_keep_their_meaning(compiled, vocab, batch):
    hold(range(1_000 + 250 * batch, 1_250 + 250 * batch), compiled, vocab)


RECORD = {"a": 1.5, "b": []}
X_Y: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "boolean"}, "y": {"type": "null"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
Y_X = {**X_Y, "properties": dict(reversed(X_Y["properties"].items()))}
A_NUMBER = {"type": "number"}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"enum": [RECORD, [1, {}], 2]}, {"type": ["object", "array"]}]},
        {"anyOf": [{"prefixItems": [{"enum": [RECORD]}]}, {"items": A_NUMBER}]},
        {"dependentSchemas": {"a": {"enum": [RECORD, {"a": "a"}]}}},
        {"items": {"allOf": [{"const": 1}, {"const": True}]}},
        {"allOf": [{"items": {"const": 1}}, {"items": {"const": True}}]},
        {"properties": {"a": {"const": 1}}, "allOf": [{"properties": {"a": {"enum": [True]}}}]},
        {"enum": [1, 2], "not": {"enum": [1.0]}},
        {"uniqueItems": True, "type": "array", "items": {"enum": [0, False, 1, True, 1.0]}},
        {"uniqueItems": True, "type": "array", "items": {"enum": [1, 2, "a"], "const": 2}},
        {"anyOf": [{"items": False}, {"maxProperties": 0}], "exclusiveMinimum": 1},
        {"items": {"patternProperties": {"^a": {"exclusiveMinimum": 1, "maximum": 1.5}}}},
        {"items": {"patternProperties": {"^a": {"not": {"const": 2}, "multipleOf": 2}}}},
        {
            "additionalProperties": False,
            "allOf": [{"properties": {"a": False}}],
            "patternProperties": {"b$": A_NUMBER},
        },
        {"dependentRequired": {"a": ["b"]}, "patternProperties": {"b$": True}},
        {"oneOf": [{"enum": [[1], {"a": 1}]}, {"enum": [[2], [True], {"a": 2}]}]},
    ],
    ids=lambda schema: json.dumps(schema)[:60],
)
def test_what_was_taken_for_something_else(schema, compiled, vocab):
    values = instances_near(Random(0), schema, 200)
    assert wrong_verdicts(schema, values, compiled, vocab) == []


@pytest.mark.parametrize(
    "array",
    [
        {"prefixItems": [X_Y], "items": Y_X},
        {"items": {"anyOf": [{"type": "array", "items": X_Y}, {"type": "array", "items": Y_X}]}},
        {"items": {"anyOf": [{**X_Y, "properties": {"x": X_Y}, "required": []},
                             {**X_Y, "properties": {"x": Y_X}, "required": []}]}},
    ],
)  # fmt: skip
def test_orders_that_differ_by_place_do_not_tell_items_apart(array):
    with pytest.raises(ConstraintError, match="equal items may have different texts"):
        json_schema_shape({"type": "array", "uniqueItems": True, **array})


def test_places_with_one_order_tell_items_apart(accepts):
    array = {"type": "array", "uniqueItems": True, "prefixItems": [X_Y], "items": X_Y}
    spec = json_schema_shape(array).spec
    assert accepts(spec, '[{"x":true,"y":null},{"x":false,"y":null}]')
    assert not accepts(spec, '[{"x":true,"y":null},{"x":true,"y":null}]')


def test_a_finished_value_is_compared_as_json():
    shape = json_schema_shape({"type": "array", "uniqueItems": True})
    assert shape.parse("[[1],[true]]") == [[1], [True]]
    with pytest.raises(ValueError, match="non-unique"):
        shape.parse("[[1],[true],[1.0]]")
    with pytest.raises(ValueError, match="non-unique"):
        shape.parse('[{"a":0},{"a":false},{"a":-0.0}]')


def test_an_exponent_without_end_equals_no_other(accepts):
    spec = json_schema_shape({"type": "array", "uniqueItems": True}).spec
    long = "9" * 30
    for array in ("[0,0]", f"[0,0e{long}]", f"[1e{long},1e{long}]"):
        assert not accepts(spec, array)


def test_the_judge_knows_json():
    assert are_equal([1, {"a": 2.0}], [1.0, {"a": 2}])
    assert not are_equal([1], [True])
    assert repeats({"a": [[1, 1.0]]})
    assert not repeats([1, True, [1], [True]])
