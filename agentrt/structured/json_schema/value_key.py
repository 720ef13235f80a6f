"""Keys of JSON values: equal values share one, and no others do.

To JSON Schema 1.0 is 1, true is not 1, and an object has no order, unlike to Python. A key is JSON
text with sorted names and numbers as digits and an exponent. Numbers are compared as decimals; that
the floats read from them differ, too, is left to the check of the finished value.
"""

from __future__ import annotations

import json
import re
from typing import Any

_WRITTEN = re.compile(r"(-?)([0-9]+)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")


class NumberKey(str):
    """A number as it stands in a key."""


def key_of(text: bytes) -> bytes | None:
    """The key of the value of JSON text; None if that is not complete, or nested too deeply."""
    try:
        return _dumped(json.loads(text, parse_int=_canonical, parse_float=_canonical)).encode()
    except (ValueError, RecursionError):
        return None


def key_of_value(value: Any) -> bytes | None:
    """The key of a value as Python writes it; None if it is nested too deeply."""
    try:
        return key_of(json.dumps(value).encode())
    except RecursionError:
        return None


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON; values that are nested too deeply equal no other."""
    key = key_of_value(one)
    return key is not None and key == key_of_value(other)


def _canonical(text: str) -> NumberKey:
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]} is no finite number")
    sign, whole, fraction, exponent = found.groups()
    digits = (whole + fraction).lstrip("0")
    significand = digits.rstrip("0")
    if not significand:
        return NumberKey("0e0")
    power = int(exponent or "0") - len(fraction) + len(digits) - len(significand)
    return NumberKey(f"{sign}{significand}e{power}")


def _dumped(value: Any) -> str:
    match value:
        case NumberKey():
            return str(value)
        case dict():
            pairs = (f"{_quoted(name)}:{_dumped(value[name])}" for name in sorted(value))
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(map(_dumped, value))}]"
        case _:
            return _quoted(value)


_quoted = json.JSONEncoder(ensure_ascii=False).encode
