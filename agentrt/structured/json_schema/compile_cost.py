"""Estimate of the cost of compiling: constraints that may be costly are tried in a sandbox first.

Cheap, and from the text alone. Real schemas stay far below these bounds; a constraint above them is
not refused, it only goes through the sandbox.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.structured.json_schema.depth import brackets_depth, grammar_depth, schema_depth
from agentrt.structured.json_schema.keywords import COUNTS
from agentrt.structured.json_schema.plain import MAX_MAGNITUDE
from agentrt.structured.json_schema.regex_text import cost_of, whole_match
from agentrt.structured.json_schema.schema_source import parsed

PLAIN_BYTES = 64_000
"""Bound on the size of a schema."""

PLAIN_GRAMMAR_BYTES = 16_000
"""Bound on the size of a grammar: each byte of it can cost more than one of a schema."""

PLAIN_COUNT = 1_000
"""Bound on counts of items, characters or fields."""

PLAIN_REPEATS = 5_000
"""Bound on the product of all repetitions in a grammar."""

PLAIN_STATES = 400
"""Bound on the states of a regex automaton, before determinization."""

PLAIN_DOUBLED = 1_200
"""Bound on the states of a regex with a table, if each atom that may double them does."""

PLAIN_LAZY_STATES = 2_000
"""Bound on the states of a regex inside a schema: its states are built lazily."""

MAX_WIDE_AFTER_CHOICE = 8
"""Maximum number of atoms that may double the automaton's states; with more, no table is built."""

PLAIN_DEPTH = 200
"""Bound on the nesting through references, in whatever order a compiler visits them."""

_MAX_REFS = 64
_TEXT_KEYWORDS = frozenset({"pattern", "const", "enum", "allOf", "anyOf", "oneOf", "not", "$ref"})
_DIRECTIVE = re.compile(r"^[ \t]*%|%json|%lark|%regex", re.MULTILINE)
_ONE_LEXEME = re.compile(r"start: ([A-Z]+)\n\1: [^\n]*\n?\Z")
_REPEATS = re.compile(r"\{(\d{1,9}),?(\d{0,9})\}")


def may_be_hostile(spec: ConstraintSpec) -> bool:
    """Whether parsing it may take much time, memory or depth of the stack."""
    match spec.kind:
        case "regex":
            return is_costly(whole_match(spec.source))
        case "choice":
            return sum(map(len, spec.options)) > PLAIN_BYTES
        case "grammar":
            return _is_costly_grammar(spec.source)
        case "json":
            return _is_costly_schema(spec.source)
        case "calls":
            sources = [spec.source] if spec.source else []
            sources += [json.dumps(tool.parameters) for tool in spec.tools]
            return any(map(_is_costly_schema, sources))


def may_take_long(spec: ConstraintSpec) -> bool:
    """Whether compiling it, or one of its masks, may take much time or memory.

    The cost of a grammar is not visible in its text if lexemes can follow each other: four times
    `/a+/` have more readings than can be tried.
    """
    if spec.kind == "grammar" and _ONE_LEXEME.match(spec.source) is None:
        return True
    return may_be_hostile(spec)


def is_costly(pattern: str) -> bool:
    """Whether the automaton of a regex may be large."""
    if brackets_depth(pattern) > PLAIN_DEPTH:
        return True
    cost = cost_of(pattern)
    tabled = cost.wide_after_choice <= MAX_WIDE_AFTER_CHOICE
    doubled = cost.states << cost.wide_after_choice if tabled else 0
    return cost.states > PLAIN_STATES or doubled > PLAIN_DOUBLED


def _is_costly_grammar(source: str) -> bool:
    """Repetitions may be nested, which is not visible in the text, so all are multiplied."""
    counts = (int(high or low) for low, high in _REPEATS.findall(source))
    repeats = math.prod(max(1, count) for count in counts)
    if len(source) > PLAIN_GRAMMAR_BYTES or repeats > PLAIN_REPEATS:
        return True
    return _DIRECTIVE.search(source) is not None or grammar_depth(source).most > PLAIN_DEPTH


def forces_short_text(source: str) -> bool:
    """Whether no text that a JSON Schema forces is long, however much it takes to compile it.

    Neither references nor limits on the length of free strings force any text.
    """
    schema = _parsed_plain(source)
    return schema is not None and not any(
        _is_costly_part(here) for here in _parts_of(schema) if not _is_free_string(here)
    )


def _is_costly_schema(source: str) -> bool:
    schema = _parsed_plain(source) if source.count('"$ref"') <= _MAX_REFS else None
    return schema is None or any(map(_is_costly_part, _parts_of(schema)))


def _parsed_plain(source: str) -> Any:
    """The schema if it is neither large, nor deep, nor wrong, which the compiler reports."""
    if len(source) > PLAIN_BYTES:
        return None
    try:
        schema = parsed(source)
    except (ValueError, RecursionError):
        return None
    return None if schema_depth(schema).most > PLAIN_DEPTH else schema


def _parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    todo: list[Any] = [schema]
    while todo:
        here = todo.pop()
        if isinstance(here, list):
            todo += here
        if isinstance(here, dict):
            yield here
            todo += (part for name, part in here.items() if name != "enum" or type(part) is dict)


def _is_free_string(part: dict[str, Any]) -> bool:
    return part.get("type") == "string" and part.keys().isdisjoint(_TEXT_KEYWORDS)


def _is_costly_part(part: dict[str, Any]) -> bool:
    if any(_is_large(part.get(keyword)) for keyword in COUNTS) or _is_large_factor(part):
        return True
    if any(map(_is_beyond, [part.get("const"), *_enumerated(part)])):
        return True
    patterns = part.get("patternProperties")
    named = list(patterns) if isinstance(patterns, dict) else []
    named += [pattern] if isinstance(pattern := part.get("pattern"), str) else []
    return any(cost_of(one).states > PLAIN_LAZY_STATES for one in named)


def _enumerated(schema: dict[str, Any]) -> list[Any]:
    values = schema.get("enum")
    return values if isinstance(values, list) else []


def _is_beyond(value: object) -> bool:
    return isinstance(value, int) and abs(value) > MAX_MAGNITUDE


def _is_large(count: object) -> bool:
    return isinstance(count, int | float) and count > PLAIN_COUNT


def _is_large_factor(schema: dict[str, Any]) -> bool:
    """Whether divisibility needs an automaton with many states: one for each remainder."""
    factor = schema.get("multipleOf")
    digits = re.sub(r"e.*|[.\-]", "", repr(factor)).strip("0")
    return isinstance(factor, int | float) and int(digits or "0") > PLAIN_COUNT
