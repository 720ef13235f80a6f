"""Schemas of servers: what is shown and held, and what is refused."""

from typing import Any

import pytest

from agentrt.base.errors import ConstraintError, ToolFailed
from agentrt.mcp.held_schema import schema_arguments
from agentrt.tools import ToolSpec
from agentrt.tools.schema_arguments import SchemaArguments
from agentrt.tools.schema_tool import schema_tool

PRIME = {
    "type": "object",
    "properties": {"n": {"type": "integer", "not": {"multipleOf": 7}}},
    "required": ["n"],
}


def spec_of(arguments: SchemaArguments) -> ToolSpec:
    async def give(**given: Any) -> Any:
        return given

    return schema_tool(give, arguments, name="give")


def test_titles_are_not_shown() -> None:
    given = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Arguments",
        "type": "object",
        "properties": {
            "title": {"title": "Title", "type": "string"},
            "tags": {"type": "array", "items": {"title": "Tag", "type": "string"}},
        },
    }
    shown = schema_arguments(given, server="s", tool="t", check=False).shown
    assert shown == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }


def test_an_empty_schema_is_that_of_no_arguments() -> None:
    arguments = schema_arguments({}, server="s", tool="t", check=False)
    assert arguments.shown == {"type": "object", "properties": {}}
    assert spec_of(arguments).parse("{}") == {}


def test_what_cannot_be_held_names_server_tool_and_keyword() -> None:
    with pytest.raises(ConstraintError) as error:
        schema_arguments(PRIME, server="shop", tool="prime", check=False)
    assert error.value.message.startswith("MCP server shop, tool prime: ")
    assert error.value.keyword == "not"
    assert error.value.pointer.endswith("/properties/n/not")
    assert "without=['prime']" in error.value.hint
    assert "check=True" in error.value.hint


def test_what_cannot_be_held_can_be_checked() -> None:
    spec = spec_of(schema_arguments(PRIME, server="shop", tool="prime", check=True))
    assert "not" in spec.parameters["properties"]["n"]
    assert "not" not in spec.held.parameters["properties"]["n"]
    assert spec.parse('{"n": 8}') == {"n": 8}
    with pytest.raises(ToolFailed, match="n: 14 should not be valid"):
        spec.parse('{"n": 14}')


def test_names_that_python_cannot_spell() -> None:
    schema = {
        "type": "object",
        "properties": {"from": {"type": "string"}, "max-age": {"type": "integer"}, "to": {}},
        "required": ["from"],
    }
    spec = spec_of(schema_arguments(schema, server="s", tool="t", check=False))
    given = {"from": "Oslo", "max-age": 3, "to": "Rome"}
    assert spec.arguments((), given) == given
    bound = spec.bind(**{"max-age": 3})
    assert list(bound.parameters["properties"]) == ["from", "to"]
    assert bound.parameters["required"] == ["from"]
