"""One axis of a plot: the position of a value, and the marked values."""

from __future__ import annotations

import math
from collections.abc import Iterable

from agentrt.base.record import record

_LEAST_SPREAD = 1e-9
"""Smallest range of an axis; values closer to each other are one value."""


@record
class Axis:
    """A map from values to pixels.

    Attributes:
        low: Value at `begin`.
        high: Value at `end`.
        begin: Pixel of `low`; may be the larger one.
        end: Pixel of `high`.
        log: True if equal ratios are equal distances.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Pixel of a value; a value outside lies at the border."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> tuple[float, ...]:
        """The marked values."""
        return _decades(self.low, self.high) if self.log else _round_steps(self.low, self.high)


def axis(
    values: Iterable[float], begin: float, end: float, *, log: bool = False, zero: bool = False
) -> Axis:
    """The axis that holds all finite values and ends at round ones.

    Args:
        values: Values to be shown. A value that is not finite, or not positive on a logarithmic
            axis, has no position and does not count.
        begin: Pixel of the least value.
        end: Pixel of the greatest value.
        log: True if equal ratios are equal distances.
        zero: True if the axis begins at 0 at the latest; not with `log`.
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


def tick_label(value: float) -> str:
    """A marked value as text.

    Example:
        >>> tick_label(0.05), tick_label(1500.0), tick_label(2_000_000.0)
        ('0.05', '1.5k', '2M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _ratio_below(value: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above the value."""
    decade = 10.0 ** math.floor(math.log10(value))
    return max((f * decade for f in (1, 2, 5) if f * decade <= value * (1 + 1e-9)), default=decade)


def _step(low: float, high: float) -> float:
    """A round distance between about five marks."""
    raw = (high - low) / 5
    decade = 10.0 ** math.floor(math.log10(raw))
    return next(f * decade for f in (1, 2, 5, 10) if f * decade >= raw * (1 - 1e-9))


def _round_steps(low: float, high: float) -> tuple[float, ...]:
    step = _step(low, high)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(round(at * step, 12) for at in range(first, last + 1))


def _decades(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten, and 2 and 5 times them if there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    marks = (factor * 10.0**power for power in range(first, last + 1) for factor in factors)
    return tuple(mark for mark in marks if low * (1 - 1e-9) <= mark <= high * (1 + 1e-9))
