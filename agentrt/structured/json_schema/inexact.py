"""Places of a schema that we write better than the compiler, and all that surrounds them."""

from __future__ import annotations

from typing import Any

from agentrt.structured.json_schema.keywords import children, resolve, subschemas
from agentrt.structured.json_schema.lark_text import as_list
from agentrt.structured.json_schema.number_leaf import is_exact

_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"})


def around_inexact(root: Any) -> set[int]:
    """Ids of the subschemas from which inexact numbers are reached, through references too."""
    above: dict[int, list[int]] = {}
    todo: list[int] = []
    for _, here, _ in subschemas(root):
        if not isinstance(here, dict):
            continue
        for _, child in children(here):
            above.setdefault(id(child), []).append(id(here))
        if isinstance(here.get("$ref"), str) and isinstance(root, dict):
            target = resolve(root, here["$ref"])
            above.setdefault(id(target), []).append(id(here))
            if target is False:
                todo.append(id(here))
        if "contains" in here or _lists_records(here) or is_open(here) or not is_exact(here):
            todo.append(id(here))
    found: set[int] = set()
    while todo:
        here_id = todo.pop()
        if here_id not in found:
            found.add(here_id)
            todo += above.get(here_id, ())
    return found


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
