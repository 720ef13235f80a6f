"""Watchdog: detects an engine that is alive but no longer answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from agentrt.engine.process.messages import Command, Ping

CHECKS = 4
"""Checks in a row without an answer that make a stall; one may be this loop's own delay."""


class EngineConnection(Protocol):
    """A connection to an engine.

    Attributes:
        received_count: Grows with everything that arrives.
    """

    received_count: int

    def send(self, command: Command) -> None:
        """Send one command."""
        ...


async def stalls(connection: EngineConnection, is_busy: Callable[[], bool], stall_s: float) -> bool:
    """Ping the engine while it has work; True once no answer has come for `stall_s`.

    A long step counts as a stall too: the engine reads commands between steps.
    """
    missed = 0
    while is_busy():
        before = connection.received_count
        connection.send(Ping())
        await asyncio.sleep(stall_s / CHECKS)
        missed = missed + 1 if connection.received_count == before else 0
        if missed == CHECKS:
            return is_busy()
    return False
