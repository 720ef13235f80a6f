"""One axis of a plot: where a value stands, and which values are marked."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_LEAST_SPREAD = 1e-9
"""Of what an axis shows; below, values are one value."""


@dataclass(frozen=True, slots=True)
class Axis:
    """From values to places.

    Attributes:
        low: Value at `begin`.
        high: Value at `end`.
        begin: Place of `low`, in pixels; may be the larger one.
        end: Place of `high`.
        log: Equal ratios are equal distances.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value stands; what lies outside stands at the border."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> tuple[float, ...]:
        """Values worth marking."""
        return _decades(self.low, self.high) if self.log else _round_steps(self.low, self.high)


def axis(
    values: Iterable[float], begin: float, end: float, *, log: bool = False, zero: bool = False
) -> Axis:
    """The axis that all finite values fit on, ended at round ones.

    Args:
        values: To be shown. What is not finite, or not positive on a logarithmic axis, has no place
            and does not count.
        begin: Place of the least, in pixels.
        end: Place of the greatest.
        log: Equal ratios are equal distances.
        zero: The axis begins at 0 at the latest; not with `log`.
    """
    shown = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = min(shown, default=1.0), max(shown, default=1.0)
    if log:
        low, high = _ratio_below(low), 1 / _ratio_below(1 / high)
        return Axis(low, high if high > low else low * 10, begin, end, log=True)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low < _LEAST_SPREAD:
        low, high = low - (abs(low) * 0.5 or 0.5), high + (abs(high) * 0.5 or 0.5)
    if high - low < _LEAST_SPREAD:
        low, high = low - _LEAST_SPREAD, high + _LEAST_SPREAD
    step = _step(low, high)
    return Axis(math.floor(low / step) * step, math.ceil(high / step) * step, begin, end)


def told(value: float) -> str:
    """A value as a mark says it.

    Example:
        >>> told(0.05), told(1500.0), told(2_000_000.0), told(3.0)
        ('0.05', '1.5k', '2M', '3')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _ratio_below(value: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above."""
    decade = 10.0 ** math.floor(math.log10(value))
    return max((f * decade for f in (1, 2, 5) if f * decade <= value * (1 + 1e-9)), default=decade)


def _step(low: float, high: float) -> float:
    """A round distance that marks about five values."""
    raw = (high - low) / 5
    decade = 10.0 ** math.floor(math.log10(raw))
    return next(f * decade for f in (1, 2, 5, 10) if f * decade >= raw * (1 - 1e-9))


def _round_steps(low: float, high: float) -> tuple[float, ...]:
    step = _step(low, high)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(round(at * step, 12) for at in range(first, last + 1))


def _decades(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten; with 2 and 5 times them where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    marks = (factor * 10.0**power for power in range(first, last + 1) for factor in factors)
    return tuple(mark for mark in marks if low * (1 - 1e-9) <= mark <= high * (1 + 1e-9))
