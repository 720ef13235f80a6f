"""Limits of remote engines by name, as flags and files give them."""

from __future__ import annotations

import math

from agentrt.base.errors import UsageError

SERVER_LIMITS = (
    *("attempts", "outage_s", "pause_s", "retry_after_s", "silence_s", "stall_s"),
    *("event_bytes", "answer_bytes"),
)
"""Fields of `RemoteLimits` that users set."""

MAY_BE_ZERO = ("outage_s", "pause_s", "retry_after_s")


def check_limit(name: str, value: float, where: str = "") -> None:
    """Check a limit of a remote engine.

    Args:
        name: Name of the limit.
        value: The limit, in the unit of its name.
        where: Setting with the limit, for messages.

    Raises:
        UsageError: The name is unknown, or the value is out of range.
    """
    if name not in SERVER_LIMITS:
        raise UsageError(
            f"{where}{name!r} names no limit of an engine", hint=f"give {', '.join(SERVER_LIMITS)}"
        )
    is_time = name.endswith("_s")
    fits = math.isfinite(value) and (is_time or value == int(value))
    if not fits or not (value > 0 or (value == 0 and name in MAY_BE_ZERO)):
        what = "seconds" if is_time else "a whole number"
        least = "0 or more" if name in MAY_BE_ZERO else "above 0"
        raise UsageError(f"{where}{name} = {value:g} is out of range", hint=f"give {what}, {least}")
