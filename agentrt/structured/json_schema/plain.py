"""Proof that a constraint is harmless to the grammar compiler, which then may read it right here.

Only forms are listed that the compiler translates node by node into as many rules: nothing that it
intersects, complements, divides or multiplies out. With the bounds on nodes, nesting, counts and
numbers, its time and its recursion are bounded too. A form that is not listed proves nothing, and
what is not proved is validated in a process that may die.

Distinct items never reach the compiler. What they cost is our own search for the arrays and the
texts of their items, which visits a definition as often as it is referred to. So a schema with
them is plain if it is small with every reference written out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.structured.json_schema.depth import brackets_depth, grammar_depth, schema_depth
from agentrt.structured.json_schema.formats import PATTERNS, anchored
from agentrt.structured.json_schema.keywords import (
    ANNOTATIONS,
    COUNTS,
    DEFINITIONS,
    children,
    resolve,
)
from agentrt.structured.json_schema.limits import largest_repeat
from agentrt.structured.json_schema.lowering import listed_values

MAX_BYTES = 16_000
MAX_NODES = 500
MAX_NODES_WITH_DISTINCT = 100
"""Number of subschemas beside distinct items, each counted as often as it is referred to."""
MAX_DEPTH = 200
"""Nesting through references, in whatever order the compiler visits them."""
MAX_REFERENCES = 64
MAX_COUNT = 1_000
MAX_MAGNITUDE = 10**18
"""Numbers near the ends of 64 bits have ended the compiler."""
MIN_MAGNITUDE = 1e-18
MAX_REGEX_CHARACTERS = 2_000
MAX_REGEX_DEPTH = 50
MAX_GRAMMAR_CHARACTERS = 16_000
_SIMPLE_REGEX = re.compile(
    r"\^?(?:[\w ,:;=@/<>!#%&~'\"-]|\\[d.^$*+?()\[\]{}|\\/-]"
    r"|\((?:\?:|(?!\?))|[.|)]|\[[\w :.,+/@;=&-]+\]|[*+?]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})*\$?",
    re.ASCII,
)
"""Characters, their escapes, positive classes, groups, alternatives and repetitions."""
_OPERATORS = re.compile(r"[&~{%]|/[^/\n]{500}")
"""Operators of a grammar: intersections, complements, repetitions, directives and long regexes."""

_ALONE = frozenset({"$ref", "anyOf"})
_DEFINING = frozenset(DEFINITIONS)
_DEFINED = tuple(f"/{keyword}/" for keyword in DEFINITIONS)


def is_plain(spec: ConstraintSpec) -> bool:
    """Whether the compiler can only take little time and stack for a constraint."""
    match spec.kind:
        case "regex":
            return is_plain_regex(spec.source)
        case "choice":
            return sum(map(len, spec.options)) <= MAX_BYTES
        case "grammar":
            return _is_plain_grammar(spec.source)
        case "json":
            return is_plain_schema(spec.source)
        case "calls":
            sources = [spec.source] if spec.source else []
            return all(
                map(is_plain_schema, [*sources, *(json.dumps(t.parameters) for t in spec.tools)])
            )


def is_plain_regex(pattern: str) -> bool:
    """Whether a regex has few nodes, of simple kinds, of which few may be repeated."""
    return (
        len(pattern) <= MAX_REGEX_CHARACTERS
        and _SIMPLE_REGEX.fullmatch(pattern) is not None
        and brackets_depth(pattern) <= MAX_REGEX_DEPTH
        and largest_repeat(pattern) <= MAX_COUNT
    )


def _is_plain_grammar(lark: str) -> bool:
    if len(lark) > MAX_GRAMMAR_CHARACTERS or _OPERATORS.search(lark):
        return False
    return grammar_depth(lark).most <= MAX_DEPTH


def is_plain_schema(source: str) -> bool:
    """Whether a schema has few nodes, all of listed forms; annotations may say anything."""
    if len(source) > MAX_BYTES or source.count('"$ref"') > MAX_REFERENCES:
        return False
    try:
        schema = json.loads(source)
    except (ValueError, RecursionError):  # reported by the compiler
        return False
    if schema_depth(schema).most > MAX_DEPTH:
        return False
    nodes = [schema]
    for here in nodes:  # grows as nodes are met
        if isinstance(here, bool):
            continue
        if not isinstance(here, dict) or not all(_is_proved(*one) for one in here.items()):
            return False
        beside = here.keys() - _DEFINING - ANNOTATIONS
        if here.keys() & _ALONE and len(beside) > 1:  # merged with its siblings
            return False
        nodes += (child for _, child in children(here))
        if len(nodes) > MAX_NODES:
            return False
    distinct = [one for one in nodes if isinstance(one, dict) and one.get("uniqueItems")]
    return not distinct or (all(map(_is_endless, distinct)) and _is_small(schema))


def _is_endless(array: dict[str, Any]) -> bool:
    """Whether items are not listed, of which all arrays would be written out."""
    items = array.get("items", True)
    return (
        "prefixItems" not in array
        and not isinstance(items, list)  # an older spelling of the same
        and listed_values(items) is None
    )


def _is_small(root: Any) -> bool:
    """Whether few subschemas are met if each reference is followed each time."""
    todo = [root]
    for here in todo:  # grows as subschemas are met
        if isinstance(here, dict):
            todo += (child for path, child in children(here) if not path.startswith(_DEFINED))
            todo += [resolve(root, here["$ref"])] if isinstance(here.get("$ref"), str) else []
        if len(todo) > MAX_NODES_WITH_DISTINCT:
            return False
    return True


def _is_proved(keyword: str, value: Any) -> bool:
    form = _PROVED.get(keyword)
    return form is not None and form(value)


def _is_any(value: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    if type(value) not in (int, float):
        return False
    return bool(value == 0 or MIN_MAGNITUDE <= abs(value) <= MAX_MAGNITUDE)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _is_value(value: Any) -> bool:
    if type(value) is int:
        return -MAX_MAGNITUDE <= value <= MAX_MAGNITUDE
    return value is None or isinstance(value, bool | str)


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and is_plain_regex(value)


def _is_plain_format(name: str) -> bool:
    if name in PATTERNS:
        return is_plain_regex(anchored(PATTERNS[name]))
    return True


def _are_values(value: Any) -> bool:
    if not isinstance(value, list) or len(value) > MAX_NODES or not all(map(_is_value, value)):
        return False
    return len({(type(one), one) for one in value}) == len(value)


_PROVED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(ANNOTATIONS, _is_any),
    **dict.fromkeys(("$defs", "definitions", "$ref", "properties", "required"), _is_any),
    **dict.fromkeys(("additionalProperties", "items", "prefixItems", "anyOf"), _is_any),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys((name for name in COUNTS if not name.endswith("Properties")), _is_count),
    "type": lambda value: isinstance(value, str | list),
    "uniqueItems": lambda value: isinstance(value, bool),
    "const": _is_value,
    "enum": _are_values,
    "pattern": _is_pattern,
    "format": lambda value: isinstance(value, str) and _is_plain_format(value),
}
"""Keywords of a schema and the values for which the proof holds."""
