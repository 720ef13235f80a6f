"""Forms of values that are written as text: days, times, durations, decimals, rules for strings.

Each is a JSON Schema of text that pydantic reads as a value within the stated bounds. A form may be
narrower than what pydantic reads: of two ways to write a value, one is enough.
"""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaValue

from agentrt.structured.json_schema import formats
from agentrt.structured.json_schema.number_range import Bound, DecimalRange, exact
from agentrt.structured.json_schema.number_steps import StepTerms, step_terms
from agentrt.structured.json_schema.number_text import number_terms
from agentrt.structured.types.text_order import at_least, at_most

_DAY = dt.timedelta(days=1)
_UNITS_S = {"D": 86_400, "H": 3_600, "M": 60, "S": 1}
_MAX_DAYS = 999_999_999
_MAX_COUNT = 999_999
_FLOAT_DIGITS = 15


def text(pattern: str, *further: str) -> JsonSchemaValue:
    """Text that matches all patterns as a whole."""
    written: JsonSchemaValue = {"type": "string", "pattern": formats.anchored(pattern)}
    if further:
        written["allOf"] = [{"pattern": formats.anchored(one)} for one in further]
    return written


def date(schema: Any) -> JsonSchemaValue:
    """A day of the calendar."""
    low, high = _ends(schema, _DAY)
    if schema.get("now_op") == "past":  # as of now, with room for time zones
        high = min(high or dt.date.max, dt.datetime.now(dt.UTC).date() - 2 * _DAY)
    return text(formats.DATE, *_within(low, high, str))


def time(schema: Any) -> JsonSchemaValue:
    """A time of day, without a zone if it has bounds."""
    stated = [schema[end] for end in ("ge", "gt", "le", "lt") if end in schema]
    if not stated or any(one.tzinfo for one in stated):
        return text(formats.PYTHON_TIME)
    day = dt.date(2000, 1, 1)
    moved = {end: dt.datetime.combine(day, schema[end]) for end in _ENDS if end in schema}
    low, high = _ends(moved, dt.timedelta(seconds=1))
    return text(formats.NAIVE_TIME, *_within(_whole(low), high, lambda at: f"{at:%H:%M:%S}"))


def datetime(schema: Any) -> JsonSchemaValue:
    """A moment, in UTC or without a zone if it has bounds."""
    zone = schema.get("tz_constraint")
    low, high = _ends(schema, dt.timedelta(seconds=1))
    if schema.get("now_op") == "past":
        latest = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0) - 2 * _DAY
        high = latest if high is None else min(_in_utc(high), latest)
    if low is None and high is None:
        by_zone = {None: formats.PYTHON_DATETIME, "naive": formats.NAIVE_DATETIME}
        return text(by_zone.get(zone, formats.AWARE_DATETIME))
    form = formats.NAIVE_DATETIME if zone in (None, "naive") else f"{formats.NAIVE_DATETIME}Z"
    shown = (None if at is None else _in_utc(at) for at in (low, high))
    first, last = shown
    return text(form, *_within(_whole(first), last, lambda at: at.isoformat(timespec="seconds")))


