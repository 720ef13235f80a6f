"""Constraints as expressions, to be put into a larger grammar.

A regular expression may stand in a terminal, where what follows it is part of the same match. All
else is a rule. The compiler matches each terminal as far as it goes and never goes back, so regular
neighbours must share a terminal: `[a-z]+` before `[a-z]` would else never end.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.structured.json_schema.json_grammar import json_part
from agentrt.structured.json_schema.keywords import UNREAD, resolve, without
from agentrt.structured.json_schema.lark_text import LarkPart, quoted, terminal, texts_of
from agentrt.structured.json_schema.merging import values_within
from agentrt.structured.json_schema.native import lark_regex
from agentrt.structured.json_schema.number_leaf import NUMERIC, number_terminals
from agentrt.structured.json_schema.regex_text import whole_match

ANY_TEXT = "/(?s:.*)/"
_ONE_TERMINAL = re.compile(r"start: ([A-Z]+)\n\1: ([^\n]*)\n?\Z")
_FIXED = {"boolean": '"true" | "false"', "null": '"null"'}


@dataclass(frozen=True, slots=True)
class Expression:
    """A constraint within a grammar.

    Attributes:
        lark: The expression and its rules.
        is_regular: Whether the expression may stand in a terminal.
    """

    lark: LarkPart
    is_regular: bool


def expression_of(spec: ConstraintSpec | None, prefix: str) -> Expression:
    """A constraint as an expression; None is free text.

    Args:
        spec: The constraint.
        prefix: Prefix of the names of rules: small letters, digits, underscores.

    Raises:
        ConstraintError: The constraint is of tool calls, which depend on the model.
    """
    if spec is None:
        return _regular(ANY_TEXT)
    match spec.kind:
        case "regex":
            return _regular(lark_regex(f"(?:{whole_match(spec.source)})"))
        case "choice":
            return _regular(" | ".join(map(quoted, spec.options)))
        case "grammar":
            alone = _ONE_TERMINAL.match(spec.source)
            if alone is not None:
                return _regular(alone[2])
            return Expression(LarkPart(f"%lark {{\n{spec.source}\n}}"), is_regular=False)
        case "json":
            schema = json.loads(spec.source)
            scalar = scalar_terminal(schema)
            if scalar is not None:
                return _regular(scalar)
            return Expression(json_part(schema, prefix, style=spec.style), is_regular=False)
        case "calls":
            raise ConstraintError(
                "tool calls cannot be part of a larger constraint",
                hint="Use chat.step(...) or chat.calls(...)",
            )


def scalar_terminal(schema: Any, root: Any = None) -> str | None:
    """The terminal of a schema of numbers, booleans, null or listed values; None for others."""
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return None
    here = without(schema, *UNREAD, "$defs", "definitions")
    if here.keys() == {"$ref"}:
        target = resolve(root, here["$ref"])
        alone = isinstance(target, dict) and "$ref" not in target and "anyOf" not in target
        return scalar_terminal(target, root) if alone else None
    if here.keys() == {"anyOf"}:
        return _all_of([scalar_terminal(one, root) for one in here["anyOf"]])
    if here.keys() - {"type"} in ({"enum"}, {"const"}):
        values = values_within(here)
        if values is None or any(isinstance(value, dict | list) for value in values):
            return None
        return " | ".join(quoted(text) for value in values for text in texts_of(value)) or None
    kinds = here.get("type")
    if kinds is None or not here.keys() <= {"type"} | NUMERIC:
        return None
    return _all_of([_of_type(here, kind) for kind in ([kinds] if type(kinds) is str else kinds)])


def _of_type(here: dict[str, Any], kind: str) -> str | None:
    if kind in _FIXED:
        return _FIXED[kind]
    if kind not in ("integer", "number"):
        return None
    terminals = number_terminals(here, whole=kind == "integer")
    if not terminals or any(number.chains for number in terminals):
        return None
    return _all_of([f"({' & '.join(map(terminal, one.patterns))})" for one in terminals])


def _all_of(options: list[str | None]) -> str | None:
    """Alternatives; None if one of them is not known."""
    known = [option for option in options if option is not None]
    return " | ".join(known) if known and len(known) == len(options) else None


def _regular(text: str) -> Expression:
    return Expression(LarkPart(f"({text})"), is_regular=True)
