"""The model of a constraint: its grammar as rules over bytes."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any

from agentrt.base import canonical_json
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.json_style import JsonStyle
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.closing.lark_rules import LarkRules
from agentrt.structured.closing.regex_rules import pattern_symbol, regex_symbol
from agentrt.structured.closing.symbols import (
    Choice,
    Concatenation,
    Conjunction,
    Grammar,
    Literal,
    NotModeled,
    Reference,
    Repeat,
    Symbol,
)
from agentrt.structured.json_schema.json_grammar import json_part
from agentrt.structured.json_schema.keywords import UNREAD, without
from agentrt.structured.json_schema.lark_text import NAME, as_list, texts_of
from agentrt.structured.json_schema.native import JSON_FORMS, json_in_lark
from agentrt.structured.json_schema.regex_text import anywhere, whole_match
from agentrt.structured.json_schema.schema_rules import rules_of

_QUOTE = Literal(b'"')
_FORM = "x-guidance"
_OF_STRINGS = frozenset({"type", "minLength", "maxLength", "pattern"})
_WORDS = {"null": ("null",), "boolean": ("true", "false")}


def grammar_of(spec: ConstraintSpec, lark: str, special_ids: dict[str, int]) -> Grammar:
    """The model of a constraint.

    Args:
        spec: The constraint.
        lark: Lark text of a grammar, or of calls.
        special_ids: Tokens that are not text, by name.

    Raises:
        NotModeled: The constraint has a construct without a model.
        ConstraintError: The style is `indented`, and the JSON has no such form.
    """
    match spec.kind:
        case "choice":
            return Grammar(Choice(tuple(Literal(text.encode()) for text in spec.options)))
        case "regex":
            return Grammar(regex_symbol(whole_match(spec.source)))
    model = _Model(special_ids)
    start: Symbol
    if spec.kind == "json" and spec.style == "indented":
        part = json_part(json.loads(spec.source), "lines_", style=spec.style)
        model.lark.read("\n".join([f"start: {part.expression}", *part.rules, ""]))
        start = Reference("start")
    elif spec.kind == "json":
        schema = _as_dict(json.loads(spec.source))
        start = model.json_symbol({**schema, _FORM: JSON_FORMS[spec.style]})
    else:
        model.lark.read(lark)
        start = Reference("start")
    model.lark.check_references()
    if isinstance(start, Reference) and start.name not in model.lark.rules:
        raise NotModeled("a grammar without start")
    return Grammar(start, model.lark.rules, model.covers and not model.lark.ignores)


def _as_dict(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {"allOf": [schema]}


@dataclass(slots=True, eq=False)
class _Model:
    """The model of one constraint, as it is read.

    Attributes:
        special_ids: Tokens that are not text, by name.
        covers: Whether no output is known to be left out.
    """

    special_ids: dict[str, int]
    covers: bool = True
    lark: LarkRules = field(init=False)
    _schemas: int = 0
    _in_rules: bool = False

    def __post_init__(self) -> None:
        self.lark = LarkRules(self.special_ids, self.json_symbol)

    def json_symbol(self, schema: Any) -> Symbol:
        """The symbol of the JSON texts of a schema, in the style that it names."""
        whole = _as_dict(schema)
        style = _style_of(whole)
        if style is None:
            self.covers = False  # blanks are allowed, too
            style = "compact"
        here = without(whole, _FORM, *UNREAD)
        leaf = self._leaf(here, style)
        if leaf is not None:
            return leaf
        self._schemas += 1
        plain = without(whole, _FORM)
        prefix = f"m{self._schemas}_"
        part = None
        if not self._in_rules:
            part = rules_of(plain, json_in_lark, prefix, everywhere=True, style=style)
        if part is None:
            return self._example(plain, style)
        self._in_rules = True
        self.lark.read("\n".join(part.rules))
        self._in_rules = False
        return self.lark.expression(part.expression)

    def _example(self, schema: Any, style: JsonStyle) -> Symbol:
        """A short text of a schema instead of all of its texts."""
        self.covers = False
        text = shortest_instance(schema, style)
        if text is None:
            raise NotModeled(f"the schema {canonical_json.dumps(schema)[:80]}")
        return Literal(text.encode())

    def _leaf(self, here: dict[str, Any], style: JsonStyle) -> Symbol | None:
        """The symbol of a schema without schemas in it; None for others."""
        if here.keys() & {"enum", "const"} and here.keys() <= {"enum", "const", "type"}:
            if "type" in here or len(here) > 1:
                return None
            values = here.get("enum", [here.get("const")])
            return _either(text for value in values for text in texts_of(value, style))
        kinds = as_list(here.get("type", []))
        if not kinds or not set(kinds) <= {"string", *_WORDS} or not here.keys() <= _OF_STRINGS:
            return None
        options = [_string(here) if kind == "string" else _either(_WORDS[kind]) for kind in kinds]
        return options[0] if len(options) == 1 else Choice(tuple(options))


def _style_of(schema: dict[str, Any]) -> JsonStyle | None:
    """The style that a schema names; None for any other form of JSON."""
    form = schema.get(_FORM)
    return next((style for style, known in JSON_FORMS.items() if known == form), None)


def _either(texts: Any) -> Symbol:
    return Choice(tuple(Literal(text.encode()) for text in texts))


def _string(schema: dict[str, Any]) -> Symbol:
    fewest, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    inner: Symbol = Repeat(_character(), fewest, None if most is None else int(most))
    if "pattern" in schema:
        pattern = regex_symbol(whole_match(anywhere(schema["pattern"])), in_json=True)
        counted = fewest > 0 or most is not None
        inner = Conjunction((pattern, inner), ()) if counted else pattern
    return Concatenation((_QUOTE, inner, _QUOTE))


@functools.cache
def _character() -> Symbol:
    return pattern_symbol(NAME[1:-2])
