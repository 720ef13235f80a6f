"""Constraints as values, and types looked at once."""

import gc
import json
import weakref
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentrt import ConstraintError, OneOf, capture, cfg, choice, json_schema, regex
from agentrt.program.output import calls_of, items_of, step_of, value_of
from agentrt.program.output_types import MAX_SHAPES, array_for, final_for, shape_for
from agentrt.program.tool import tool


class Point(BaseModel):
    x: int


def test_a_type_is_looked_at_once() -> None:
    assert shape_for(Point) is shape_for(Point)
    assert shape_for(list[int]) is shape_for(list[int])
    form = Annotated[int, Field(ge=1, json_schema_extra={"unhashable": []})]
    assert shape_for(form) is shape_for(form)


def test_equal_is_not_the_same() -> None:
    """`Literal[1]` and `Literal[True]` compare equal in places; their shapes must not."""
    assert shape_for(Literal[1]).spec != shape_for(Literal[True]).spec
    assert shape_for(Point) is not array_for(Point)


def test_choice_gives_back_the_value() -> None:
    picked = choice(1, "two", None)
    assert picked.shape.spec is not None
    assert picked.shape.spec.options == ("1", "two", "null")
    assert [picked.shape.parse(t) for t in ("1", "two", "null")] == [1, "two", None]
    with pytest.raises(ConstraintError, match="same text"):
        choice("1", 1)
    for given in (["a", "b"], ("a",), {"a"}):
        with pytest.raises(ConstraintError, match=r"choice\(\*options\)"):
            choice(given)
    assert choice([1], [2]).shape.spec is not None


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: regex("[a-z]+"), "regex"),
        (lambda: cfg('start: "a"+'), "grammar"),
        (lambda: json_schema({"type": "integer"}), "json"),
        (lambda: choice("a", "b"), "choice"),
    ],
)
def test_constraints_of_every_kind(make: Any, kind: str) -> None:
    constraint = make()
    assert value_of(constraint).constraint.kind == kind  # type: ignore[union-attr]


def test_constraints_inside_lists_and_finals() -> None:
    assert array_for(choice("a", "b")).parse('["a","b"]') == ["a", "b"]
    assert array_for(regex("[a-z]")).item.parse('"a"') == "a"  # type: ignore[union-attr]
    assert final_for(json_schema({"type": "integer"})).parse("3") == 3
    with pytest.raises(ConstraintError, match="no JSON form"):
        array_for(cfg('start: "a"'))


@dataclass
class Code:
    letters: str


def test_constraints_as_json_give_their_values() -> None:
    """As JSON their texts stand in quotes; what is read is the same as from the bare texts."""
    numbers = choice(1, 2)
    assert items_of(numbers).parse('"2"') == 2
    assert final_for(numbers).parse('"1"') == 1
    codes = ("#" + capture("letters", regex("[a-z]+"))).into(Code)
    assert items_of(codes, 1).parse('"#ab"') == Code("ab")
    assert final_for(codes).parse('"#ab"') == Code("ab")


class Pending:
    """A node whose result is not there yet."""

    done = False

    def held_options(self) -> tuple[Any, ...]:
        raise AssertionError("the options are not needed yet")


def test_late_options_of_one_run_are_not_kept() -> None:
    """The address of such a type may be that of another one later, with other options."""

    def declared() -> weakref.ref[Pending]:
        node = Pending()
        output = items_of(Annotated[str, OneOf(node), []], 1)  # [] passes by the cache of typing
        assert len(output.sources) == 1
        return weakref.ref(node)

    node = declared()
    gc.collect()
    assert node() is None


def test_types_of_runs_are_kept_for_a_while() -> None:
    class Made(BaseModel):
        x: int

    made = weakref.ref(Made)
    del Made
    for index in range(MAX_SHAPES):
        shape_for(Literal[f"option {index}"])
    gc.collect()
    assert made() is None


def test_what_cannot_be_enforced_is_told_at_declaration() -> None:
    with pytest.raises(ConstraintError) as e:
        json_schema({"type": "object", "properties": {"x": {"not": {"multipleOf": 3}}}})
    assert e.value.pointer == "/properties/x/not"
    assert e.value.keyword == "not"


def test_names_of_outputs_are_names_of_nodes() -> None:
    assert value_of(Literal["a/b", "c#d"]).name.isprintable()
    assert "/" not in value_of(Literal["a/b", "c#d"]).name
    assert items_of(Point).name == "Point"


def test_a_tool_needs_no_options() -> None:
    @tool
    def halve(x: int) -> float:
        """Half of x."""
        return x / 2

    assert (halve.name, halve.spec.effects, halve.spec.retries) == ("halve", "write", 0)


def test_a_step_is_compiled_once() -> None:
    @tool(effects="pure")
    def double(x: int) -> int:
        """Twice x."""
        return 2 * x

    assert step_of((double,), Point).constraint is step_of((double,), Point).constraint
    assert step_of((double,), Point, 2, 2).constraint is step_of((double,), Point, 2, 2).constraint
    two = step_of((double,), Point, 2, 2).constraint
    assert two is not None
    assert (two.min_calls, two.max_calls) == (2, 2)
    plan = calls_of((double,), 3, 4).constraint
    assert plan is not None
    assert (plan.min_calls, plan.max_calls) == (3, 4)
    with pytest.raises(ConstraintError, match="min_calls=3, max_calls=2"):
        calls_of((double,), 3, 2)


@pytest.mark.parametrize("item", [int, Point, list[int], regex("[a-z]"), choice("a", "b")])
def test_a_list_has_a_length(item: Any) -> None:
    output = items_of(item, 2, 3)
    assert output.constraint is not None
    schema = json.loads(output.constraint.source)
    assert (schema["minItems"], schema["maxItems"]) == (2, 3)
    assert items_of(item, 2, 3).constraint == output.constraint
    free = items_of(item).constraint
    assert free is not None
    assert "minItems" not in free.source
    with pytest.raises(ConstraintError, match="min_items=3, max_items=2"):
        items_of(item, 3, 2)
    with pytest.raises(ConstraintError, match="min_items=-1"):
        items_of(item, -1)


def test_a_malformed_tool_is_refused_where_it_is_offered() -> None:
    @tool(effects="pure")
    def bad(name: Annotated[str, Field(json_schema_extra={"minLength": -1})]) -> str:
        return name

    with pytest.raises(ConstraintError, match="tool bad: /properties/name/minLength: must be"):
        calls_of((bad,))
