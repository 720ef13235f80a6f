"""Ranges of numbers and texts, and how a value out of range is shown in an error."""

from __future__ import annotations

import re

from agentrt.base.record import record

_MAX_SHOWN_CHARACTERS = 40
_SURROGATE = re.compile("[\ud800-\udfff]")


@record
class NumberRange:
    """A closed range of numbers.

    Attributes:
        low: Smallest number allowed.
        high: Largest number allowed.
        meaning: The range in words.
        integral: Whether only integers are allowed.
    """

    low: float
    high: float
    meaning: str
    integral: bool = False

    def holds(self, value: object) -> bool:
        """Whether a value is a number of the range; NaN is none."""
        kinds = int if self.integral else (int, float)
        return isinstance(value, kinds) and self.low <= value <= self.high


def shown(value: object) -> str:
    """A value as an error shows it, in few characters.

    Example:
        >>> shown(0.5), shown(10**400), shown("x" * 100)
        ('0.5', 'an integer of 1329 bits', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...")
    """
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to write large ones
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"{len(value)} values"
    if isinstance(value, str):
        value = value[:_MAX_SHOWN_CHARACTERS]
    text = ascii(value)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "..."


def has_lone_surrogate(text: str) -> bool:
    """Whether a text holds half of a surrogate pair, so that it has no UTF-8 form."""
    return _SURROGATE.search(text) is not None
