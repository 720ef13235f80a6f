"""Threads of an event loop's executor that outlive what waited for them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor


def leave_threads() -> None:
    """Let the end of the running loop wait for no function that runs in its default executor.

    The end of a loop waits for its executor, also for functions that nothing awaits any more. The
    loop gets another executor, without threads; the other one ends by itself.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
