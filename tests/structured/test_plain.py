"""What is proved plain is validated right here, and all else in a process that may die."""

import json
from functools import partial
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError, InternalError
from agentrt.base.one_of import OneOf
from agentrt.protocol.child_process import ChildProcess
from agentrt.structured import (
    cfg_shape,
    json_schema_shape,
    regex_shape,
    shape_of,
)
from agentrt.structured.json_schema import declaration_wire as wire
from agentrt.structured.json_schema.declaration import DECLARATIONS, Declarations
from agentrt.structured.json_schema.declaring import answer_to
from agentrt.structured.json_schema.keywords import without
from agentrt.structured.json_schema.plain import is_plain
from tests.structured.done_node import DoneNode


def chain(links):
    """Definitions of which each refers to the next."""
    ref = ({"$ref": f"#/$defs/a{at + 1}"} for at in range(links))
    definitions = {f"a{at}": {"properties": {"x": link}} for at, link in enumerate(ref)}
    return {"$defs": {**definitions, f"a{links}": True}, "$ref": "#/$defs/a0"}


def spec_of(schema):
    return ConstraintSpec("json", source=json.dumps(schema))


ENDS_THE_COMPILER = [{"const": -(2**63) + n} for n in range(3)]
PANICS = {"items": {"prefixItems": [{"enum": [-(10**18), -1e18]}]}}


class Place(BaseModel):
    name: str
    rank: int | None = None
    tags: list[str] = []


UNIQUE = Field(min_length=2, json_schema_extra={"uniqueItems": True})
DISTINCT = [
    Annotated[list[Place], UNIQUE],
    Annotated[set[str], Field(min_length=2)],
    Annotated[list[Annotated[Place, OneOf(DoneNode([Place(name="a"), Place(name="b")]))]], UNIQUE],
]


@pytest.fixture
def declarations():
    declarations = Declarations()
    yield declarations
    declarations.close()


@pytest.mark.parametrize("schema", [*ENDS_THE_COMPILER, PANICS])
def test_what_ends_the_compiler_ends_no_caller(schema):
    """The first of these ended the process that declared it."""
    try:
        shape = json_schema_shape(schema)
    except ConstraintError as error:
        assert "too long" in error.message  # noqa: PT017
    else:
        assert shape.spec is not None


NOT_PLAIN = [
    {"const": 2**63},
    {"const": 1.5},
    {"enum": [1, 1]},
    {"minimum": 1e19},
    {"maxItems": 2_000},
    {"pattern": r"\W{2,}"},
    {"multipleOf": 3},
    {"allOf": [{"type": "string"}]},
    {"anyOf": [{"type": "string"}], "minLength": 2},
    {"unheard": 1},
    {"properties": {"a": {"const": {"a": 1}}}},
    {"anyOf": [{"type": "string"}] * 2_001},
    {"uniqueItems": 1},
    {"uniqueItems": True, "items": {"enum": ["a", "b"]}},
    {"uniqueItems": True, "items": [{"enum": ["a", "b"]}]},
    {"uniqueItems": True, "prefixItems": [{"type": "string"}]},
    {"uniqueItems": True, "items": {"$ref": "#"}},
    {"uniqueItems": True, "items": {"anyOf": [{"type": "string"}] * 100}},
    "no schema",
]


@pytest.mark.parametrize("schema", NOT_PLAIN)
def test_what_is_not_proved_is_not_plain(schema):
    assert not is_plain(spec_of(schema))


def doubled(levels):
    """An array of distinct items whose definitions each refer twice to the next."""
    refs = [{"$ref": f"#/$defs/d{at}"} for at in range(levels + 1)]
    twice = {f"d{at}": {"properties": {"a": r, "b": r}} for at, r in enumerate(refs, 1)}
    definitions = {"d0": {"type": "string"}, **twice}
    return {"type": "array", "uniqueItems": True, "items": refs[-1], "$defs": definitions}


def test_distinct_items_are_plain_as_far_as_their_definitions_written_out_are_few():
    assert is_plain(spec_of(doubled(4)))
    assert not is_plain(spec_of(doubled(6)))
    assert is_plain(spec_of(without(doubled(6), "uniqueItems")))


