"""A JSON Schema as rules of a Lark grammar, if it holds numbers that the compiler gets wrong.

The compiler reads all numbers as floats: bounds beyond 2^53 shift, those of 64 bits end the
process. So numbers become regexes of our own, and what contains them becomes rules: objects,
arrays, alternatives, references. All that holds no such number stays a schema within the grammar,
unless it is indented: the compiler has no form of that, and each depth has rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.json_style import JsonStyle
from agentrt.structured.json_schema.complement import complement
from agentrt.structured.json_schema.container_text import (
    Pair,
    containing_text,
    counted_fields_text,
    fields_text,
    items_text,
)
from agentrt.structured.json_schema.digit_chains import DigitChain
from agentrt.structured.json_schema.disjoint import exclude_each_other
from agentrt.structured.json_schema.inexact import around_inexact, is_open
from agentrt.structured.json_schema.json_layout import JsonLayout, not_indented
from agentrt.structured.json_schema.keywords import (
    DEFINITIONS,
    UNREAD,
    children,
    is_same,
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
from agentrt.structured.json_schema.parallel_values import (
    OPAQUE,
    OpenArray,
    OpenObject,
    ParallelValues,
    native_beginnings,
)
from agentrt.structured.json_schema.regex_text import escape_regex

MAX_TEXT_BYTES = 1_000_000
_TYPES = ("null", "boolean", "string", "number", "array", "object")
_OF_STRINGS = frozenset({"minLength", "maxLength", "pattern", "format"})
_OF_CONTAINED = frozenset({"contains", "minContains", "maxContains"})
_OF_ARRAYS = frozenset({"items", "prefixItems", "minItems", "maxItems"}) | _OF_CONTAINED
_OF_OBJECTS = frozenset(
    {"properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_KNOWN = _OF_STRINGS | _OF_ARRAYS | _OF_OBJECTS | NUMERIC | {"type"}
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

    Raises:
        ConstraintError: The style is `indented`, and the schema has no such rules.
    """
    indented = style == "indented"
    inexact = set() if everywhere or indented else around_inexact(schema)
    if not everywhere and not indented and id(schema) not in inexact:
        return None
    try:
        for in_pieces in (False, True):
            layout = JsonLayout(style)
            rules = _Rules(
                schema, native, prefix, inexact, everywhere or indented, layout, in_pieces
            )
            expression = rules.expression(schema)
            if not rules.values.meet():
                break
    except (Inexpressible, RecursionError) as wrong:
        if indented:
            raise not_indented(str(wrong)) from None
        return None
    if expression is None and indented:
        raise not_indented("no value fits it")
    return None if expression is None else LarkPart(expression, tuple(rules.written))


