"""A short text that fits a JSON Schema, derived from the schema alone.

The result is a guess, checked by the matcher, so rare keywords may be ignored. It knows what a walk
through the grammar cannot see: the end of a pattern.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from agentrt.base.json_style import SEPARATORS, JsonStyle, line_break, styled_json
from agentrt.structured.closing.shortest import shortest_match
from agentrt.structured.json_schema.keywords import resolve, without
from agentrt.structured.json_schema.number_leaf import NUMERIC
from agentrt.structured.json_schema.number_range import DecimalRange, ranges_of
from agentrt.structured.json_schema.number_text import decimal_text
from agentrt.structured.json_schema.regex_text import whole_match

_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|\[\]|\{\}|[\[\]{},:]|[^"\[\]{},:]+')
"""Strings, empty containers, marks, other text."""

_MAX_DEPTH = 64
_MAX_CHARS = 50_000
_FINEST = 10**25
_MORE_PATTERNS = "further patterns"
_LARGEST = frozenset({"minLength", "minItems", "minimum", "exclusiveMinimum"})
_SMALLEST = frozenset({"maxLength", "maxItems", "maximum", "exclusiveMaximum"})
_FORMATS = {
    "duration": "P1D",
    "email": "a@b.co",
    "hostname": "a",
    "ipv4": "1.1.1.1",
    "ipv6": "::",
    "uri": "a:",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def shortest_instance(schema: Any, style: JsonStyle = "compact") -> str | None:
    """Short JSON that should fit `schema`; None if none was found."""
    if style != "indented":
        return _InstanceSearch(schema, style).text(schema, 0)
    text = _InstanceSearch(schema, "compact").text(schema, 0)
    return None if text is None else _indented(text)


def _indented(text: str) -> str:
    """Compact JSON with line breaks; numbers keep their digits."""
    comma, colon = SEPARATORS["indented"]
    written: list[str] = []
    depth = 0
    for found in _PIECES.finditer(text):
        piece = found[0]
        if piece in ("[", "{"):
            depth += 1
            piece += line_break("indented", depth)
        elif piece in ("]", "}"):
            depth -= 1
            piece = line_break("indented", depth) + piece
        elif piece == ",":
            piece = comma + line_break("indented", depth)
        elif piece == ":":
            piece = colon
        written.append(piece)
    return "".join(written)


class _InstanceSearch:
    """One search; caches the text of each `$ref`."""

    def __init__(self, root: Any, style: JsonStyle) -> None:
        self._root = root
        self._style = style
        self._comma, self._colon = SEPARATORS[style]
        self._known: dict[str, str | None] = {}
        self._open: set[str] = set()

    def text(self, schema: Any, depth: int) -> str | None:
        if schema is True or schema == {}:
            return "0"
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        if "const" in schema:
            return styled_json(schema["const"], self._style)
        if "enum" in schema:
            return _shortest([styled_json(value, self._style) for value in schema["enum"]])
        if "$ref" in schema:
            return self._referenced(str(schema["$ref"]), depth)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                rest = without(schema, keyword)
                options = [_merged([rest, option]) for option in schema[keyword]]
                return _shortest([self.text(option, depth + 1) for option in options])
        if "allOf" in schema:
            whole = _merged([without(schema, "allOf"), *schema["allOf"]])
            return self.text(whole, depth + 1)
        return self._typed(schema, depth)

    def _referenced(self, ref: str, depth: int) -> str | None:
        if ref in self._known:
            return self._known[ref]
        if ref in self._open or not isinstance(self._root, dict):
            return None  # recursion: another branch is needed
        self._open.add(ref)
        found = self.text(resolve(self._root, ref), depth + 1)
        self._open.discard(ref)
        if found is not None:
            self._known[ref] = found
        return found

    def _typed(self, schema: dict[str, Any], depth: int) -> str | None:
        kinds = schema.get("type", _implied(schema))
        options = kinds if isinstance(kinds, list) else [kinds]
        found = _shortest([self._of_type(kind, schema, depth) for kind in options])
        return found if found is None or len(found) <= _MAX_CHARS else None

    def _of_type(self, kind: Any, schema: dict[str, Any], depth: int) -> str | None:
        match kind:
            case "null":
                return "null"
            case "boolean":
                return "true"
            case "integer" | "number":
                return _number(schema, whole=kind == "integer")
            case "string":
                return _string(schema)
            case "array":
                return self._array(schema, depth)
            case "object":
                return self._object(schema, depth)
            case _:
                return None

    def _array(self, schema: dict[str, Any], depth: int) -> str | None:
        first = schema.get("prefixItems", [])
        items: list[str] = []
        for index in range(int(schema.get("minItems", 0))):
            item = first[index] if index < len(first) else schema.get("items", True)
            text = self.text(item, depth + 1) if index <= len(first) else items[-1]
            if text is None:
                return None
            items.append(text)
        return f"[{self._comma.join(items)}]"

    def _object(self, schema: dict[str, Any], depth: int) -> str | None:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        fields: list[str] = []
        names = [name for name in properties if name in required]
        for name in (*names, *(name for name in required if name not in properties)):
            value = properties.get(name, schema.get("additionalProperties", True))
            text = self.text(value, depth + 1)
            if text is None:
                return None
            fields.append(f"{styled_json(name)}{self._colon}{text}")
        missing = int(schema.get("minProperties", 0)) - len(fields)
        if missing > 0:
            text = self.text(schema.get("additionalProperties", True), depth + 1)
            others = [f"x{n}" for n in range(missing + len(names)) if f"x{n}" not in properties]
            if text is None or missing > _MAX_DEPTH:
                return None
            fields += [f"{styled_json(name)}{self._colon}{text}" for name in others[:missing]]
        return "{" + self._comma.join(fields) + "}"


def _implied(schema: dict[str, Any]) -> str:
    """The type implied by the keywords of a schema without a type."""
    if schema.keys() & {"pattern", "format", "minLength", "maxLength"}:
        return "string"
    if schema.keys() & NUMERIC:
        return "number"
    if schema.keys() & {"items", "prefixItems", "minItems"}:
        return "array"
    return "object"


def _merged(schemas: list[Any]) -> Any:
    """One schema that requires what all of them require, as far as keywords can be joined."""
    whole: dict[str, Any] = {}
    for schema in schemas:
        if not isinstance(schema, dict):
            continue
        for keyword, value in schema.items():
            if keyword == "properties" and keyword in whole:
                joined = dict(whole[keyword])
                for name, child in value.items():
                    joined[name] = _merged([joined.get(name), child]) if name in joined else child
                whole[keyword] = joined
            elif keyword == "required" and keyword in whole:
                whole[keyword] = [*whole[keyword], *value]
            elif keyword in _LARGEST and keyword in whole:
                whole[keyword] = max(whole[keyword], value)
            elif keyword in _SMALLEST and keyword in whole:
                whole[keyword] = min(whole[keyword], value)
            elif keyword == "pattern" and whole.get(keyword, value) != value:
                whole[_MORE_PATTERNS] = [*whole.get(_MORE_PATTERNS, ()), value]
            else:
                whole[keyword] = value
    return whole


def _number(schema: dict[str, Any], *, whole: bool) -> str | None:
    ranges = [one for one in ranges_of(schema, whole=whole) if not one.is_empty]
    fitting = [n for one in ranges for n in _candidates(one) if one.holds(n)]
    return _shortest([decimal_text(number) for number in fitting])


def _candidates(numbers: DecimalRange) -> Iterator[Fraction]:
    """Numbers near zero and near the ends, and short ones between the ends."""
    step = numbers.step or Fraction(1)
    yield from (n * step for n in range(10))
    for end in (numbers.low, numbers.high):
        if end is not None:
            yield end.at
            yield from ((math.floor(end.at / step) + n) * step for n in (-1, 0, 1, 2))
    if numbers.low is None or numbers.high is None or numbers.whole:
        return
    middle, width = (numbers.low.at + numbers.high.at) / 2, numbers.high.at - numbers.low.at
    unit = Fraction(1)
    while unit * _FINEST > width > 0:
        yield math.floor(middle / unit) * unit
        unit /= 10


def _string(schema: dict[str, Any]) -> str | None:
    shortest = int(schema.get("minLength", 0))
    pattern = schema.get("pattern")
    if _MORE_PATTERNS in schema:
        text = _decimal_matching([str(pattern), *schema[_MORE_PATTERNS]])
    elif pattern is not None:
        text = _matching(str(pattern))
    elif "format" in schema:
        text = _FORMATS.get(schema["format"])
    else:
        text = "a" * shortest
    if text is None or not shortest <= len(text) <= schema.get("maxLength", math.inf):
        return None
    return styled_json(text)


def _decimal_matching(patterns: list[str]) -> str | None:
    """A short decimal that several patterns contain: those of decimals with bounds."""
    powers = [Fraction(10) ** n for n in range(-9, 40)]
    numbers = [sign * n * power for power in powers for n in range(10) for sign in (1, -1)]
    texts = sorted({decimal_text(number) for number in numbers}, key=lambda text: (len(text), text))
    with contextlib.suppress(re.error):
        found = [re.compile(pattern) for pattern in patterns]
        return next((text for text in texts if all(one.search(text) for one in found)), None)
    return None


@functools.lru_cache(maxsize=1024)
def _matching(pattern: str) -> str | None:
    """The shortest text that contains a match of a JSON Schema `pattern`."""
    starts, ends = pattern.startswith("^"), pattern.endswith("$") and pattern[-2:] != "\\$"
    inner = pattern[1 if starts else 0 : -1 if ends else None]
    return shortest_match(whole_match(inner))


def _shortest(texts: list[str | None]) -> str | None:
    return min((t for t in texts if t is not None), key=len, default=None)
