"""Nodes in the order in which they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from agentrt.base.notifier import Notifier
from agentrt.program.node import Node, add_demand, drop_demand, note_wait, when_done

T = TypeVar("T")


class Arrivals(Generic[T]):
    """Hands out nodes as they end, and demands the others."""

    def __init__(self, nodes: Sequence[Node[T]]) -> None:
        self._nodes = tuple(nodes)
        self._ended: deque[Node[T]] = deque()
        self._wake = Notifier()
        self._wanted = True
        for node in self._nodes:
            add_demand(node)
            when_done(node, self._arrived)

    async def next(self) -> Node[T]:
        """The next node that ends, perhaps with an error."""
        waited = not self._ended
        while not self._ended:
            await self._wake.wait()
        node = self._ended.popleft()
        if waited:
            note_wait(node)
        return node

    def close(self) -> None:
        """Withdraw the demand."""
        if self._wanted:
            self._wanted = False
            for node in self._nodes:
                drop_demand(node)

    def _arrived(self, node: Node[Any]) -> None:
        self._ended.append(node)
        self._wake.notify_all()
