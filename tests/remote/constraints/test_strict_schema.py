"""Schemas within the strict subset: what they take, and what is left to be checked."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt.remote.constraints.strict_schema import strict_schema
from agentrt.structured import json_shape_of
from tests.remote.strict_rules import strict_fault


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    size: Annotated[int, Field(ge=1, le=9)]


class Tree(BaseModel):
    name: Annotated[str, Field(max_length=9, pattern="^[a-z]+$")]
    children: list["Tree | Leaf"] = []
    pair: tuple[int, bool] = (1, True)
    note: str | None = None


def schema_of(form: Any) -> dict[str, Any]:
    spec = json_shape_of(form).spec
    assert spec is not None
    found: dict[str, Any] = json.loads(spec.source)
    return found


FORMS = [Leaf, Tree, int, list[Tree], Tree | Leaf, Literal[1, "a", None], bool | None]


@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_type_has_a_schema_that_the_rules_take(form, bounds):
    found = strict_schema(schema_of(form), bounds=bounds)
    assert found is not None
    assert strict_fault(found.schema, (), bounds=bounds) is None


def test_what_is_left_out_is_named():
    found = strict_schema(schema_of(Leaf), bounds=False)
    assert found is not None
    assert found.dropped == ("maximum", "minimum")
    assert found.absent == {"kind"}
    whole = strict_schema(schema_of(Leaf), bounds=True)
    assert whole is not None
    assert whole.dropped == ()


def test_an_integer_of_no_bounds_leaves_nothing_to_check():
    found = strict_schema(schema_of(int), bounds=False)
    assert found is not None
    assert (found.schema, found.dropped) == ({"type": "integer"}, ())


def test_records_to_choose_from_become_closed_objects():
    records = [{"name": "a", "at": [1]}, {"name": "b", "at": [2]}]
    found = strict_schema({"enum": records}, bounds=True)
    assert found is not None
    assert strict_fault(found.schema, (), bounds=True) is None
    assert len(found.schema["anyOf"]) == 2
    assert found.dropped == ("const",)


def test_null_with_two_meanings_for_one_name_stands_for_no_absence():
    def closed(one: Any, required: list[str]) -> dict[str, Any]:
        properties = {"a": one}
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    inner = closed({"type": ["integer", "null"]}, ["a"])
    found = strict_schema(closed(inner, []), bounds=True)
    assert found is not None
    assert found.absent == frozenset()
    assert found.schema["required"] == ["a"]


@pytest.mark.parametrize("form", [dict[str, int], Any, list[dict[str, int]]], ids=str)
def test_open_objects_have_no_strict_schema(form):
    assert strict_schema(schema_of(form), bounds=True) is None
