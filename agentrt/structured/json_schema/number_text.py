"""Regexes of the decimal texts of a range of numbers, exact to the last digit.

A text is plain (`-12.50`), or scientific if the range is wide (`1.25e+30`). Each end of a range
has a regex of its own; a text that matches all of them is in the range.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from agentrt.base.record import record
from agentrt.structured.json_schema.number_range import (
    MAX_INTEGER_DIGITS,
    Bound,
    DecimalRange,
    decade_of,
)

MAX_RUNS = 100
"""Largest number of runs of digits in an end: each is a group inside of another."""

_FRACTION = r"(?:\.[0-9]+)?"
_MANTISSA = rf"[1-9]{_FRACTION}"
_LAST_DECADE = 308
_FIRST_DECADE = -400
"""Below it, all numbers are read as 0."""


class EndTooLong(ValueError):
    """An end of a range has too many digits for a regex."""


@record
class _Digits:
    """A positive decimal as digits; zeros at the end of the fraction are left out."""

    whole: str
    fraction: str


def number_terms(numbers: DecimalRange) -> tuple[str, ...]:
    """Regexes that the text of a number in a range matches, all of them; `step` is left out.

    Raises:
        EndTooLong: An end has too many digits.
    """
    if numbers.whole:
        shape = rf"-?(?:0|[1-9][0-9]{{0,{MAX_INTEGER_DIGITS - 1}}})"
    else:
        shape = rf"-?(?:0|[1-9][0-9]*){_FRACTION}"
    is_wide = numbers.is_wide and numbers.step is None
    ends = [end for end in (numbers.low, numbers.high) if end is not None]
    for end in ends:
        _check_runs(_digits_of(abs(end.at)))
    if is_wide and len(ends) == 2 and ends[0].negated() == ends[1] and ends[1].at > 0:
        return (f"-?{_group(_at_most(ends[1], is_wide))}",)  # no automata to intersect
    if is_wide:
        shape = f"{shape}|-?{_MANTISSA}[eE]{_exponents(_FIRST_DECADE, _LAST_DECADE)}"
    terms = [shape]
    if numbers.low is not None:
        terms.append(_signed(numbers.low, "", "-", is_wide))
    if numbers.high is not None:
        terms.append(_signed(numbers.high.negated(), "-", "", is_wide))
    return tuple(terms)


def decimal_text(number: Fraction) -> str:
    """The plain text of a finite decimal."""
    digits = _digits_of(abs(number))
    text = f"{digits.whole}.{digits.fraction}" if digits.fraction else digits.whole
    return f"-{text}" if number < 0 else text


_ANY = r"[0-9][-+.0-9eE]*"
"""Any number without a sign; its form is checked by another term."""


def _signed(end: Bound, sign: str, other_sign: str, is_wide: bool) -> str:
    """Numbers from `end` on, where positive ones have `sign`, negative ones `other_sign`."""
    if end.at > 0 or (end.at == 0 and end.open):
        return sign + _group(_at_least(end, is_wide))
    if end.at == 0:
        return sign + _ANY if not sign else rf"{sign}{_ANY}|0(?:\.0+)?"
    return f"{sign}{_ANY}|{other_sign}{_group(_at_most(end.negated(), is_wide))}"


def _at_least(low: Bound, is_wide: bool) -> list[str]:
    """Texts without a sign of numbers from `low` on, which is 0 or more."""
    digits = _digits_of(low.at)
    texts = [
        rf"[1-9][0-9]{{{len(digits.whole)},}}{_FRACTION}",
        *_whole_or_more(digits, low.open),
    ]
    if is_wide:
        if low.at == 0:
            return [*texts, f"{_MANTISSA}[eE]{_exponents(_FIRST_DECADE, _LAST_DECADE)}"]
        decade = decade_of(low.at)
        mantissa = _whole_or_more(_digits_of(low.at / Fraction(10) ** decade), low.open)
        texts.append(f"{_group(mantissa)}[eE]{_exponents(decade, decade)}")
        if decade < _LAST_DECADE:
            texts.append(f"{_MANTISSA}[eE]{_exponents(decade + 1, _LAST_DECADE)}")
    return texts


def _at_most(high: Bound, is_wide: bool) -> list[str]:
    """Texts without a sign of numbers up to `high`, which is above 0."""
    digits = _digits_of(high.at)
    texts = _whole_or_less(digits, high.open)
    if len(digits.whole) > 1:
        texts.append(rf"(?:0|[1-9][0-9]{{0,{len(digits.whole) - 2}}}){_FRACTION}")
    if is_wide:
        decade = decade_of(high.at)
        mantissa = _whole_or_less(_digits_of(high.at / Fraction(10) ** decade), high.open)
        texts.append(f"{_group(mantissa)}[eE]{_exponents(decade, decade)}")
        if decade > _FIRST_DECADE:
            texts.append(f"{_MANTISSA}[eE]{_exponents(_FIRST_DECADE, decade - 1)}")
    return texts


def _whole_or_more(digits: _Digits, is_open: bool) -> list[str]:
    """Texts at or above a number, with as many digits before the point."""
    more = r"[0-9]*[1-9][0-9]*" if is_open else "[0-9]*"
    if digits.fraction:
        rest = rf"\.{_above(_runs(digits.fraction), more)}"
    else:
        rest = rf"\.{more}" if is_open else _FRACTION
    texts = [f"{digits.whole}{rest}"]
    higher = _higher_prefixes(digits.whole)
    return texts + [f"{prefix}{_FRACTION}" for prefix in higher]


def _whole_or_less(digits: _Digits, is_open: bool) -> list[str]:
    """Texts at or below a number, with as many digits before the point."""
    texts: list[str] = []
    if digits.fraction:
        texts.append(rf"{digits.whole}(?:\.{_below(_runs(digits.fraction), is_open)})?")
    elif not is_open:
        texts.append(rf"{digits.whole}(?:\.0+)?")
    lower = _lower_prefixes(digits.whole)
    return texts + [f"{prefix}{_FRACTION}" for prefix in lower]


def _higher_prefixes(whole: str) -> list[str]:
    """Digit strings as long as `whole` and higher."""
    return [
        f"{whole[:at]}{_one_of(int(digit) + 1, 9)}{_some(len(whole) - at - 1)}"
        for at, digit in enumerate(whole)
        if digit != "9"
    ]


def _lower_prefixes(whole: str) -> list[str]:
    """Digit strings as long as `whole` and lower, without a 0 in front of another digit."""
    found: list[str] = []
    for at, digit in enumerate(whole):
        least = 1 if at == 0 and len(whole) > 1 else 0
        if int(digit) > least:
            digits = _one_of(least, int(digit) - 1)
            found.append(f"{whole[:at]}{digits}{_some(len(whole) - at - 1)}")
    return found


def _above(runs: Sequence[str], more: str) -> str:
    """Fractions at or above the digits of `runs`; `more` follows all of them."""
    if not runs:
        return more
    run, rest = runs[0], _above(runs[1:], more)
    digit, count = run[0], len(run)
    if digit == "9":
        return f"{_times(digit, count)}{rest}"
    higher = f"{_one_of(int(digit) + 1, 9)}[0-9]*"
    fewer = f"{digit}{{0,{count - 1}}}" if count > 1 else ""
    return f"(?:{_times(digit, count)}{rest}|{fewer}{higher})"


def _below(runs: Sequence[str], is_open: bool) -> str:
    """Fractions at or below the digits of `runs`, one digit at least."""
    run = runs[0]
    digit, count = run[0], len(run)
    options: list[str] = []
    if len(runs) > 1:
        options.append(f"{_times(digit, count)}(?:{_below(runs[1:], is_open)})?")
    elif not is_open:
        options.append(f"{_times(digit, count)}0*")
    if count > 1:
        options.append(f"{digit}{{1,{count - 1}}}")
    if digit != "0":
        fewer = f"{digit}{{0,{count - 1}}}" if count > 1 else ""
        options.append(f"{fewer}{_one_of(0, int(digit) - 1)}[0-9]*")
    return _group(options)


def _digits_of(number: Fraction) -> _Digits:
    """The digits of a finite decimal, 0 or more."""
    places = 0
    while number.denominator != 1:
        steps = max(1, (number.denominator & -number.denominator).bit_length() - 1)
        places, number = places + steps, number * 10**steps
    digits = str(number.numerator).rjust(places + 1, "0")
    at = len(digits) - places
    return _Digits(digits[:at], digits[at:].rstrip("0"))


def _check_runs(digits: _Digits) -> None:
    if max(len(_runs(digits.whole)), len(_runs(digits.fraction))) > MAX_RUNS:
        raise EndTooLong


def _runs(digits: str) -> list[str]:
    """`digits`, cut where a digit differs from the one before."""
    found: list[str] = []
    for digit in digits:
        if found and found[-1][0] == digit:
            found[-1] += digit
        else:
            found.append(digit)
    return found


def _exponents(low: int, high: int) -> str:
    """Exponents from `low` to `high`, with a sign and a 0 in front as Python writes them."""
    options: list[str] = []
    if high >= 0:
        options.append(rf"\+?0?{_group(_naturals(max(0, low), high))}")
    if low < 0:
        options.append(f"-0?{_group(_naturals(max(0, -high), -low))}")
    return _group(options)


def _naturals(low: int, high: int) -> list[str]:
    """Integers of at most three digits from `low` to `high`, both 0 or more."""
    found: list[str] = []
    at = low
    while at <= high:
        if at % 10 == 0 and at + 9 <= high and at > 0:
            last = min(high - 9, at // 100 * 100 + 90) // 10
            found.append(f"{at // 100 or ''}{_one_of(at // 10 % 10, last % 10)}[0-9]")
            at = (last + 1) * 10
        else:
            last = min(high, at // 10 * 10 + 9)
            found.append(f"{at // 10 or ''}{_one_of(at % 10, last % 10)}")
            at = last + 1
    return found


def _group(options: Sequence[str]) -> str:
    return f"(?:{'|'.join(options)})"


def _one_of(low: int, high: int) -> str:
    return str(low) if low == high else f"[{low}-{high}]"


def _some(count: int) -> str:
    return f"[0-9]{{{count}}}" if count else ""


def _times(digit: str, count: int) -> str:
    return digit if count == 1 else f"{digit}{{{count}}}"
