"""Tools that need a worker thread: those that have one, and those that wait, best first."""

from __future__ import annotations

import heapq

from agentrt.scheduler.order.dispatch_order import Urgency, dispatch_key
from agentrt.scheduler.runs.run import NodeState


class ToolSlots:
    """Worker threads and the tools that wait for one.

    Waiting tools stand in a heap; one whose place has changed is put there once more, and what is
    out of date is passed over when it comes up. So a thread that comes free costs what it takes to
    find its next tool, however many wait.

    Attributes:
        most: How many threads there are.
        busy: Of them, those that have a tool.
        waiting: Tools that wait, and their places.
    """

    __slots__ = ("_heap", "busy", "most", "waiting")

    def __init__(self, most: int) -> None:
        self.most = most
        self.busy = 0
        self._heap: list[tuple[Urgency, NodeState]] = []
        self.waiting: dict[NodeState, Urgency] = {}

    def add(self, node: NodeState) -> None:
        """A tool could start, or its place has changed."""
        place = dispatch_key(node)
        if self.waiting.get(node) != place:
            self.waiting[node] = place
            heapq.heappush(self._heap, (place, node))

    def drop(self, node: NodeState) -> None:
        """A tool starts, or needs no thread any more."""
        if self.waiting.pop(node, None) is not None:
            self._clear()

    def next(self) -> list[NodeState]:
        """The tools that can start now, first to start first."""
        free = self.most - self.busy
        if free <= 0 or not self.waiting:
            return []
        if free == 1:
            return [self._heap[0][1]]
        places = [(place, node) for node, place in self.waiting.items()]
        return [node for _, node in heapq.nsmallest(free, places, key=_place)]

    def _clear(self) -> None:
        """The first of the heap is always one that waits."""
        heap = self._heap
        while heap and self.waiting.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)


def _place(item: tuple[Urgency, NodeState]) -> Urgency:
    return item[0]
