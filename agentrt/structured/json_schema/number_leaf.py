"""Numbers of one level of a schema: whether the compiler writes them exactly, and our regexes."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from agentrt.base.record import record
from agentrt.structured.json_schema.digit_chains import DigitChain
from agentrt.structured.json_schema.keywords import with_children, without
from agentrt.structured.json_schema.lark_text import terminal
from agentrt.structured.json_schema.number_range import DecimalRange, exact, ranges_of
from agentrt.structured.json_schema.number_steps import StepTerms, step_terms
from agentrt.structured.json_schema.number_text import EndTooLong, number_terms

NUMERIC = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})

_EXACT_INTEGER = 2**53
_EXACT_NUMBER = 10**15
_ENDS = (
    ("minimum", "exclusiveMinimum", -_EXACT_NUMBER),
    ("maximum", "exclusiveMaximum", _EXACT_NUMBER),
)
_SIGNS = {"minimum": 1, "exclusiveMinimum": 1, "maximum": -1, "exclusiveMaximum": -1}
"""Keywords of ends, and the direction in which an end leaves fewer numbers."""

_OPEN_ENDS: tuple[tuple[str, str, int, Callable[[float, float], float]], ...] = (
    ("minimum", "exclusiveMinimum", 1, max),
    ("maximum", "exclusiveMaximum", -1, min),
)
_NEAR_ZERO = 1e-15

_MAX_REMAINDERS = 10**5
"""The compiler visits all remainders: so many take 0.3 s. Beyond 10^8 they do not fit its words."""

_MAX_PLACES = 9
_EXACT_DIGITS = 15


def is_exact(schema: dict[str, Any]) -> bool:
    """Whether the compiler's numbers are exactly those of this level of a schema."""
    if "enum" in schema or "const" in schema:
        return all(_is_plain(value) for value in (*schema.get("enum", ()), schema.get("const")))
    kinds = schema.get("type", "number" if schema.keys() & NUMERIC else "null")
    if "number" in kinds:
        return False
    if "integer" not in kinds:
        return True
    (numbers,) = ranges_of(schema, whole=True)
    if numbers.low is None or numbers.high is None:
        return False
    step = numbers.step
    if step is not None and not (step == exact(schema["multipleOf"]) and _is_read(step)):
        return False
    return max(abs(numbers.low.at), abs(numbers.high.at)) <= _EXACT_INTEGER


def _is_plain(value: Any) -> bool:
    """Whether all numbers in a value survive the compiler."""
    match value:
        case bool():
            return True
        case int():
            return abs(value) <= _EXACT_INTEGER
        case float():
            text = repr(value)
            return "e" not in text and len(text) <= _EXACT_DIGITS and not value.is_integer()
        case list():
            return all(map(_is_plain, value))
        case dict():
            return all(map(_is_plain, value.values()))
        case _:
            return True


@record
class NumberTerminal:
    """Terms of a terminal of numbers: a text matches all of them.

    Attributes:
        patterns: Regexes.
        chains: Chains of rules.
    """

    patterns: tuple[str, ...]
    chains: tuple[DigitChain, ...] = ()

    def lark(self, written: Callable[[DigitChain], str]) -> str:
        """The terminal; `written` gives the expression of a chain, whose rules it writes."""
        return " & ".join([*map(terminal, self.patterns), *map(written, self.chains)])


def number_terminals(schema: dict[str, Any], *, whole: bool) -> tuple[NumberTerminal, ...] | None:
    """Terminals of the numbers of this level, for each of its ranges.

    None if there are none of a reasonable size, or those of the compiler are exact.
    """
    stated = {keyword: value for keyword, value in schema.items() if keyword in NUMERIC}
    return _terminals(json.dumps(stated), whole)


@functools.lru_cache(maxsize=1024)
def _terminals(stated: str, whole: bool) -> tuple[NumberTerminal, ...] | None:
    found: list[NumberTerminal] = []
    for numbers in ranges_of(json.loads(stated), whole=whole):
        if numbers.is_empty:
            continue
        steps: StepTerms | None = StepTerms()
        if numbers.step is not None:
            steps = step_terms(numbers)
        if steps is None or (steps.chains and _is_of_compiler(numbers)):
            return None
        try:
            patterns = number_terms(numbers)
        except EndTooLong:
            return None
        found.append(NumberTerminal((*patterns, *steps.patterns), steps.chains))
    return tuple(found)


