"""One integer for the place of a request among all others, for servers that take a priority.

It has the parts of the order from outside to inside, each in a few bits: demand, the tenant's debt,
the user's priority, the slack class, and the level of the policy. 0 is an ordinary request of
medium length, so that requests of clients without priorities are treated like one.
"""

from __future__ import annotations

from math import floor

from agentrt.protocol.backend import SchedulingInfo
from agentrt.scheduler.order.order import QUANTUM_S, Order, slack_of

_SIGNED = 8
"""Debts and priorities from -8 to 7; larger ones count as these."""

_LEVELS = 32
_MEDIUM_LEVEL = 12
"""Level of 2 to 4 seconds of remaining service."""


def wire_priority(order: Order, info: SchedulingInfo) -> int:
    """Priority of a request at the instant of its info; the smallest goes first.

    Policies without levels, such as first come first served, leave requests of one class equal.

    Args:
        order: Order of waiting requests.
        info: Scheduling info.
    """
    level = order.policy.level(info.as_of_s, info)
    slack, _ = slack_of(info.as_of_s, info)
    parts = (
        (int(not info.demanded), 2),
        (_signed(floor(info.tenant_debt_s / QUANTUM_S)), 2 * _SIGNED),
        (_signed(-info.priority), 2 * _SIGNED),
        (int(slack), 4),
        (_MEDIUM_LEVEL if level is None else min(level, _LEVELS - 1), _LEVELS),
    )
    value = 0
    for part, size in parts:
        value = value * size + part
    return value - _ORDINARY


def _signed(value: int) -> int:
    return max(-_SIGNED, min(_SIGNED - 1, value)) + _SIGNED


_ORDINARY = ((_SIGNED * 2 * _SIGNED + _SIGNED) * 4 + 1) * _LEVELS + _MEDIUM_LEVEL

LAST_PRIORITY = 2 * (2 * _SIGNED) ** 2 * 4 * _LEVELS - _ORDINARY
"""A priority behind those of all requests."""
