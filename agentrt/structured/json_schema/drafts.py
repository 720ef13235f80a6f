"""Older drafts of JSON Schema, rewritten in the keywords of 2020-12.

Source: the migration notes of each draft. What a rewriting does not know stays as it is.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from agentrt.structured.json_schema.keywords import DEFINITIONS, subschemas

_BEFORE_SIBLINGS = ("draft-03", "draft-04", "draft-05", "draft-06", "draft-07")
"""Drafts in which a reference stands alone: keywords beside it say nothing."""
_KEPT = frozenset({*DEFINITIONS, "$ref", "$id", "id", "$schema"})
_ANNOTATING = ("draft/2019-09", "draft/2020-12")
"""Drafts by which a format says nothing about validity."""


def annotates_formats(schema: Any) -> bool:
    """Whether a schema names a draft by which its formats are annotations."""
    draft = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
    return any(name in draft for name in _ANNOTATING)


def drop_formats(schema: Any) -> None:
    """Remove all formats of a schema, in place."""
    for _, here, _ in subschemas(schema):
        if isinstance(here, dict):
            here.pop("format", None)


def modernize(schema: Any) -> None:
    """Rewrite a schema in place."""
    draft = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
    stands_alone = any(name in draft for name in _BEFORE_SIBLINGS)
    if stands_alone and isinstance(schema.get("$defs"), dict):  # no keyword of theirs
        named = schema["$defs"].items()
        schema["$defs"] = {name: one for name, one in named if isinstance(one, dict | bool)}
    anchors = _single_anchors(schema)
    for _, here, _ in subschemas(schema):
        if not isinstance(here, dict):
            continue
        if stands_alone and isinstance(here.get("$ref"), str):
            for keyword in here.keys() - _KEPT:
                del here[keyword]
        _exclusive(here, "minimum", "exclusiveMinimum")
        _exclusive(here, "maximum", "exclusiveMaximum")
        _dependencies(here)
        _items(here)
        ref = here.get("$dynamicRef")
        if isinstance(ref, str) and ref in anchors and "$ref" not in here:
            here["$ref"] = here.pop("$dynamicRef")
    if isinstance(schema, dict) and isinstance(schema.get("$schema"), str):
        del schema["$schema"]


def _single_anchors(schema: Any) -> set[str]:
    """References to dynamic anchors which have only one meaning: they stand once in a document."""
    found: Counter[str] = Counter()
    for pointer, here, _ in subschemas(schema):
        if isinstance(here, dict):
            if pointer and "$id" in here:
                return set()
            found[f"#{here.get('$dynamicAnchor')}"] += 1
    return {name for name, count in found.items() if count == 1}


def _exclusive(here: dict[str, Any], bound: str, exclusive: str) -> None:
    """Draft 4 says by true or false whether a bound is excluded."""
    flag = here.get(exclusive)
    if isinstance(flag, bool):
        del here[exclusive]
        if flag and bound in here:
            here[exclusive] = here.pop(bound)


def _dependencies(here: dict[str, Any]) -> None:
    """Draft 7 has one keyword for names and for schemas that a property asks for."""
    wanted = here.get("dependencies")
    if not isinstance(wanted, dict):
        return
    del here["dependencies"]
    for keyword, kind in (("dependentRequired", list), ("dependentSchemas", dict | bool)):
        some = {name: value for name, value in wanted.items() if isinstance(value, kind)}
        if some:
            also = here.get(keyword, {})
            here[keyword] = {**some, **also} if isinstance(also, dict) else also


def _items(here: dict[str, Any]) -> None:
    """Draft 7 has a list of the first items, and another keyword for those after them."""
    first = here.get("items")
    if isinstance(first, list) and "prefixItems" not in here:
        rest = here.pop("additionalItems", True)
        here |= {"prefixItems": here.pop("items"), **({} if rest is True else {"items": rest})}
    elif not isinstance(first, list):
        here.pop("additionalItems", None)  # says nothing without a list of items
