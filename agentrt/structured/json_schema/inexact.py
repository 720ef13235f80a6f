"""Places of a schema that we write better than the compiler, and all that surrounds them."""

from __future__ import annotations

from typing import Any

from agentrt.structured.json_schema.keywords import children, reaching, resolve
from agentrt.structured.json_schema.lark_text import as_list
from agentrt.structured.json_schema.number_leaf import is_exact

_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"})


def around_inexact(root: Any) -> set[int]:
    """Ids of the subschemas from which inexact numbers are reached, through references too."""

    def is_sought(here: dict[str, Any]) -> bool:
        is_inexact = "contains" in here or _lists_records(here) or is_open(here)
        return is_inexact or not is_exact(here) or _names_nothing(here, root)

    return reaching(root, is_sought)


def _names_nothing(schema: dict[str, Any], root: dict[str, Any]) -> bool:
    """Whether it refers to a schema that no value meets."""
    ref = schema.get("$ref")
    return isinstance(ref, str) and resolve(root, ref) is False


def _lists_records(schema: dict[str, Any]) -> bool:
    """Whether it lists values that the compiler takes apart; as literals they compile faster."""
    return any(isinstance(value, dict | list) for value in schema.get("enum", ()))


def is_open(schema: dict[str, Any]) -> bool:
    """Whether any value may stand in a schema or right under it."""
    if not schema.keys() & (_COMBINED | {"type"}):
        return True
    kinds = as_list(schema.get("type", []))
    parts = [schema.get("additionalProperties", True)] if "object" in kinds else []
    parts += [schema.get("items", True)] if "array" in kinds else []
    parts += [child for _, child in children(schema)]
    return any(part is True or part == {} for part in parts)
