"""Fan-out: one node for each input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from agentrt.base.errors import UsageError
from agentrt.program.node import Node, when_done
from agentrt.program.scope import current_scope

U = TypeVar("U")
R = TypeVar("R")


def fan(
    f: Callable[[U], Node[R]], items: Iterable[U], *, limit: int | None = None
) -> list[Node[R]]:
    """Nodes of `f` for every item, in the order of the items.

    Use it to map a program, a tool or a generation over a list. With a `limit` the other nodes are
    declared but wait, so that the graph is known from the start.

    Example:
        >>> from agentrt import chat, fan, gather, program
        >>> @program
        ... async def waters(kinds: list[str]) -> list[str]:
        ...     ask = chat()
        ...     nodes = fan(lambda kind: ask.user(f"Name a {kind}.").generate(), kinds, limit=2)
        ...     return list(await gather(*nodes))
        >>> waters.run(["river", "lake", "sea"])
        ['Nile', 'Como', 'Aral']

    Args:
        f: Makes one node of an item.
        items: The inputs.
        limit: Most of the nodes that run at once; None sets no limit.

    Raises:
        UsageError: The limit is below 1.
        NoRun: No run is active.
    """
    if limit is None:
        return [f(item) for item in items]
    if limit < 1:
        raise UsageError(f"limit={limit} is out of range", hint="Give 1 or more")
    scope = current_scope("fan")
    made: list[Node[R]] = []
    waiting: list[list[Node[Any]]] = []

    def release(_ended: Node[Any]) -> None:
        if waiting:
            for node in waiting.pop(0):
                scope.run.release(node)

    for index, item in enumerate(items):
        if index < limit:
            made.append(f(item))
            continue
        outer, scope.held = scope.held, []
        try:
            made.append(f(item))
            waiting.append(scope.held)
        finally:
            scope.held = outer
    for node in made:
        when_done(node, release)
    return made
