"""Figures of a row in few characters: durations, counts and rates."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A duration in at most seven characters.

    Example:
        >>> duration(0.0123), duration(2.3), duration(150.0), duration(7300.0), duration(2e5)
        ('12 ms', '2.30 s', '2m 30s', '2h 01m', '2d 07h')
    """
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1e3:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if seconds < 3600:
        return f"{minutes}m {round(seconds) % 60:02d}s"
    hours = minutes // 60
    return f"{hours}h {minutes % 60:02d}m" if hours < 48 else f"{hours // 24}d {hours % 24:02d}h"


def count(number: float) -> str:
    """A count in at most five characters.

    Example:
        >>> count(9), count(9999), count(12345), count(1234567), count(4e9)
        ('9', '9999', '12.3k', '1.2M', '4.0G')
    """
    if number < 9999.5:
        return f"{number:.0f}"
    for unit in ("k", "M", "G"):
        number /= 1e3
        if number < 999.5 or unit == "G":
            break
    return f"{number:.1f}{unit}" if number < 99.95 else f"{number:.0f}{unit}"


def rate(per_s: float) -> str:
    """A rate of tokens in at most five characters; "" for none."""
    if per_s <= 0.0:
        return ""
    return f"{per_s:.1f}" if per_s < 9.95 else count(per_s)