def test_grammars_and_regexes_with_operators_are_not_plain():
    for lark in ("start: /a/ & /b/", "start: ~/a/", 'start: "a"{2}', "start: %json {}"):
        assert not is_plain(ConstraintSpec("grammar", source=lark))
    for pattern in (r"\p{L}+", "[^a]", "a" * 3_000, "(a{99}){99}", "(" * 60 + ")" * 60, "(?i:a)"):
        assert not is_plain(ConstraintSpec("regex", source=pattern))


def test_types_and_simple_texts_start_no_process():
    DECLARATIONS.close()  # one that waits would take the order
    before = DECLARATIONS.starts
    for form in (Place, list[int], dict[str, bool], Place | None, *DISTINCT):
        assert shape_of(form).spec is not None
    assert regex_shape("[A-Z]{2,4}-[0-9]+").spec is not None
    assert cfg_shape('start: "a" b?\nb: "b" start').spec is not None
    assert DECLARATIONS.starts == before


def test_one_process_serves_many_declarations_and_is_replaced_when_it_dies(declarations):
    for factor in range(2, 6):
        source = json.dumps({"type": "integer", "multipleOf": factor})
        assert isinstance(
            declarations.answer(wire.Specify(source, True, "compact")), wire.Specified
        )
    assert declarations.starts == 1
    deep = ConstraintSpec("grammar", source=f"start: %json {json.dumps(chain(1_500))}\n")
    for _ in range(3):
        assert isinstance(declarations.answer(wire.Validate(deep)), wire.ConstraintRefused)
    assert declarations.starts == 1  # refused at once the second time
    regex = ConstraintSpec("regex", source=r"\W+")
    assert declarations.answer(wire.Validate(regex)) == wire.Complaint("")
    assert declarations.starts == 2
    plain = ConstraintSpec("regex", source="a+")
    assert declarations.answer(wire.Validate(plain)) == wire.Complaint("")


MANY_ARRAYS = {"type": "array", "items": {"enum": [1, 2, 3, 4, 5, 6]}, "uniqueItems": True}
REWRITTEN = [
    {"type": "object", "properties": {f"k{at}": MANY_ARRAYS for at in range(30)}},
    {"oneOf": [{"type": "string"}, {"maxLength": 3}]},
    {"allOf": [{"$ref": "#/x"}], "x": {"type": "null"}},
    {"minimum": 2**70},
]


def test_equal_schemas_are_worked_out_once():
    """A program makes its output type anew in each run; its schema is the same text."""
    here: list[wire.Order] = []

    def note(order: wire.Order) -> wire.Answer:
        here.append(order)
        return answer_to(order)

    declarations = Declarations(note)
    first, other = (wire.Normalize(json.dumps({"type": kind}), True) for kind in ("string", "null"))
    answers = [declarations.answer(order) for order in (first, other, first)]
    assert answers == [answer_to(first), answer_to(other), answer_to(first)]
    assert here == [first, other]


@pytest.mark.parametrize("schema", REWRITTEN, ids=range(len(REWRITTEN)))
def test_what_is_not_plain_is_not_even_rewritten_here(schema):
    here: list[wire.Order] = []

    def note(order: wire.Order) -> wire.Answer:
        here.append(order)
        return answer_to(order)

    declarations = Declarations(note)
    plain = wire.Normalize('{"type":"string"}', False)
    assert declarations.answer(plain) == wire.NormalForm('{"type":"string"}')
    found = declarations.answer(wire.Normalize(json.dumps(schema), False))
    assert isinstance(found, wire.NormalForm)
    assert isinstance(
        declarations.answer(wire.Specify(found.source, False, "compact")), wire.Specified
    )
    assert isinstance(declarations.answer(wire.Relax(found.source, "{}")), wire.RelaxedSpec)
    assert (here, declarations.starts) == ([plain], 1)
    declarations.close()


def test_a_fault_of_the_process_is_no_refusal():
    frame = wire.ANSWERS.frame(wire.DeclarationBroke("KeyError: 'x'"))
    breaks = f"import os; os.read(0, 9); os.write(1, {frame!r}); os.read(0, 1 << 20)"
    declarations = Declarations(start_process=partial(ChildProcess, "-c", breaks))
    with pytest.raises(InternalError, match="KeyError"):
        declarations.answer(wire.Normalize('{"allOf":[{}]}', False))
    declarations.close()
