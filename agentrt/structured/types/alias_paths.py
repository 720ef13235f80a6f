"""Fields that are read from inside of other properties: `AliasPath("data", "value")`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaValue

_Path = list[str | int]


def with_alias_paths(schema: JsonSchemaValue, fields: Iterable[tuple[str, Any]]) -> JsonSchemaValue:
    """An object's schema with each field where pydantic reads it.

    Args:
        schema: Schema of the object, in which such a field stands under its own name.
        fields: Core schemas of the fields, by name.

    Raises:
        PydanticInvalidForJsonSchema: Two fields are read from places that exclude each other.
    """
    paths = {name: path for name, field in fields if (path := _path(field)) is not None}
    if not paths:
        return schema
    properties: dict[str, Any] = {}
    required = [name for name in schema.get("required", ()) if name not in paths]
    for name, written in schema["properties"].items():
        if name not in paths:
            properties[name] = written
            continue
        head, *rest = paths[name]
        is_required = name in schema.get("required", ())
        inner = _at(rest, written, is_required=is_required)
        properties[str(head)] = (
            _joined(properties[str(head)], inner) if head in properties else inner
        )
        if is_required and head not in required:
            required.append(str(head))
    kept = {keyword: value for keyword, value in schema.items() if keyword != "required"}
    return {**kept, "properties": properties, **({"required": required} if required else {})}


def _path(field: Any) -> _Path | None:
    """The path of a field that has no plain name; None if it has one."""
    alias = field.get("validation_alias")
    if not isinstance(alias, list):
        return None
    paths: list[_Path] = alias if all(isinstance(path, list) for path in alias) else [alias]
    return None if any(len(path) == 1 for path in paths) else paths[0]


def _at(path: _Path, schema: JsonSchemaValue, *, is_required: bool) -> JsonSchemaValue:
    """The schema of a value with another one at a path inside."""
    if not path:
        return schema
    head, *rest = path
    inner = _at(rest, schema, is_required=is_required)
    if isinstance(head, str):
        needed = {"required": [head]} if is_required else {}
        return {"type": "object", "properties": {head: inner}, **needed}
    place = head if head >= 0 else 0
    count = head + 1 if head >= 0 else -head
    items = [{"type": "null"}] * count
    items[place] = inner
    return {"type": "array", "prefixItems": items, "items": False, "minItems": count}


def _joined(one: JsonSchemaValue, other: JsonSchemaValue) -> JsonSchemaValue:
    """A value with the parts of two; only objects with different properties can be joined."""
    ones, others = one.get("properties"), other.get("properties")
    if ones is None or others is None or ones.keys() & others.keys():
        raise PydanticInvalidForJsonSchema("two fields are read from the same place")
    required = [*one.get("required", ()), *other.get("required", ())]
    return {**one, "properties": {**ones, **others}, **({"required": required} if required else {})}
