"""The task that reads the events of one engine for a backend of several."""

from __future__ import annotations

from collections.abc import Awaitable

from agentrt.base.errors import InternalError
from agentrt.protocol.event_queue import EventQueue


async def read_into(queue: EventQueue, reading: Awaitable[None], name: str) -> None:
    """Read the events of an engine to their end; a fault on the way ends the queue.

    Nothing awaits this task. If it ended silently, the requests of its engine would never end.

    Args:
        queue: Events of the backend of several engines.
        reading: Reads the events of one engine, and puts what becomes of them into `queue`.
        name: Name of the engine.
    """
    try:
        await reading
    except Exception as error:
        fault = InternalError(f"reading from {name} failed: {type(error).__name__}: {error}")
        fault.__cause__ = error
        queue.fail(fault)
