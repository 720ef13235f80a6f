"""Description of a type for the model, on the author's request: fields, bounds, their meaning.

Written as a TypeScript type, the shortest notation that models know well; the text of docstrings
and `Field(description=...)` follows each field as a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from agentrt.base import canonical_json
from agentrt.structured.types.type_schema import adapter_of

_WIDEST_ENUM = 40
_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "below {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("minProperties", "at least {} entries"),
    ("maxProperties", "at most {} entries"),
    ("format", "a {}"),
    ("pattern", "matching {}"),
)


class _DescribedSchema(GenerateJsonSchema):
    """Pydantic's schema with the description of a dataclass or TypedDict itself."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "number"}


def description_of(form: Any) -> str:
    """The type of a form's values as text; "" if there is nothing to describe.

    Raises:
        ConstraintError: The form is not a type that can be read from text.
    """
    if form is str:
        return ""
    schema = adapter_of(form).json_schema(by_alias=True, schema_generator=_DescribedSchema)
    return schema_description(schema)


def schema_description(schema: dict[str, Any]) -> str:
    """The same for a JSON Schema: named types first, then the value itself."""
    named = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    used: dict[str, str] = {}
    whole = _with_notes(_type(schema, "", used), schema)
    todo = [name for name in used if name in named]
    written: dict[str, str] = {}
    while todo:
        name = todo.pop(0)
        inner: dict[str, str] = {}
        written[name] = _with_notes(f"type {name} = {_type(named[name], '', inner)}", named[name])
        todo += [one for one in inner if one in named and one not in written and one not in todo]
    return "\n".join([*written.values(), whole])


def _type(schema: Any, indent: str, used: dict[str, str]) -> str:
    """The type of a schema; names of other types used in it are added to `used`."""
    if not isinstance(schema, dict) or not schema:
        return "never" if schema is False else "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2] or "self"
        used[name] = name
        return name
    if "const" in schema:
        return canonical_json.dumps(schema["const"])
    if "enum" in schema:
        values = [canonical_json.dumps(value) for value in schema["enum"][:_WIDEST_ENUM]]
        more = ["..."] if len(schema["enum"]) > _WIDEST_ENUM else []
        return " | ".join(values + more)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " | ".join(dict.fromkeys(_type(one, indent, used) for one in options))
    if len(schema.get("allOf", ())) == 1:
        return _type(schema["allOf"][0], indent, used)
    match schema.get("type"):
        case "array":
            return _array(schema, indent, used)
        case "object":
            return _object(schema, indent, used)
        case list(kinds):
            return " | ".join(kinds)
        case kind:
            return str(kind or "any")


def _array(schema: dict[str, Any], indent: str, used: dict[str, str]) -> str:
    first = schema.get("prefixItems")
    if first:
        return f"[{', '.join(_type(one, indent, used) for one in first)}]"
    item = _type(schema.get("items", {}), indent, used)
    return f"({item})[]" if " | " in item else f"{item}[]"


def _object(schema: dict[str, Any], indent: str, used: dict[str, str]) -> str:
    fields = schema.get("properties", {})
    if not fields:
        values = schema.get("additionalProperties", True)
        return f"{{[key: string]: {_type({} if values is True else values, indent, used)}}}"
    required = schema.get("required", ())
    inner_indent = indent + "  "
    lines = ["{"]
    for name, field in fields.items():
        optional = "" if name in required else "?"
        line = f"{inner_indent}{name}{optional}: {_type(field, inner_indent, used)},"
        lines.append(_with_notes(line, field))
    return "\n".join([*lines, f"{indent}}}"])


def _with_notes(text: str, schema: Any) -> str:
    """A type with its notes as a comment after the first line."""
    notes = "; ".join(_notes(schema)) if isinstance(schema, dict) else ""
    if not notes:
        return text
    first, line_end, rest = text.partition("\n")
    return f"{first}  // {notes}{line_end}{rest}"


def _notes(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("description"):
        yield " ".join(str(schema["description"]).split())
    options = [one for one in schema.get("anyOf", ()) if isinstance(one, dict)]
    for part in (schema, *options):
        for keyword, words in _BOUNDS:
            if keyword in part and not (keyword.endswith("Items") and "prefixItems" in part):
                yield words.format(part[keyword])
    if schema.get("default") is not None:
        yield f"{canonical_json.dumps(schema['default'])} when left out"
