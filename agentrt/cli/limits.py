"""Limits as `--limit NAME=VALUE` gives them, and durations as `--deadline` does."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from agentrt.base.engines.server_limits import MAY_BE_ZERO as SERVERS_MAY_BE_ZERO
from agentrt.base.engines.server_limits import SERVER_LIMITS
from agentrt.base.errors import UsageError
from agentrt.base.record import record

MAX_COST = "max_cost"
OF_RUNS = (
    *("max_depth", "max_nodes", "max_running", "max_result_bytes", "write_grace_s"),
    MAX_COST,
)
OF_SERVERS = SERVER_LIMITS
_SECONDS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}
MAY_BE_ZERO = ("write_grace_s", *SERVERS_MAY_BE_ZERO)


@record
class GivenLimits:
    """Limits by name.

    Attributes:
        of_runs: Fields of `RunConfig`.
        of_servers: Fields of `RemoteLimits`.
    """

    of_runs: Mapping[str, Any] = field(default_factory=dict)
    of_servers: Mapping[str, Any] = field(default_factory=dict)


def given_limits(texts: Sequence[str]) -> GivenLimits:
    """Limits in texts such as `max_nodes=500000`; the last one of a name counts.

    Raises:
        UsageError: A name is unknown, or its value is out of range.
    """
    found = dict(_limit_in(text) for text in texts)
    return GivenLimits(
        {name: value for name, value in found.items() if name in OF_RUNS},
        {name: value for name, value in found.items() if name in OF_SERVERS},
    )


def _limit_in(text: str) -> tuple[str, float | str]:
    name, _, number = text.partition("=")
    if name not in (*OF_RUNS, *OF_SERVERS):
        raise UsageError(
            f"--limit {text!r} names no limit", hint=f"give {', '.join((*OF_RUNS, *OF_SERVERS))}"
        )
    if name == MAX_COST:
        return name, _amount_in(text, number)
    is_time = name.endswith("_s")
    try:
        value = float(number) if is_time else int(number)
    except ValueError:
        value = -1
    is_in_range = math.isfinite(value) and (value >= 0 if name in MAY_BE_ZERO else value > 0)
    if not is_in_range:
        what = "seconds" if is_time else "a whole number"
        least = "0 or more" if name in MAY_BE_ZERO else "above 0"
        raise UsageError(f"--limit {text!r} is out of range", hint=f"give {what}, {least}")
    return name, value


def _amount_in(text: str, amount: str) -> str:
    """An amount of money as it is written: a float would round it."""
    from agentrt.base.money import pico_of

    try:
        is_above_zero = pico_of(amount, MAX_COST) > 0
    except UsageError:
        is_above_zero = False
    if not is_above_zero:
        raise UsageError(
            f"--limit {text!r} is out of range", hint="give an amount above 0, such as 0.50"
        )
    return amount


def seconds(text: str, flag: str = "--deadline") -> float:
    """A duration: `2`, `2s`, `1.5s`, `800ms`, `3m`.

    Args:
        text: The duration.
        flag: Flag that gives it, for errors.

    Raises:
        UsageError: The text is not a duration above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min)?", text.strip())
    value = float(match[1]) * _SECONDS[match[2] or ""] if match else 0.0
    if value <= 0:
        raise UsageError(
            f"{flag} {text!r} is no duration above 0", hint="give seconds, as 2, 1.5s or 800ms"
        )
    return value