def has_step(schema: dict[str, Any]) -> bool:
    """Whether `multipleOf` is written by us, or read exactly by the compiler."""
    whole = schema.get("type") == "integer"
    if number_terminals(schema, whole=whole) is not None:
        return True
    (numbers, *_) = ranges_of(schema, whole=whole)
    if whole:
        return is_exact(schema) or _is_of_compiler(numbers)
    assert numbers.step is not None
    ends = [exact(schema[keyword]) for keyword in _SIGNS if keyword in schema]
    return _is_read(numbers.step) and max(map(abs, ends), default=0) <= _EXACT_NUMBER


def _is_of_compiler(numbers: DecimalRange) -> bool:
    """Whether the compiler writes the integers of a range with a step, of any length."""
    ends = [abs(end.at) for end in (numbers.low, numbers.high) if end is not None]
    is_near = max(ends, default=Fraction(0)) <= _EXACT_NUMBER
    return numbers.whole and is_near and numbers.step is not None and _is_read(numbers.step)


def _is_read(step: Fraction) -> bool:
    """Whether the compiler reads a step as it is, and it has few remainders."""
    read, places = float(step), 0
    while not read.is_integer() and places <= _MAX_PLACES:
        read, places = read * 10, places + 1
    if Fraction(read) / 10**places != step:
        return False
    return read <= _MAX_REMAINDERS


def narrowed(schema: Any) -> Any:
    """`schema` with numbers that the compiler bears: fewer of them, and never others."""
    if not isinstance(schema, dict):
        return schema
    here: Any = schema
    if not is_exact(schema):
        here = _within_exact(dict(schema))
        here = here if here is False else _without_large_values(_without_open_ends(here))
    return here if here is False else with_children(here, narrowed)


def _within_exact(schema: dict[str, Any]) -> Any:
    """Bounds as the compiler reads them; False if one leaves nothing."""
    if schema.get("type") == "integer" and "multipleOf" in schema:
        schema["multipleOf"] = exact(schema["multipleOf"]).numerator
    if "number" in schema.get("type", ""):  # an exponent of the compiler may be any
        for keyword, also, end in _ENDS:
            if keyword not in schema and also not in schema:
                schema[keyword] = end
    for keyword, sign in _SIGNS.items():
        stated = exact(schema.get(keyword, 0)) * sign
        if stated > _EXACT_NUMBER:
            return False
        if stated < -_EXACT_NUMBER:
            schema[keyword] = -sign * _EXACT_NUMBER
    return schema


def _without_open_ends(schema: dict[str, Any]) -> dict[str, Any]:
    """Whole ends that are excluded, as the next floats: the compiler takes 1 for above 1.

    Only where numbers beyond have more digits or a larger magnitude, which it reads rightly.
    """
    if schema.get("type") == "integer":
        return schema
    for keyword, exclusive, sign, pick in _OPEN_ENDS:
        end = schema.get(exclusive)
        if end is None or end != int(end) or end * sign < 0:
            continue
        inside = math.nextafter(end, sign * math.inf) if end else sign * _NEAR_ZERO
        schema = without(schema, exclusive)
        schema[keyword] = pick(inside, schema.get(keyword, inside))
    return schema


def _without_large_values(schema: dict[str, Any]) -> Any:
    if "const" in schema and not _is_small(schema["const"]):
        return False
    if "enum" in schema:
        values = [value for value in schema["enum"] if _is_small(value)]
        return {**schema, "enum": values} if values else False
    return schema


def _is_small(value: Any) -> bool:
    match value:
        case bool():
            return True
        case int() | float():
            return abs(value) <= _EXACT_INTEGER
        case list():
            return all(map(_is_small, value))
        case dict():
            return all(map(_is_small, value.values()))
        case _:
            return True
