"""One node an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from agentrt.base.errors import UsageError
from agentrt.program.node import Node
from agentrt.program.scope import current_scope

U = TypeVar("U")
R = TypeVar("R")


def fan(
    f: Callable[[U], Node[R]], items: Iterable[U], *, limit: int | None = None
) -> list[Node[R]]:
    """`f` of every item, as nodes in the same order.

    Args:
        f: Makes one node: a program, a tool, or a function that generates.
        items: What it is called with.
        limit: Most of the nodes under way at once; None sets none.

    Raises:
        UsageError: The limit is below 1.
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
        node.when_done(release)
    return made
