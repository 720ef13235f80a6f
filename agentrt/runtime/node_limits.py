"""Limits of one run on its nodes, so that a runaway program ends with an error."""

from __future__ import annotations

from itertools import groupby

from agentrt.base.config import RunConfig
from agentrt.base.errors import RunTooLarge, UsageError
from agentrt.runtime.options import RunOptions


class NodeLimits:
    """The most nodes that a run may have, in depth, in all and at once.

    Args:
        config: Limits of the runtime.
        options: Limits of the run, which override those of the runtime.

    Raises:
        UsageError: A limit is below 1.
    """

    def __init__(self, config: RunConfig, options: RunOptions) -> None:
        self._depth = _limit("max_depth", options.max_depth, config.max_depth)
        self._nodes = _limit("max_nodes", options.max_nodes, config.max_nodes)
        self._running = _limit("max_running", options.max_running, config.max_running)
        self._made = 0

    def count(self, depth: int, running: int) -> str | None:
        """Count a node that is about to be made; give the limit that forbids it, or None.

        Args:
            depth: Programs around the node, itself included.
            running: Bodies of programs, tools and questions that have not ended.
        """
        if depth > self._depth:
            return f"max_depth={self._depth} programs inside one another"
        if self._made >= self._nodes:
            return f"max_nodes={self._nodes} nodes"
        if running >= self._running:
            return f"max_running={self._running} programs and tools at once"
        self._made += 1
        return None


def too_large(limit: str, label: str, sites: list[str]) -> RunTooLarge:
    """The error of a node that a limit forbids.

    Args:
        limit: Name, value and unit of the limit.
        label: Kind and name of the node.
        sites: `file:line` of the calls that led to it, outermost first, its own last.
    """
    name = limit.partition("=")[0]
    return RunTooLarge(
        f"{label} would pass {limit}: {' > '.join(folded(sites))}",
        hint=f"End the recursion or the loop, or raise RunOptions({name}=...)",
        where=sites[-1],
    )


def folded(sites: list[str]) -> list[str]:
    """Call sites with each repetition told once: `a.py:3 (200 times)`."""
    counts = [(site, len(list(same))) for site, same in groupby(sites)]
    return [site if count == 1 else f"{site} ({count} times)" for site, count in counts]


def _limit(name: str, wanted: int | None, default: int) -> int:
    limit = default if wanted is None else wanted
    if limit < 1:
        raise UsageError(f"{name}={limit} is out of range", hint="Give 1 or more")
    return limit