@dataclass(slots=True, eq=False)
class _Rules:
    """The rules of one schema, written as its subschemas are met.

    Attributes:
        in_pieces: Whether listed records are written piece by piece.
        values: The values of the rules so far.
    """

    root: Any
    native: Callable[[Any, JsonStyle], str]
    prefix: str
    inexact: set[int]
    everywhere: bool
    layout: JsonLayout
    in_pieces: bool
    values: ParallelValues = field(default_factory=ParallelValues)
    written: list[str] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)
    _names: dict[tuple[int, int], str | None] = field(default_factory=dict)
    _by_text: dict[str, str] = field(default_factory=dict)
    _chains: dict[DigitChain, str] = field(default_factory=dict)
    _any: str | None = None
    _made: list[Any] = field(default_factory=list)
    _count: int = 0
    _merges: int = 0
    _bytes: int = 0

    def expression(self, schema: Any) -> str | None:
        """The name of a schema's rule; None if nothing fits the schema."""
        if schema is False:
            return None
        if schema is True or not without(schema, *UNREAD):
            return self._anything()
        if not self.everywhere and id(schema) not in self.inexact:
            return self._native(schema)
        place = (id(schema), self.layout.depth if self.layout.has_lines else 0)
        if place not in self._names:
            if self.layout.has_lines and id(schema) in self._open:
                raise Inexpressible("it holds itself, so no line is the deepest")
            name = self._names[place] = self._new("r")
            self._open.add(id(schema))
            options = self._body(schema)
            self._open.discard(id(schema))
            if options:
                self.values.rule(name, options)
                self._write(name, " | ".join(options))
            else:
                self._names[place] = None
        return self._names[place]

    def _below(self, schema: Any) -> str | None:
        """The same for a value within the present container."""
        self.layout.depth += 1
        found = self.expression(schema)
        self.layout.depth -= 1
        return found

    def _anything(self) -> str:
        """The name of the rule for any value."""
        if self.layout.has_lines:
            raise Inexpressible("any value may stand in some place, of any depth")
        if self._any is None:
            self._any = name = self._new("r")
            plain = self._native({"type": ["null", "boolean", "string"]})
            text = self._native({"type": "string"})
            number = self._number({}, "number")
            array = f'"[" {listed(name, self.layout.comma, 0, None, goes_on=False)} "]"'
            pair = f"{text} {self.layout.colon} {name}"
            fields = f'"{{" {listed(pair, self.layout.comma, 0, None, goes_on=False)} "}}"'
            self.values.beginning(name, OPAQUE.values())
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
        name = self._shared(self.native(whole, self.layout.style), "j")
        self.values.beginning(name, native_beginnings(whole))
        return name

    def _body(self, schema: dict[str, Any]) -> list[str]:
        """The alternatives of a schema."""
        here = without(schema, *UNREAD)
        if "$ref" in here:
            target = resolve(self.root, here["$ref"])
            if target is None:
                raise Inexpressible(f"there is no {here['$ref']!r}")
            if len(here) > 1:
                return self._merged([without(here, "$ref"), target])
            found = self.expression(target)
            return [] if found is None else [found]
        if "enum" in here or "const" in here:
            return self._values(here)
        if "allOf" in here:
            return self._merged([without(here, "allOf"), *here["allOf"]])
        for keyword in ("anyOf", "oneOf"):
            if keyword in here:
                return self._alternatives(here, keyword)
        if not here.keys() <= _KNOWN:
            raise Inexpressible(f"there are no rules for {min(here.keys() - _KNOWN)}")
        return [text for text in self._of_types(here) if text is not None]

    def _values(self, here: dict[str, Any]) -> list[str]:
        values = values_within(here)
        if values is None:
            if is_exact(here) and not self.layout.has_lines:
                return [self._native(here)]
            raise Inexpressible("there are no rules for keywords beside listed values")
        style, depth = self.layout.style, self.layout.depth
        apart = [one for one in values if self.in_pieces and isinstance(one, dict | list)]
        whole = [one for one in values if not self.in_pieces or not isinstance(one, dict | list)]
        texts = [text for value in whole for text in texts_of(value, style, depth)]
        found = [self.layout.pieces_of(value) for value in apart]
        if not texts:
            return found
        name = self._shared(one_of(texts), "n")
        self.values.listing(name, texts)
        return [name, *found]

    def _merged(self, schemas: list[Any]) -> list[str]:
        whole = merged([self._meant(schema) for schema in schemas], self._both)
        self._merges += 1
        if whole is None or self._merges > _MAX_MERGES:
            raise Inexpressible
        return [] if whole is False else self._body(whole)

    def _both(self, one: Any, other: Any) -> Any:
        """A schema that requires what two schemas require."""
        if one is False or other is False:
            return False
        if one is True or is_same(one, other):
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

    def _alternatives(self, here: dict[str, Any], keyword: str) -> list[str]:
        options, rest = here[keyword], without(here, keyword)
        if keyword == "oneOf" and not exclude_each_other(options, self.root):
            raise Inexpressible("there are no rules for a oneOf whose options may overlap")
        if rest:
            return [text for option in options for text in self._merged([rest, option])]
        return [name for name in map(self.expression, options) if name is not None]

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
        needs_rules = "contains" in part or False in part.get("properties", {}).values()
        below = [id(child) in self.inexact for _, child in children(part)]
        return needs_rules or is_open(part) or any(below)

    def _number(self, here: dict[str, Any], kind: str) -> str | None:
        terminals = number_terminals(here, whole=kind == "integer")
        if terminals is None:
            rest = {k: v for k, v in here.items() if k in NUMERIC}
            return self._native({"type": kind, **rest})
        return either([self._shared(one.lark(self._chain), "n") for one in terminals])

    def _chain(self, chain: DigitChain) -> str:
        if chain not in self._chains:
            part = chain.part(self._new("n").upper())
            self._chains[chain] = f"({part.expression})"
            for rule in part.rules:
                self._write(*rule.split(": ", 1))
        return self._chains[chain]

    def _array(self, here: dict[str, Any]) -> str | None:
        items, fewest, most = here.get("items", True), here.get("minItems", 0), here.get("maxItems")
        if isinstance(items, list):
            raise Inexpressible
        if most is not None and most < fewest:
            return None
        if "contains" in here:
            return self._containing(here)
        first = [self._below(place) for place in here.get("prefixItems", [])[:most]]
        item = None if most == len(first) else self._below(items)
        inner = items_text(first, item, self.layout.comma, max(1, fewest), most)
        text = self.layout.container(("[", "]"), inner, may_be_empty=fewest == 0)
        return self.values.container(text, OpenArray(tuple(first), item))

    def _containing(self, here: dict[str, Any]) -> str | None:
        """An array without bounds that holds a number of items of a kind."""
        items, wanted = here.get("items", True), here["contains"]
        fewest, most = here["minContains"], here.get("maxContains")
        if here.keys() & {"prefixItems", "maxItems"} or here.get("minItems", 0) > fewest:
            raise Inexpressible("there are no rules for contains in an array with bounds")
        if (unlike := True if most is None else complement(wanted, self.root)) is None:
            raise Inexpressible("there are no rules for what contains refuses")
        held, other = self._below(self._both(items, wanted)), self._below(self._both(items, unlike))
        inner = other and f"{other} ({self.layout.comma} {other})*"
        if held is not None and most != 0:
            inner = containing_text(held, other, self.layout.comma, fewest, most)
        if fewest and (held is None or (most is not None and most < fewest)):
            return None
        text = self.layout.container(("[", "]"), inner, may_be_empty=fewest == 0)
        return self.values.container(text, OpenArray((), self.values.union(held, other)))

    def _object(self, here: dict[str, Any]) -> str | None:
        properties, required = here.get("properties", {}), here.get("required", [])
        names = list(dict.fromkeys([*properties, *required]))
        value_of_other = self._below(here.get("additionalProperties", True))
        pairs: list[Pair] = []
        values: dict[str, str | None] = {}
        for name in names:
            value = self._below(properties[name]) if name in properties else value_of_other
            values[name] = value
            if value is not None:
                pair = f"{quoted(json_text(name))} {self.layout.colon} {value}"
                pairs.append((pair, name in required))
            elif name in required:
                return None
        other, comma = None, self.layout.comma
        if value_of_other is not None:
            other = f"{self._other_name(names)} {self.layout.colon} {value_of_other}"
        fewest, most = here.get("minProperties", 0), here.get("maxProperties")
        if fewest or most is not None:
            inner = counted_fields_text(pairs, other, comma, fewest, most)
        else:
            inner = fields_text(pairs, other, comma, lambda text: self._shared(text, "o"))
        may_be_empty = not fewest and not any(is_required for _, is_required in pairs)
        text = self.layout.container(("{", "}"), inner, may_be_empty=may_be_empty)
        return self.values.container(text, OpenObject(tuple(values.items()), value_of_other))

    def _other_name(self, names: list[str]) -> str:
        """Names of properties other than these."""
        if not names:
            return self._native({"type": "string"})
        taken = terminal("|".join(escape_regex(json_text(name)) for name in names))
        return self._shared(f"{terminal(NAME)} & ~({taken})", "n")
