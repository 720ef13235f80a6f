"""Cores of this machine, and the bound that they set on a number of threads."""

from __future__ import annotations

import os

from agentrt.base.errors import UsageError


def core_numbers() -> set[int]:
    """Numbers of the cores that this process may use; of all if the system cannot say."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def cores() -> int:
    """Number of cores that this process may use."""
    return len(core_numbers())


def at_most_cores(threads: int) -> int:
    """`threads` if the process may use so many cores; 0 leaves the choice to the engine.

    Threads beyond the cores wait for each other in every step.

    Raises:
        UsageError: The number is negative or exceeds the cores.
    """
    most = cores()
    if not 0 <= threads <= most:
        raise UsageError(
            f"--threads {threads} is out of range: this process may use {most} "
            f"core{'s' if most > 1 else ''}",
            hint=f"give 1 to {most}, or 0 to let the engine choose" if most > 1 else "give 1 or 0",
        )
    return threads
