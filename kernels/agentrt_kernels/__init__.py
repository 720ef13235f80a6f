"""Kernels of the fast path: one contract, several sets. Never imports agentrt.

Importing this builds nothing and imports no torch; `load` imports the set that is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrt_kernels.contract import Kernels

__all__ = ["NAMES", "load"]

NAMES = ("reference",)
"""Sets that `load` knows."""


def load(name: str) -> Kernels:
    """A set of kernels.

    Args:
        name: One of `NAMES`: `reference` is plain torch and runs anywhere.

    Raises:
        KernelsUnavailable: This machine cannot run the set; the message says why.
        ValueError: There is no such set.
    """
    if name == "reference":
        from agentrt_kernels.reference import Reference

        return Reference()
    raise ValueError(f"no kernel set is named {name!r}; there are {', '.join(NAMES)}")
