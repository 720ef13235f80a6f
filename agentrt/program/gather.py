"""The values of several nodes, in order."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from agentrt.program.arrivals import Arrivals
from agentrt.program.node import Node, mark_handled

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")


@overload
async def gather(a: Node[A], b: Node[B], /) -> tuple[A, B]: ...
@overload
async def gather(a: Node[A], b: Node[B], c: Node[C], /) -> tuple[A, B, C]: ...
@overload
async def gather(a: Node[A], b: Node[B], c: Node[C], d: Node[D], /) -> tuple[A, B, C, D]: ...
@overload
async def gather(
    a: Node[A], b: Node[B], c: Node[C], d: Node[D], e: Node[E], /
) -> tuple[A, B, C, D, E]: ...
@overload
async def gather(*nodes: Node[T]) -> list[T]: ...
async def gather(*nodes: Node[Any]) -> Any:
    """The values of all nodes in the order given: a tuple of 2 to 5, else a list.

    Use it to await independent nodes together. The first failure cancels the other nodes and is
    raised as itself; to keep what succeeds, use `race(nodes, errors="skip")`.

    Example:
        >>> from agentrt import chat, gather, program
        >>> @program
        ... async def waters() -> str:
        ...     river, legs = await gather(
        ...         chat().user("Name a river.").generate(),
        ...         chat().user("How many legs has a spider?").generate(int),
        ...     )
        ...     return f"{river} {legs + 1}"
        >>> waters.run()
        'Nile 9'

    Raises:
        Exception: The first failure of a node.
    """
    arrivals = Arrivals(nodes)
    try:
        for _ in nodes:
            node = await arrivals.next()
            if node.error is not None:
                await _give_up(nodes, node)
    finally:
        arrivals.close()
    values = [await node for node in nodes]
    return tuple(values) if 2 <= len(values) <= 5 else values


async def _give_up(nodes: tuple[Node[Any], ...], failed: Node[Any]) -> None:
    for node in nodes:
        mark_handled(node)
        if node is not failed:
            node.cancel(f"{failed.label} failed in the same gather")
    await failed
