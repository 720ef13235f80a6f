"""Bounds of numbers that flags give: a number beyond its bounds asks for a run without an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.errors import UsageError
from agentrt.base.record import record


@record
class NumberBounds:
    """Numbers that a flag takes.

    Attributes:
        least: The least one.
        most: The greatest one.
        takes_zero: Whether 0 is taken beside them.
    """

    least: float
    most: float
    takes_zero: bool = False

    def hold(self, value: float) -> bool:
        """Whether a number is within them; NaN never is."""
        return self.least <= value <= self.most or (self.takes_zero and value == 0)

    def check(self, value: float, flag: str) -> None:
        """Check a number.

        Args:
            value: The number.
            flag: The flag, for the error.

        Raises:
            UsageError: The number is out of its bounds, or is NaN.
        """
        if not self.hold(value):
            raise UsageError(f"{flag} {value} is out of range", hint=f"Give {self.in_words()}")

    def in_words(self) -> str:
        """The bounds, as an error shows them."""
        bounds = f"{_written(self.least)} to {_written(self.most)}"
        return f"0, or {bounds}" if self.takes_zero and self.least > 0 else bounds


COUNT = NumberBounds(0, 1_000_000)
"""Whole numbers without bounds of their own."""
FROM_ONE = NumberBounds(1, 1_000_000)
"""Whole numbers of which 0 leaves nothing to measure."""
NUMBER = NumberBounds(1e-6, 1e6, takes_zero=True)
"""Other numbers without bounds of their own."""
RATE = NumberBounds(1e-4, 1e5, takes_zero=True)
"""Arrivals a second. Below, programs are apart for hours; above, the clock does not part them."""
FACTOR = NumberBounds(1e-3, 1e3, takes_zero=True)
"""A factor on a rate."""
MOST_TOKENS = 1_000_000_000
_TOKENS = NumberBounds(0, MOST_TOKENS)
_SECONDS = NumberBounds(1e-3, 86_400, takes_zero=True)
_SHARE = NumberBounds(0, 1)

BOUNDS: Mapping[str, NumberBounds] = {
    "seed": NumberBounds(-(2**63), 2**63 - 1),
    "programs": NumberBounds(0, 10_000_000),
    "plays": NumberBounds(0, 10_000),
    **dict.fromkeys(("kv_tokens", "play_kv_tokens", "host_kv_tokens"), _TOKENS),
    "rate": RATE,
    **dict.fromkeys(("bursts", "waits"), FACTOR),
    "kv_share": NumberBounds(1e-3, 100, takes_zero=True),
    **dict.fromkeys(("gate_share", "share"), _SHARE),
    **dict.fromkeys(("seconds", "first"), _SECONDS),
}
"""Bounds by the name of a field, for those without a rule in their type."""


def check_numbers(given: Mapping[str, Any]) -> None:
    """Check every number among the fields of a command's flags.

    Args:
        given: Values by the name of a field.

    Raises:
        UsageError: A number is out of its bounds, or is NaN.

    Example:
        >>> check_numbers({"rate": 2.0, "policy": "rwa"})
    """
    for name, value in given.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            bounds = BOUNDS.get(name, COUNT if isinstance(value, int) else NUMBER)
            bounds.check(value, flag_of(name))


def flag_of(field: str) -> str:
    """The flag of a field: `--json` for `json_path`, `--most-output` for `most_output`."""
    return f"--{field.removesuffix('_path').replace('_', '-')}"


def _written(number: float) -> str:
    """A bound as a person writes it."""
    if isinstance(number, int) or number >= 1:
        return f"{int(number):,}"
    return f"{number:.6f}".rstrip("0").rstrip(".") or "0"