def timedelta(schema: Any) -> JsonSchemaValue:
    """A duration; in one unit if it has bounds."""
    low, high = _ends(schema, dt.timedelta(microseconds=1))
    if low is None and high is None:
        return text(formats.DURATION)
    options = []
    for unit, unit_s in _UNITS_S.items():
        step = dt.timedelta(seconds=unit_s)
        most = _MAX_DAYS if unit == "D" else _MAX_COUNT
        first = max(-most, -most if low is None else -(-low // step))
        last = min(most, most if high is None else high // step)
        mark = "P" if unit == "D" else "PT"
        options += [
            text(rf"{sign}{mark}[0-9]+{unit}", *_counted(mark, unit, sign, *ends))
            for sign, ends in (("", (max(first, 0), last)), ("-", (max(-last, 1), -first)))
            if ends[0] <= ends[1]
        ]
    return {"anyOf": options}


def _counted(mark: str, unit: str, sign: str, low: int, high: int) -> list[str]:
    terms = number_terms(DecimalRange(True, Bound(exact(low), False), Bound(exact(high), False)))
    return [f"{sign}{mark}(?:{term}){unit}" for term in terms]


def decimal(schema: Any) -> JsonSchemaValue | None:
    """Decimals with bounds or counted digits, as text: a number would be read as a float.

    None if there are neither, or if they have no regex.
    """
    ends = {keyword: schema[keyword] for keyword in _ENDS if keyword in schema}
    step, counted = (
        schema.get("multiple_of"),
        (schema.get("max_digits"), schema.get("decimal_places")),
    )
    if not ends and step is None and counted == (None, None):
        return None
    lows = [Bound(exact(ends[k]), k == "gt") for k in ("ge", "gt") if k in ends]
    highs = [Bound(exact(ends[k]), k == "lt") for k in ("le", "lt") if k in ends]
    numbers = DecimalRange(
        False,
        max(lows, key=lambda end: (end.at, end.open), default=None),
        min(highs, key=lambda end: (end.at, not end.open), default=None),
        None if step is None else exact(step),
    )
    steps = StepTerms() if step is None else step_terms(numbers, by_rules=False)
    if steps is None:
        return None
    patterns = [*number_terms(numbers)[1:], *steps.patterns]
    most_whole = max([19, *(len(str(int(abs(end.at)))) + 1 for end in (*lows, *highs))]) - 1
    return text(formats.decimal(*counted, most_whole), *patterns)


def decimal_number(schema: Any, written: JsonSchemaValue) -> JsonSchemaValue:
    """Decimals as multiples: numbers of so few digits that the float which is read loses none.

    Args:
        schema: The core schema.
        written: Pydantic's JSON Schema of the number.
    """
    step, most = exact(schema["multiple_of"]), schema.get("decimal_places")
    if most is not None:
        finest = Fraction(1, 10**most)
        factor = math.gcd(step.denominator, finest.denominator)
        step = Fraction(math.lcm(step.numerator, finest.numerator), factor)
    places = 0
    while (step * 10**places).denominator != 1:
        places += 1
    whole = _FLOAT_DIGITS - places
    if schema.get("max_digits") is not None:
        whole = min(whole, schema["max_digits"] - max(places, most or 0))
    if whole < 1:
        raise PydanticInvalidForJsonSchema("a multiple_of with so many digits has no numbers")
    end = 10**whole
    bounds = {
        "multipleOf": int(step) if step.denominator == 1 else float(step),
        "exclusiveMinimum": max(-end, written.get("exclusiveMinimum", -end)),
        "exclusiveMaximum": min(end, written.get("exclusiveMaximum", end)),
    }
    return {**written, **bounds}


def string(schema: Any, written: JsonSchemaValue) -> JsonSchemaValue:
    """A string whose rules hold once spaces around it are gone.

    Args:
        schema: The core schema.
        written: Pydantic's JSON Schema of it.
    """
    further = []
    if schema.get("strip_whitespace") and written.keys() & {"pattern", "minLength"}:
        further.append(r"(?:\S(?:(?s:.)*\S)?)?")
    if schema.get("ascii_only"):
        further.append(r"[\x00-\x7F]*")
    return _all_of(written, further)


_PREDICATES: dict[Any, str] = {
    str.islower: r"(?s:[^\p{Lu}\p{Lt}\p{Uppercase}])*[a-z](?s:[^\p{Lu}\p{Lt}\p{Uppercase}])*",
    str.isupper: r"(?s:[^\p{Ll}\p{Lt}\p{Lowercase}])*[A-Z](?s:[^\p{Ll}\p{Lt}\p{Lowercase}])*",
    str.isdigit: r"[0-9]+",
    str.isdecimal: r"[0-9]+",
    str.isascii: r"[\x00-\x7F]*",
}
_ALWAYS = (math.isfinite,)
_NEVER = (math.isnan, math.isinf)


def _is_not(predicate: Any) -> bool:
    """Whether a predicate is `Not(...)` of `annotated_types`, which only its users have."""
    return type(predicate).__name__ == "Not"


def fulfilling(predicate: Any, written: JsonSchemaValue) -> JsonSchemaValue:
    """A schema narrowed to values for which a known predicate holds.

    Raises:
        PydanticInvalidForJsonSchema: The predicate holds for no value of JSON.
    """
    is_not = _is_not(predicate)
    function = predicate.func if is_not else predicate
    if function in (_ALWAYS if is_not else _NEVER):
        raise PydanticInvalidForJsonSchema("JSON has finite numbers only")
    pattern = None if is_not else _PREDICATES.get(function)
    return written if pattern is None else _all_of(written, [pattern])


def is_known(predicate: Any) -> bool:
    """Whether `fulfilling` knows a predicate."""
    function = predicate.func if _is_not(predicate) else predicate
    known = function in _ALWAYS or function in _NEVER
    return known if _is_not(predicate) else known or function in _PREDICATES


def _all_of(written: JsonSchemaValue, patterns: list[str]) -> JsonSchemaValue:
    if not patterns:
        return written
    more = [{"pattern": formats.anchored(one)} for one in patterns]
    if "pattern" not in written:
        first, *more = more
        written = {**written, **first}
    return {**written, "allOf": [*written.get("allOf", ()), *more]} if more else written


_ENDS = ("ge", "gt", "le", "lt")


def _ends(schema: Any, step: dt.timedelta) -> tuple[Any, Any]:
    """The inclusive ends of a range, an open end moved by a step."""
    lows = [schema["ge"]] if "ge" in schema else []
    highs = [schema["le"]] if "le" in schema else []
    lows += [schema["gt"] + step] if "gt" in schema else []
    highs += [schema["lt"] - step] if "lt" in schema else []
    return max(lows, default=None), min(highs, default=None)


def _whole(at: Any) -> Any:
    """The next whole second."""
    return at if at is None or not at.microsecond else at.replace(microsecond=0) + _SECOND


_SECOND = dt.timedelta(seconds=1)


def _in_utc(at: dt.datetime) -> dt.datetime:
    return at.astimezone(dt.UTC).replace(tzinfo=None) if at.tzinfo else at


def _within(low: Any, high: Any, shown: Any) -> list[str]:
    """Patterns of texts between two ends, which are as long as each other."""
    terms = [] if low is None else [at_least(shown(low))]
    return terms if high is None else [*terms, at_most(shown(high))]
