"""The end of tasks whose results are no longer needed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import anyio


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until all have ended, also if the caller is cancelled."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    with anyio.CancelScope(shield=True):
        if ending:
            await asyncio.wait(ending)
