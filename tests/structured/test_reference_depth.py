"""Depth through references is bounded before anything native sees a constraint."""

from __future__ import annotations

import json

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured import cfg_shape, checked_schema_shape, json_schema_shape, regex_shape
from agentrt.structured.json_schema import declaration_wire as wire
from agentrt.structured.json_schema.compile_cost import may_be_hostile
from agentrt.structured.json_schema.declaration import Declarations
from agentrt.structured.json_schema.depth import (
    NestingDepth,
    brackets_depth,
    grammar_depth,
    schema_depth,
)
from agentrt.structured.json_schema.limits import check_spec


def chain(links: int, last: object = True, *, bare: bool = False, where: str = "$defs"):
    """Definitions of which each refers to the next."""
    definitions: dict[str, object] = {f"a{links}": last}
    for at in range(links):
        ref = {"$ref": f"#/{where}/a{at + 1}"}
        definitions[f"a{at}"] = ref if bare else {"type": "object", "properties": {"x": ref}}
    return {where: definitions, "$ref": f"#/{where}/a0"}


def ring(links: int):
    """The same, and the last refers to the first."""
    return chain(links, {"$ref": "#/$defs/a0"})


def rules(count: int, last: str = '"x"') -> str:
    """Rules of a grammar of which each refers to the next."""
    chained = [f"a{at}: a{at + 1}" for at in range(count)]
    return "\n".join(["start: a0", *chained, f"a{count}: {last}", ""])


HOSTILE_SCHEMAS = {
    "chain": chain(1_000),
    "bare chain": chain(5_000, bare=True),
    "chain outside of definitions": chain(3_000, {"type": "null"}, bare=True, where="x"),
    "nested definitions": chain(400, {"type": "null"}, bare=True),
}


@pytest.mark.parametrize("name", HOSTILE_SCHEMAS)
def test_a_schema_that_is_deep_through_references_is_refused(name):
    schema = HOSTILE_SCHEMAS[name]
    with pytest.raises(ConstraintError, match="through"):
        json_schema_shape(schema)
    with pytest.raises(ConstraintError, match="through"):
        checked_schema_shape(schema)
    with pytest.raises(ConstraintError, match="through"):
        check_spec(ConstraintSpec("json", source=json.dumps(schema)))


@pytest.mark.parametrize(
    "lark",
    [rules(5_000), "start: " + "(" * 3_000 + '"x"' + ")" * 3_000, rules(300)],
    ids=["rules", "brackets", "few rules"],
)
def test_a_grammar_that_is_deep_is_refused(lark):
    with pytest.raises(ConstraintError, match="deep"):
        cfg_shape(lark)
    with pytest.raises(ConstraintError, match="deep"):
        check_spec(ConstraintSpec("grammar", source=lark))


def test_a_regex_with_deep_groups_is_refused():
    with pytest.raises(ConstraintError, match="groups deep"):
        regex_shape("(" * 2_000 + "a" + ")" * 2_000)


def test_a_ring_of_references_is_tried_in_a_process_that_may_die():
    """In which order a compiler visits a ring is not known: here it may be deep."""
    deep = ring(1_500)
    source = json.dumps(deep)
    assert schema_depth(deep).chain < 10
    assert may_be_hostile(ConstraintSpec("json", source=source))
    for _ in range(2):
        try:
            json_schema_shape(deep)
        except ConstraintError as error:
            assert error.message  # noqa: PT017


def test_a_grammar_with_a_schema_inside_is_tried_in_a_process():
    lark = f"start: %json {json.dumps(chain(1_500))}\n"
    assert may_be_hostile(ConstraintSpec("grammar", source=lark))
    with pytest.raises(ConstraintError):
        cfg_shape(lark)


def test_what_ended_the_process_is_refused_at_once_the_second_time():
    declarations = Declarations()
    spec = ConstraintSpec("grammar", source=f"start: %json {json.dumps(chain(1_500))}\n")
    for _ in range(3):
        answer = declarations.answer(wire.Validate(spec))
        assert isinstance(answer, wire.Complaint | wire.ConstraintRefused)
    assert declarations.starts == 1


def test_what_is_plain_starts_no_process():
    declarations = Declarations()
    spec = ConstraintSpec("grammar", source=rules(20))
    assert declarations.answer(wire.Validate(spec)) == wire.Complaint("")
    assert declarations.starts == 0


@pytest.mark.parametrize(
    ("schema", "depth"),
    [
        ({}, NestingDepth(1, 1)),
        ({"items": {"items": {}}}, NestingDepth(3, 3)),
        (chain(3, {}, bare=True), NestingDepth(5, 5)),
        (ring(4), NestingDepth(2, 10)),
        ({"$ref": "#"}, NestingDepth(1, 1)),
        ({"anyOf": [{"$ref": "#/$defs/a"}, {}], "$defs": {"a": {"items": {}}}}, NestingDepth(4, 4)),
    ],
)
def test_depth_of_a_schema(schema, depth):
    assert schema_depth(schema) == depth


@pytest.mark.parametrize(
    ("lark", "depth"),
    [
        ("", NestingDepth(0, 0)),
        ('start: "a"', NestingDepth(1, 1)),
        ("start: a\na: b\nb: /x/", NestingDepth(3, 3)),
        ("start: a\na: b | a\nb: start", NestingDepth(1, 3)),
        ('start: ("a" ("b"))', NestingDepth(3, 3)),
        ('start: "((((("', NestingDepth(1, 1)),
        ("?start: a\n!a[lazy]: B\nB.2: /x/", NestingDepth(3, 3)),
    ],
)
def test_depth_of_a_grammar(lark, depth):
    assert grammar_depth(lark) == depth


def test_depth_of_groups():
    assert brackets_depth(r"((a)(b))\(\(\(") == 2
