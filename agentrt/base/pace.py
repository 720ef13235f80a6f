"""Pace of long work: how much is done, how fast it goes, and how long the rest takes."""

from __future__ import annotations


def pace_text(done: int, total: int, spent_s: float, unit: str) -> str:
    """Progress, rate and time left, in words; the last two need something done.

    Example:
        >>> pace_text(12, 200, 8.0, "runs")
        '12/200 runs, 1.5 a second, about 2 min left'
        >>> pace_text(3, 4, 150.0, "plays")
        '3/4 plays, 1.2 a minute, about 50 s left'
        >>> pace_text(0, 4, 1.0, "plays"), pace_text(4, 4, 2.0, "plays")
        ('0/4 plays', '4/4 plays, 2.0 a second')

    Args:
        done: Number of units done.
        total: Number of all units.
        spent_s: Time since the first one began.
        unit: Name of the units.
    """
    text = f"{done}/{total} {unit}"
    if done <= 0 or spent_s <= 0.0:
        return text
    text += f", {_rate(done / spent_s)}"
    left = total - done
    return f"{text}, about {time_text(left * spent_s / done)} left" if left > 0 else text


def time_text(seconds: float) -> str:
    """A rough duration, in words.

    Example:
        >>> time_text(0.4), time_text(59.7), time_text(125.0), time_text(7000.0), time_text(3e5)
        ('1 s', '60 s', '2 min', '1 h 57 min', '3 d 11 h')
    """
    if seconds < 90.0:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60.0)
    if minutes < 100:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _rate(per_s: float) -> str:
    """A rate in the unit of time in which it is at least one."""
    for period_s, name in ((1.0, "second"), (60.0, "minute")):
        if per_s * period_s >= 1.0:
            number = per_s * period_s
            return f"{number:.1f} a {name}" if number < 100 else f"{number:.0f} a {name}"
    return f"{per_s * 3600.0:.1f} an hour"
