"""Names of fields: `propertyNames` and `patternProperties` as patterns that do not overlap.

The grammar compiler knows patterns of names if no name matches two of them.
"""

from __future__ import annotations

from typing import Any

from agentrt.structured.json_schema.formats import PATTERNS, anchored
from agentrt.structured.json_schema.keywords import FORMATS, REFUSED, resolve, without
from agentrt.structured.json_schema.text_language import (
    ANY_TEXT,
    NO_TEXT,
    TextLanguage,
    TooComplex,
    matching,
    these,
)

MAX_PATTERNS = 8
_MAX_DEPTH = 8
_UNKNOWN = REFUSED.keys() - {"not", "propertyNames", "uniqueItems", "contains"}


def without_names(schema: dict[str, Any], root: Any) -> dict[str, Any]:
    """`propertyNames` as `properties` and `patternProperties`; unchanged if it is too complex."""
    if "unevaluatedProperties" in schema:
        return schema
    rest = without(schema, "propertyNames", "additionalProperties", "patternProperties")
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    try:
        allowed = texts_of(schema["propertyNames"], root)
        if ANY_TEXT.without(allowed).is_empty:
            return without(schema, "propertyNames")
        kept = {name: value if allowed.holds(name) else False for name, value in properties.items()}
        named = {p: _narrowed(p, matching(p), allowed) for p in patterns}
        others = allowed
        for pattern in patterns:
            others = others.without(matching(pattern))
        others = others.without(these(list(properties))) if properties else others
        found = {named[p]: value for p, value in patterns.items() if named[p] is not None}
        value = schema.get("additionalProperties", True)
        if value is not False and not others.is_empty:
            found[_pattern_of(others, schema["propertyNames"], is_whole=others is allowed)] = value
    except TooComplex:
        return schema
    whole = {**rest, "properties": kept} if kept else rest
    return {
        **whole,
        **({"patternProperties": found} if found else {}),
        "additionalProperties": False,
    }


def apart(patterns: dict[str, Any]) -> dict[str, Any]:
    """Patterns of names of which none matches the names of another, or the same ones."""
    if not 1 < len(patterns) <= MAX_PATTERNS:
        return patterns
    try:
        regions: list[tuple[str | None, TextLanguage, list[Any]]] = []
        for pattern, value in patterns.items():
            fresh, whole = matching(pattern), pattern
            split: list[tuple[str | None, TextLanguage, list[Any]]] = []
            for text, names, values in regions:
                shared = names.both(fresh)
                if shared.is_empty:
                    split.append((text, names, values))
                    continue
                split += [(None, names.without(fresh), values), (None, shared, [*values, value])]
                fresh, whole = fresh.without(names), ""
            regions = [*split, (whole or None, fresh, [value])]
        return {
            text or names.pattern(): values[0] if len(values) == 1 else {"allOf": values}
            for text, names, values in regions
            if not names.is_empty
        }
    except TooComplex:
        return patterns


def of_field(schema: dict[str, Any], name: str) -> list[Any]:
    """Schemas that a field must fit if an object fits a plain schema; some of them at least."""
    named = schema.get("properties", {})
    found = [named[name]] if name in named else []
    for pattern, value in schema.get("patternProperties", {}).items():
        try:
            found += [value] if matching(pattern).holds(name) else []
        except TooComplex:
            return found  # it may be no additional field
    return found or [schema[k] for k in ("additionalProperties",) if k in schema]


def texts_of(schema: Any, root: Any, depth: int = 0) -> TextLanguage:
    """The strings that fit a schema.

    Raises:
        TooComplex: A keyword of it cannot be expressed, or not in a small automaton.
    """
    if isinstance(schema, bool):
        return ANY_TEXT if schema else NO_TEXT
    if not isinstance(schema, dict) or depth > _MAX_DEPTH or schema.keys() & _UNKNOWN:
        raise TooComplex
    kinds = schema.get("type", "string")
    found = ANY_TEXT if kinds == "string" or "string" in kinds else NO_TEXT
    parts = [texts_of(part, root, depth + 1) for part in schema.get("allOf", ())]
    if "$ref" in schema:
        parts.append(texts_of(resolve(root, schema["$ref"]), root, depth + 1))
    if "not" in schema:
        parts.append(ANY_TEXT.without(texts_of(schema["not"], root, depth + 1)))
    if "pattern" in schema:
        parts.append(matching(schema["pattern"]))
    if "format" in schema:
        parts.append(_of_format(schema["format"]))
    if schema.keys() & {"minLength", "maxLength"}:
        parts.append(matching(any_of_length(schema)))
    parts += [these([one for one in values if isinstance(one, str)]) for values in _listed(schema)]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            options = [texts_of(option, root, depth + 1) for option in schema[keyword]]
            parts.append(_any_of(options, is_one=keyword == "oneOf"))
    for part in parts:
        found = found.both(part)
    return found


def any_of_length(bounds: dict[str, Any]) -> str:
    """A pattern of the texts whose length is between `minLength` and `maxLength`."""
    return f"^(?s:.){{{bounds.get('minLength', 0)},{bounds.get('maxLength', '')}}}$"


def _listed(schema: dict[str, Any]) -> list[list[Any]]:
    found = [schema["enum"]] if "enum" in schema else []
    return found + ([[schema["const"]]] if "const" in schema else [])


def _any_of(options: list[TextLanguage], *, is_one: bool) -> TextLanguage:
    found, twice = NO_TEXT, NO_TEXT
    for option in options:
        twice = twice.either(found.both(option))
        found = found.either(option)
    return found.without(twice) if is_one else found


def _of_format(name: str) -> TextLanguage:
    if name in FORMATS and name not in PATTERNS:
        raise TooComplex
    return matching(anchored(PATTERNS[name])) if name in PATTERNS else ANY_TEXT


def _narrowed(pattern: str, names: TextLanguage, allowed: TextLanguage) -> str | None:
    """A pattern of the names that are allowed; None if there are none."""
    if names.without(allowed).is_empty:
        return pattern
    both = names.both(allowed)
    return None if both.is_empty else both.pattern()


def _pattern_of(names: TextLanguage, stated: Any, *, is_whole: bool) -> str:
    """A pattern of names, as it is stated if possible."""
    if is_whole and isinstance(stated, dict) and stated.keys() - {"type"} == {"pattern"}:
        return str(stated["pattern"])
    return names.pattern()
