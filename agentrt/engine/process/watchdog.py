"""Noticing an engine that lives and no longer answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from agentrt.engine.process.messages import Command, Ping

LOOKS = 4
"""An engine is silent when it was so at this many looks: one alone may be our own loop's delay."""


class EngineConnection(Protocol):
    """A connection to an engine.

    Attributes:
        heard: Grows with everything that arrives.
    """

    heard: int

    def send(self, command: Command) -> None:
        """Write one command."""
        ...


async def falls_silent(talk: EngineConnection, is_busy: Callable[[], bool], stall_s: float) -> bool:
    """Ask again and again as long as there is work; True when no answer came for `stall_s`.

    A step in which the engine answers nothing counts as well: it reads commands between steps.
    """
    missed = 0
    while is_busy():
        before = talk.heard
        talk.send(Ping())
        await asyncio.sleep(stall_s / LOOKS)
        missed = missed + 1 if talk.heard == before else 0
        if missed == LOOKS:
            return is_busy()
    return False
