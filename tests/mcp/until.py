"""Waiting for what another process does, in real time."""

from collections.abc import Callable

import anyio


async def until(holds: Callable[[], bool]) -> None:
    """Returns when it holds; fails after 30 s."""
    with anyio.fail_after(30):
        while not holds():  # noqa: ASYNC110  # of another process
            await anyio.sleep(0.005)
