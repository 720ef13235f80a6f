"""Check of a finished value against a JSON Schema, with numbers compared as exact decimals.

A number with a fraction is kept as written beside the float that is read from it: both must fit.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from agentrt.structured.json_schema.keywords import COUNTS, UNREAD, subschemas
from agentrt.structured.json_schema.number_range import exact
from agentrt.structured.json_schema.quick_check import Check, quick_check
from agentrt.structured.json_schema.text_language import TooComplex, matching
from agentrt.structured.json_schema.value_key import key_of_value

_CODE_POINT = re.compile(r"\\x\{([0-9a-fA-F]+)\}")
_MAX_DECADES = 5_000
_WITHOUT_NUMBERS = UNREAD | {
    *("type", "properties", "required", "additionalProperties", "items", "prefixItems"),
    *("pattern", "format", "anyOf", "oneOf", "allOf", "$ref", *COUNTS),
}
"""Keywords that no number's digits matter to; `type` takes 1.0 for an integer, as its float is."""
_COUNTING = frozenset({"oneOf", "not", "if", "contains"})


class WrittenNumber(float):
    """A float with the decimal that was written for it."""

    decimal: Decimal

    def __new__(cls, text: str) -> WrittenNumber:
        number = super().__new__(cls, _finite(text))
        number.decimal = Decimal(text)
        return number


def read_written(text: str) -> Any:
    """The value of JSON text, numbers with a fraction as they are written.

    Raises:
        ValueError: The text is not JSON, or a number of it is too large for a float.
    """
    return json.loads(text, parse_float=WrittenNumber)


class Unmet(ValueError):
    """A value fails its check; the message says where and why."""


def read_checked(schema: dict[str, Any]) -> Callable[[str], Any]:
    """A reader of JSON text that checks what a grammar promises.

    The grammar alone decides on patterns, unless what does not match is asked for, too.

    Returns:
        A function from text to its value, which raises `Unmet` if the value does not fit `schema`.
    """

    @functools.cache  # servers declare schemas and read no values
    def quick() -> Check | None:
        return None if _is_old(schema) else quick_check(schema, _decimal)

    @functools.cache
    def complete() -> Any:
        import jsonschema
        import referencing

        draft = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        validator = exact_validator(draft, patterns=_counts_matches(schema))
        return validator(schema, registry=referencing.Registry())

    read_text = _read_twice if _compares_numbers(schema) else _read_once

    def read(text: str) -> Any:
        written, value = read_text(text)
        fits = quick()
        if fits is not None and fits(written):
            return value
        import referencing

        validator = complete()
        try:
            wrong = next(validator.iter_errors(written), None)
        except (referencing.exceptions.Unresolvable, re.error):
            return value  # the compiler reads it, the validator does not
        if wrong is not None:
            raise Unmet(f"{'/'.join(map(str, wrong.path)) or 'the whole'}: {wrong.message[:300]}")
        return value

    return read


def _read_twice(text: str) -> tuple[Any, Any]:
    """The value with numbers as they are written, and with floats: the same if it has none."""
    floats: list[str] = []

    def kept(number: str) -> WrittenNumber:
        floats.append(number)
        return WrittenNumber(number)

    written = json.loads(text, parse_float=kept)
    return written, json.loads(text) if floats else written


def _read_once(text: str) -> tuple[Any, Any]:
    """The value with floats, twice."""
    value = json.loads(text, parse_float=_finite)
    return value, value


def _compares_numbers(schema: Any) -> bool:
    """Whether a schema may compare numbers, or is read by the complete validator."""
    parts = [here for _, here, _ in subschemas(schema) if isinstance(here, dict)]
    return not {keyword for here in parts for keyword in here} <= _WITHOUT_NUMBERS


def _counts_matches(schema: Any) -> bool:
    """Whether a value may fit a schema because it does not match some pattern."""
    named = {k for _, here, _ in subschemas(schema) if isinstance(here, dict) for k in here}
    return "pattern" in named and bool(named & _COUNTING)


