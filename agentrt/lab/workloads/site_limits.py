"""Limits of outputs, as an author writes them: the same for all calls of a call site.

The true length of a replayed call is no limit that a program has. Given as one, it would tell
admission control, and with it every policy, how long each call is going to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from agentrt.lab.workloads.trace import ProgramTrace

SiteLimits: TypeAlias = Mapping[tuple[str, str], int]
"""Most tokens of an output, by the shape of the program and the call site."""

NO_LIMITS: SiteLimits = MappingProxyType({})
"""Every call has its own length as its limit."""


def site_limits(programs: Iterable[ProgramTrace]) -> SiteLimits:
    """For each call site, the longest output of all its calls.

    Args:
        programs: All programs that are played.
    """
    found: dict[tuple[str, str], int] = {}
    for program in programs:
        for call in program.calls():
            site = (program.shape, call.site)
            found[site] = max(found.get(site, 0), call.output_tokens)
    return found
