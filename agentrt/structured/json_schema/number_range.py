"""Exact range of the numbers that a schema allows, as decimals and as the floats read from them.

All arithmetic is in integers and fractions. A float stands for the decimal that Python writes for
it: `0.1` means one tenth. A number with a fraction is read as a float, so that its bounds hold
twice: for the decimal as written, and for the float, which the reader compares.
"""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

from agentrt.base.record import record

Number = int | float | Decimal

MAX_INTEGER_DIGITS = 4_300
"""Longest integer that Python reads."""

_SHORTEST_DIGITS = 17
"""Significant digits that tell any two floats apart."""

_EVERY_INTEGER = 2**53
"""Floats hold every integer up to here."""

_EXACT_DIGITS = 25
"""Significant digits of a bound that is kept exactly; a longer one is rounded inwards."""


@record
class Bound:
    """One end of a range.

    Attributes:
        at: The number.
        open: Whether the number itself is excluded.
    """

    at: Fraction
    open: bool = False

    def negated(self) -> Bound:
        return Bound(-self.at, self.open)


@record
class DecimalRange:
    """The numbers of a schema.

    Attributes:
        whole: Whether only integers without a decimal point are allowed.
        low: The lower end; None if there is none. Numbers with a fraction have both, as floats do.
        high: The upper end.
        step: All numbers are multiples of it, or None. Whole numbers have a whole one.
        is_wide: Whether it reaches so far that an exponent is the natural notation.
    """

    whole: bool
    low: Bound | None
    high: Bound | None
    step: Fraction | None = None
    is_wide: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no number lies between the ends."""
        if self.low is None or self.high is None:
            return False
        multiples = self.multiples()
        if multiples is not None:
            return not multiples
        if self.low.at == self.high.at:
            return self.low.open or self.high.open
        return self.low.at > self.high.at

    def multiples(self) -> range | None:
        """The factors of the step between both ends; None if an end or the step is missing."""
        if self.low is None or self.high is None or self.step is None:
            return None
        first, last = math.ceil(self.low.at / self.step), math.floor(self.high.at / self.step)
        first += self.low.open and first * self.step == self.low.at
        last -= self.high.open and last * self.step == self.high.at
        return range(first, last + 1)

    def holds(self, number: Fraction) -> bool:
        """Whether a number, as a decimal, is in the range."""
        low, high, step = self.low, self.high, self.step
        if low is not None and (number < low.at or (low.open and number == low.at)):
            return False
        if high is not None and (number > high.at or (high.open and number == high.at)):
            return False
        if self.whole and number.denominator != 1:
            return False
        return step is None or (number / step).denominator == 1


def ranges_of(schema: dict[str, Any], *, whole: bool) -> tuple[DecimalRange, ...]:
    """The ranges of the numeric keywords of a schema: a number in any of them fits.

    Args:
        schema: One level of a schema.
        whole: Whether its type is `integer`.
    """
    lows = _stated(schema, "minimum", "exclusiveMinimum")
    highs = _stated(schema, "maximum", "exclusiveMaximum")
    step = exact(schema["multipleOf"]) if "multipleOf" in schema else None
    if whole:
        return (_integers([one.end for one in lows], [one.end for one in highs], step),)
    is_wide = not lows or not highs or any(abs(one.end.at) > 10**18 for one in (*lows, *highs))
    read_lows = [_read_below(one.negated()).negated() for one in (*lows, _LEAST)]
    read_highs = [_read_below(one) for one in (*highs, _MOST)]
    read = DecimalRange(
        False,
        max(read_lows, key=lambda end: (end.at, end.open)),
        min(read_highs, key=lambda end: (end.at, not end.open)),
        step,
        is_wide,
    )
    if all(abs(one.end.at) <= _EVERY_INTEGER for one in (*lows, *highs) if not one.end.open):
        return (read,)
    # Integers are read as they are: the largest of 64 bits is in its range, the float is not.
    return read, _integers(_whole_ends(lows, read_lows), _whole_ends(highs, read_highs), step)


def _whole_ends(stated: list[_Stated], read: list[Bound]) -> list[Bound]:
    """The ends of integers: as stated if included, as read by a float if excluded."""
    pairs = zip(stated, read, strict=False)
    ends = [as_read if one.end.open else one.end for one, as_read in pairs]
    return [*ends, *read[len(stated) :]]


def _integers(lows: list[Bound], highs: list[Bound], step: Fraction | None) -> DecimalRange:
    low = max((_next_integer(end) for end in lows), key=lambda end: end.at, default=None)
    below = [_next_integer(end.negated()).negated() for end in highs]
    if step is not None:
        step = Fraction(step.numerator)  # 0.7 divides no other integers than 7 does
    return DecimalRange(True, low, min(below, key=lambda end: end.at, default=None), step)


def exact(number: Number) -> Fraction:
    """The number that Python writes for `number`."""
    return Fraction(Decimal(repr(number)) if isinstance(number, float) else number)


@record
class _Stated:
    """An end as stated.

    Attributes:
        end: The end as a decimal.
        compared: The number that a reader compares floats with.
    """

    end: Bound
    compared: float | int

    def negated(self) -> _Stated:
        return _Stated(self.end.negated(), -self.compared)


_MOST = _Stated(Bound(Fraction(2**1024)), sys.float_info.max)
_LEAST = _MOST.negated()


def _stated(schema: dict[str, Any], inclusive: str, exclusive: str) -> list[_Stated]:
    return [
        _Stated(
            Bound(exact(schema[keyword]), keyword == exclusive),
            schema[keyword] if isinstance(schema[keyword], int) else float(schema[keyword]),
        )
        for keyword in (inclusive, exclusive)
        if keyword in schema
    ]


def _next_integer(low: Bound) -> Bound:
    """The smallest integer of a lower end."""
    ceiling = math.ceil(low.at)
    return Bound(Fraction(ceiling + (low.open and ceiling == low.at)))


def _read_below(high: _Stated) -> Bound:
    """The upper end of the decimals that are within `high`, and are read as floats within it."""
    largest = sys.float_info.max
    if abs(high.compared) < largest:
        largest = float(high.compared)
    elif high.compared < 0:
        largest = -largest
    while largest > high.compared or (high.end.open and largest == high.compared):
        largest = math.nextafter(largest, -math.inf)
    if math.isinf(largest):
        return Bound(Fraction(-(2**1025)))
    above = Fraction(2**1024)
    if largest != sys.float_info.max:
        above = Fraction(math.nextafter(largest, math.inf))
    is_odd = bool(int(Fraction(largest) / Fraction(math.ulp(largest))) & 1)
    halfway = Bound((Fraction(largest) + above) / 2, is_odd)  # is read as the even neighbour
    end = min(high.end, halfway, key=lambda end: (end.at, not end.open))
    return end if _digits(end.at) <= _EXACT_DIGITS else Bound(_rounded_down(end.at))


def _digits(number: Fraction) -> int:
    """Significant digits of a finite decimal; 0 has one."""
    twos = (number.denominator & -number.denominator).bit_length() - 1
    fives = 0
    rest = number.denominator >> twos
    while rest > 1:
        rest, fives = rest // 5, fives + 1
    scaled = abs(number) * 10 ** max(twos, fives)
    return len(str(int(scaled)).rstrip("0")) or 1


def _rounded_down(number: Fraction) -> Fraction:
    """The next decimal at or below with as many digits as a float needs."""
    unit = Fraction(10) ** (decade_of(abs(number)) - _SHORTEST_DIGITS + 1)
    return math.floor(number / unit) * unit


def decade_of(number: Fraction) -> int:
    """The exponent of a positive number in scientific notation."""
    guess = len(str(number.numerator)) - len(str(number.denominator))
    return guess if Fraction(10) ** guess <= number else guess - 1
