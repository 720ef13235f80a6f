"""Limits of one run on its nodes, so that a runaway program ends with an error."""

from __future__ import annotations

from itertools import groupby

from agentrt.base.config import RunConfig
from agentrt.base.errors import RunTooLarge, UsageError
from agentrt.base.record import record
from agentrt.runtime.options import RunOptions


@record
class NodeLimits:
    """The most nodes that a run may have, in depth, in all and at once.

    Attributes:
        max_depth: Programs inside one another.
        max_nodes: Nodes in all.
        max_running: Bodies of programs, tools and questions that have not ended.

    Raises:
        UsageError: A limit is below 1.
    """

    max_depth: int
    max_nodes: int
    max_running: int

    def __post_init__(self) -> None:
        for name in ("max_depth", "max_nodes", "max_running"):
            if (limit := getattr(self, name)) < 1:
                raise UsageError(f"{name}={limit} is out of range", hint="Give 1 or more")

    @classmethod
    def of_run(cls, config: RunConfig, options: RunOptions) -> NodeLimits:
        """Limits of the options; those that are None are the runtime's."""
        return cls(
            config.max_depth if options.max_depth is None else options.max_depth,
            config.max_nodes if options.max_nodes is None else options.max_nodes,
            config.max_running if options.max_running is None else options.max_running,
        )

    def passed(self, depth: int, nodes: int) -> str:
        """Name, value and unit of the limit that a node would pass."""
        if depth > self.max_depth:
            return f"max_depth={self.max_depth} programs inside one another"
        if nodes > self.max_nodes:
            return f"max_nodes={self.max_nodes} nodes"
        return f"max_running={self.max_running} programs and tools at once"


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
        holds_content=False,
    )


def folded(sites: list[str]) -> list[str]:
    """Call sites with each repetition told once: `a.py:3 (200 times)`."""
    counts = [(site, len(list(same))) for site, same in groupby(sites)]
    return [site if count == 1 else f"{site} ({count} times)" for site, count in counts]