def _is_old(schema: Any) -> bool:
    """Whether a schema is of another draft, where its keywords may mean something else."""
    return isinstance(schema, dict) and "2020-12" not in schema.get("$schema", "2020-12")


def unmet(schema: Any, value: Any) -> str | None:
    """Why a value does not fit a schema; None if it fits."""
    error = next(exact_validator()(schema).iter_errors(value), None)
    return None if error is None else str(error.message)


@functools.cache
def exact_validator(draft: Any = None, *, patterns: bool = True) -> Any:
    """A validator class whose numbers are exact.

    Args:
        draft: The class of the schema's draft; None for draft 2020-12.
        patterns: Whether `pattern` is checked, in Python's dialect.
    """
    import jsonschema

    return jsonschema.validators.extend(
        draft or jsonschema.Draft202012Validator,
        {
            "minimum": _end(lambda number, end: number >= end, "less than the minimum of"),
            "maximum": _end(lambda number, end: number <= end, "greater than the maximum of"),
            "exclusiveMinimum": _end(lambda number, end: number > end, "not greater than"),
            "exclusiveMaximum": _end(lambda number, end: number < end, "not less than"),
            "multipleOf": _multiple_of,
            "pattern": _pattern if patterns else _accept,
            "uniqueItems": _distinct,
        },
    )


_Errors = Iterator[Any]


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> _Errors:
    if isinstance(value, str) and not _is_match(pattern, value):
        yield _error(f"{value!r} does not match {pattern!r}")


def _is_match(pattern: str, text: str) -> bool:
    """Whether a text contains a match, in the compiler's dialect unless the pattern is large."""
    try:
        return matching(pattern).holds(text)
    except TooComplex:
        in_python = _CODE_POINT.sub(lambda found: f"\\U{int(found[1], 16):08x}", pattern)
        return re.search(in_python, text) is not None


def _accept(validator: Any, pattern: Any, value: Any, schema: Any) -> _Errors:
    return iter(())


def _end(fits: Callable[[Any, Any], bool], words: str) -> Callable[..., _Errors]:
    def check(validator: Any, end: Any, value: Any, schema: Any) -> _Errors:
        if not validator.is_type(value, "number"):
            return
        end_decimal = Decimal(repr(end)) if isinstance(end, float) else Decimal(end)
        if fits(_decimal(value), end_decimal) and (isinstance(value, int) or fits(value, end)):
            return
        yield _error(f"{_shown(value)} is {words} {end}")

    return check


def _distinct(validator: Any, wanted: bool, value: Any, schema: Any) -> _Errors:
    """Items compared in JSON: sorted by Python, true and 1 come to lie between equal items."""
    if wanted and validator.is_type(value, "array"):
        keys = [key_of_value(item) for item in value]
        if len(set(keys)) < len(keys):
            yield _error(f"{str(value)[:300]} has non-unique elements")


def _multiple_of(validator: Any, step: Any, value: Any, schema: Any) -> _Errors:
    if not validator.is_type(value, "number"):
        return
    decimal = _decimal(value)
    near = decimal.is_finite() and abs(decimal.adjusted()) < _MAX_DECADES
    if not near or (Fraction(decimal) / exact(step)).denominator != 1:
        yield _error(f"{_shown(value)} is not a multiple of {step}")


def _finite(text: str) -> float:
    """A float as written in JSON.

    Raises:
        Unmet: The number is too large for a float.
    """
    number = float(text)
    if math.isinf(number):
        raise Unmet(f"{text[:100]} is too large for a float")
    return number


def _decimal(value: Any) -> Decimal:
    if isinstance(value, WrittenNumber):
        return value.decimal
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _shown(value: Any) -> str:
    return str(value.decimal if isinstance(value, WrittenNumber) else value)[:100]


def _error(message: str) -> Any:
    import jsonschema

    return jsonschema.ValidationError(message)
