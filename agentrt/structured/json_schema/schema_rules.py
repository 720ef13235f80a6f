"""A JSON Schema as rules of a Lark grammar, if it holds numbers that the compiler gets wrong.

The compiler reads all numbers as floats: bounds beyond 2^53 shift, those of 64 bits end the
process. So numbers become regexes of our own, and what contains them becomes rules: objects,
arrays, alternatives, references. All that holds no such number stays a schema within the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.json_style import SEPARATORS, JsonStyle
from agentrt.structured.json_schema.inexact import around_inexact, is_open
from agentrt.structured.json_schema.keywords import (
    DEFINITIONS,
    UNREAD,
    children,
    resolve,
    without,
)
from agentrt.structured.json_schema.lark_text import (
    NAME,
    Inexpressible,
    LarkPart,
    as_list,
    either,
    json_text,
    listed,
    one_of,
    quoted,
    terminal,
    texts_of,
)
from agentrt.structured.json_schema.merging import merged, values_within
from agentrt.structured.json_schema.number_leaf import NUMERIC, is_exact, number_terminals
from agentrt.structured.json_schema.regex_text import escape_regex

MAX_TEXT_BYTES = 1_000_000
_TYPES = ("null", "boolean", "string", "number", "array", "object")
_OF_STRINGS = frozenset({"minLength", "maxLength", "pattern", "format"})
_OF_ARRAYS = frozenset({"items", "prefixItems", "minItems", "maxItems"})
_OF_OBJECTS = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_KNOWN = _OF_STRINGS | _OF_ARRAYS | _OF_OBJECTS | NUMERIC | {"type"}
_LONG = 200
"""Length of text that gets a rule of its own instead of being repeated."""

_MAX_MERGES = 1_000
_MAX_REFERENCES = 32


def rules_of(
    schema: Any,
    native: Callable[[Any, JsonStyle], str],
    prefix: str = "",
    *,
    everywhere: bool = False,
    style: JsonStyle = "compact",
) -> LarkPart | None:
    """The rules of a schema; None if the compiler's own numbers are exact, or must do.

    Args:
        schema: The whole schema, in normal form.
        native: Writes a schema as an expression of the compiler, in a style.
        prefix: Prefix of all names: small letters, digits, underscores.
        everywhere: Whether to write rules for all that has any, not only around inexact numbers.
        style: Style of the texts.
    """
    inexact = set() if everywhere else around_inexact(schema)
    if not everywhere and id(schema) not in inexact:
        return None
    try:
        rules = _Rules(schema, native, prefix, inexact, everywhere, style)
        expression = rules.expression(schema)
    except (Inexpressible, RecursionError):
        return None
    return None if expression is None else LarkPart(expression, tuple(rules.written))


@dataclass(slots=True, eq=False)
class _Rules:
    """The rules of one schema, written as its subschemas are met."""

    root: Any
    native: Callable[[Any, JsonStyle], str]
    prefix: str
    inexact: set[int]
    everywhere: bool
    style: JsonStyle
    written: list[str] = field(default_factory=list)
    _names: dict[int, str | None] = field(default_factory=dict)
    _by_text: dict[str, str] = field(default_factory=dict)
    _any: str | None = None
    _made: list[Any] = field(default_factory=list)
    _count: int = 0
    _merges: int = 0
    _bytes: int = 0

    @property
    def comma(self) -> str:
        """The text between two items or fields, for Lark."""
        return quoted(SEPARATORS[self.style].item)

    @property
    def colon(self) -> str:
        """The text between a key and its value, for Lark."""
        return quoted(SEPARATORS[self.style].key)

    def expression(self, schema: Any) -> str | None:
        """The name of a schema's rule; None if nothing fits the schema."""
        if schema is False:
            return None
        if schema is True or not without(schema, *UNREAD):
            return self._anything()
        if not self.everywhere and id(schema) not in self.inexact:
            return self._native(schema)
        if id(schema) not in self._names:
            name = self._names[id(schema)] = self._new("r")
            body = self._body(schema)
            if body is None:
                self._names[id(schema)] = None
            else:
                self._write(name, body)
        return self._names[id(schema)]

    def _anything(self) -> str:
        """The name of the rule for any value."""
        if self._any is None:
            self._any = name = self._new("r")
            plain = self._native({"type": ["null", "boolean", "string"]})
            text = self._native({"type": "string"})
            number = self._number({}, "number")
            array = f'"[" {listed(name, self.comma, 0, None, goes_on=False)} "]"'
            pair = f"{text} {self.colon} {name}"
            fields = f'"{{" {listed(pair, self.comma, 0, None, goes_on=False)} "}}"'
            self._write(name, f"{plain} | {number} | {array} | {fields}")
        return self._any

    def _new(self, letter: str) -> str:
        self._count += 1
        return f"{self.prefix}{letter}{self._count}"

    def _write(self, name: str, body: str) -> None:
        self.written.append(f"{name}: {body}")
        self._bytes += len(body)
        if self._bytes > MAX_TEXT_BYTES:
            raise Inexpressible

    def _shared(self, body: str, letter: str) -> str:
        """The name of a rule with this body, written once."""
        if body not in self._by_text:
            name = self._new(letter)
            self._by_text[body] = name.upper() if letter == "n" else name
            self._write(self._by_text[body], body)
        return self._by_text[body]

    def _native(self, schema: Any) -> str:
        whole = schema if isinstance(schema, dict) else {"allOf": [schema]}
        text = canonical_json.dumps(whole)
        if '"$ref"' in text:
            if '"#"' in text:
                raise Inexpressible
            whole = {**whole, **{k: self.root[k] for k in DEFINITIONS if k in self.root}}
        return self._shared(self.native(whole, self.style), "j")

    def _body(self, schema: dict[str, Any]) -> str | None:
        here = without(schema, *UNREAD)
        if "$ref" in here:
            target = resolve(self.root, here["$ref"])
            if target is None:
                raise Inexpressible
            if len(here) > 1:
                return self._merged([without(here, "$ref"), target])
            return self.expression(target)
        if "enum" in here or "const" in here:
            return self._values(here)
        if "allOf" in here:
            return self._merged([without(here, "allOf"), *here["allOf"]])
        for keyword in ("anyOf", "oneOf"):
            if keyword in here:
                return self._alternatives(here, keyword)
        if not here.keys() <= _KNOWN:
            raise Inexpressible
        return either(self._of_types(here))

    def _values(self, here: dict[str, Any]) -> str | None:
        values = values_within(here)
        if values is None:
            if is_exact(here):
                return self._native(here)
            raise Inexpressible
        texts = [text for value in values for text in texts_of(value, self.style)]
        return self._shared(one_of(texts), "n") if texts else None

    def _merged(self, schemas: list[Any]) -> str | None:
        whole = merged([self._meant(schema) for schema in schemas], self._both)
        self._merges += 1
        if whole is None or self._merges > _MAX_MERGES:
            raise Inexpressible
        return None if whole is False else self._body(whole)

    def _both(self, one: Any, other: Any) -> Any:
        """A schema that requires what two schemas require."""
        if one is False or other is False:
            return False
        if one is True or one == other:
            return other
        if other is True:
            return one
        made = {"allOf": [one, other]}
        self._made.append(made)  # its id stays its own
        self.inexact.add(id(made))
        return made

    def _meant(self, schema: Any) -> Any:
        """The target of a schema that is a reference and nothing else, or the schema."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, dict) or without(schema, *UNREAD).keys() != {"$ref"}:
                return schema
            schema = resolve(self.root, schema["$ref"])
        raise Inexpressible

    def _alternatives(self, here: dict[str, Any], keyword: str) -> str | None:
        options, rest = here[keyword], without(here, keyword)
        if keyword == "oneOf" and not self._are_disjoint(options):
            raise Inexpressible
        if rest:
            return either([self._merged([rest, option]) for option in options])
        return either([self.expression(option) for option in options])

    def _are_disjoint(self, options: list[Any]) -> bool:
        """Whether no value has the types of two options."""
        seen: set[str] = set()
        for option in options:
            meant = self._meant(option)
            kinds = meant.get("type") if isinstance(meant, dict) else None
            if kinds is None:
                return False
            types = set(as_list(kinds))
            types = types | {"number"} if "integer" in types else types
            if seen & types:
                return False
            seen |= types
        return True

    def _of_types(self, here: dict[str, Any]) -> Iterator[str | None]:
        kinds = as_list(here.get("type", list(_TYPES)))
        for kind in dict.fromkeys(kinds):
            match kind:
                case "integer" if "number" in kinds:
                    continue
                case "integer" | "number":
                    yield self._number(here, kind)
                case "array" if self._holds_inexact(here, _OF_ARRAYS):
                    yield self._array(here)
                case "object" if self._holds_inexact(here, _OF_OBJECTS):
                    yield self._object(here)
                case "array" | "object" | "string":
                    of_kind = {"array": _OF_ARRAYS, "object": _OF_OBJECTS}.get(kind, _OF_STRINGS)
                    rest = {k: v for k, v in here.items() if k in of_kind}
                    yield self._native({"type": kind, **rest})
                case _:
                    yield self._native({"type": kind})

    def _holds_inexact(self, here: dict[str, Any], keywords: frozenset[str]) -> bool:
        if self.everywhere:
            return True
        kind = "array" if keywords is _OF_ARRAYS else "object"
        part = {"type": kind, **{k: v for k, v in here.items() if k in keywords}}
        impossible = False in part.get("properties", {}).values()
        below = [id(child) in self.inexact for _, child in children(part)]
        return impossible or is_open(part) or any(below)

    def _number(self, here: dict[str, Any], kind: str) -> str | None:
        terminals = number_terminals(here, whole=kind == "integer")
        if terminals is None:
            rest = {k: v for k, v in here.items() if k in NUMERIC}
            return self._native({"type": kind, **rest})
        names = [self._shared(" & ".join(map(terminal, terms)), "n") for terms in terminals]
        return either(names)

    def _array(self, here: dict[str, Any]) -> str | None:
        items, fewest, most = here.get("items", True), here.get("minItems", 0), here.get("maxItems")
        if isinstance(items, list):
            raise Inexpressible
        if most is not None and most < fewest:
            return None
        first = here.get("prefixItems", [])[:most]
        left = None if most is None else most - len(first)
        text: str | None = None
        item = None if left == 0 else self.expression(items)
        if item is not None:
            text = listed(item, self.comma, max(0, fewest - len(first)), left, goes_on=bool(first))
        elif fewest <= len(first):
            text = ""
        for at in reversed(range(len(first))):
            place = self.expression(first[at])
            if place is None or text is None:
                text = None if at < fewest else ""
                continue
            text = f"{place} {text}" if at == 0 else f"{self.comma} {place} {text}"
            text = text if at < fewest else f"({text})?"
        return None if text is None else f'"[" {text} "]"'

    def _object(self, here: dict[str, Any]) -> str | None:
        properties, required = here.get("properties", {}), here.get("required", [])
        names = list(dict.fromkeys([*properties, *required]))
        other = self.expression(here.get("additionalProperties", True))
        pairs: list[tuple[str, bool]] = []
        for name in names:
            value = self.expression(properties[name]) if name in properties else other
            if value is not None:
                pairs.append((f"{quoted(json_text(name))} {self.colon} {value}", name in required))
            elif name in required:
                return None
        fewest, most = here.get("minProperties", 0), here.get("maxProperties")
        if fewest or most is not None:
            return self._counted(pairs, names, other, fewest, most)
        comma = self.comma
        rest = first = ""  # after another pair, and as the first
        if other is not None:
            pair = f"{self._other_name(names)} {self.colon} {other}"
            rest, first = f"({comma} {pair})*", f"({pair} ({comma} {pair})*)?"
        for pair, is_required in reversed(pairs):
            after = self._shared(rest, "o") if len(rest) > _LONG else rest
            if is_required:
                first, rest = f"{pair} {after}", f"{comma} {pair} {after}"
                continue
            first = f"({pair} {after} | {first})" if first else f"({pair} {after})?"
            first = self._shared(first, "o") if len(first) > _LONG else first
            rest = f"({comma} {pair})? {after}"
        return f'"{{" {first} "}}"'

    def _counted(
        self,
        pairs: list[tuple[str, bool]],
        names: list[str],
        other: str | None,
        fewest: int,
        most: int | None,
    ) -> str | None:
        """An object with a number of fields of which none is optional."""
        if any(not is_required for _, is_required in pairs):
            raise Inexpressible
        texts = [pair for pair, _ in pairs]
        left = None if most is None else most - len(pairs)
        fewest -= len(pairs)
        if left is not None and left < max(0, fewest):
            return None
        inner = f" {self.comma} ".join(texts)
        if other is not None:
            pair = f"{self._other_name(names)} {self.colon} {other}"
            inner += f" {listed(pair, self.comma, max(0, fewest), left, goes_on=bool(texts))}"
        elif fewest > 0:
            return None
        return f'"{{" {inner} "}}"'

    def _other_name(self, names: list[str]) -> str:
        """Names of properties other than these."""
        if not names:
            return self._native({"type": "string"})
        taken = terminal("|".join(escape_regex(json_text(name)) for name in names))
        return self._shared(f"{terminal(NAME)} & ~({taken})", "n")
