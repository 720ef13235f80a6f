"""Patterns of texts by their order, for forms such as `2000-01-31T23:59:59`."""

from __future__ import annotations

_REST = r"[-+0-9:.TZ]*"


def at_least(low: str) -> str:
    """Texts of the same form that are not before `low`; they may go on behind its end."""
    return "|".join([rf"{low}{_REST}", *_beside(low, 1, "9")])


def at_most(high: str) -> str:
    """Texts of the same form that are not after `high`; of it only itself, perhaps in UTC."""
    return "|".join([f"{high}Z?", *_beside(high, -1, "0")])


def _beside(text: str, step: int, last: str) -> list[str]:
    """Texts whose first different digit is above (1) or below (-1)."""
    found = []
    for at, char in enumerate(text):
        if char.isdigit() and char != last:
            first, end = sorted((str(int(char) + step), last))
            found.append(rf"{text[:at]}[{first}-{end}]{_REST}")
    return found
