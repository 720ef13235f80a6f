"""Tool slots: tools that have a worker thread, and those that wait for one, in dispatch order."""

from __future__ import annotations

import heapq

from agentrt.scheduler.order.dispatch_order import DispatchKey, dispatch_key
from agentrt.scheduler.runs.run import NodeState


class ToolSlots:
    """Worker threads and the tools that wait for one.

    Waiting tools are in a heap. A tool with a changed key is pushed again, and stale entries are
    skipped when they come up. So a free thread costs only finding its next tool, however many wait.

    Attributes:
        max_threads: Number of threads.
        busy: Threads that have a tool.
        waiting: Waiting tools, with their keys.
    """

    __slots__ = ("_heap", "busy", "max_threads", "waiting")

    def __init__(self, max_threads: int) -> None:
        self.max_threads = max_threads
        self.busy = 0
        self._heap: list[tuple[DispatchKey, NodeState]] = []
        self.waiting: dict[NodeState, DispatchKey] = {}

    def enqueue_tool(self, node: NodeState) -> None:
        """Add a tool that could start, or update its key."""
        key = dispatch_key(node)
        if self.waiting.get(node) != key:
            self.waiting[node] = key
            heapq.heappush(self._heap, (key, node))

    def remove_tool(self, node: NodeState) -> None:
        """Remove a tool that starts, or needs no thread any more."""
        if self.waiting.pop(node, None) is not None:
            self._prune()

    def next_tools(self) -> list[NodeState]:
        """The tools that can start now, in order."""
        free = self.max_threads - self.busy
        if free <= 0 or not self.waiting:
            return []
        if free == 1:
            return [self._heap[0][1]]
        keys = [(key, node) for node, key in self.waiting.items()]
        return [node for _, node in heapq.nsmallest(free, keys, key=_key)]

    def _prune(self) -> None:
        """Pop stale entries until the first of the heap is current."""
        heap = self._heap
        while heap and self.waiting.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)


def _key(item: tuple[DispatchKey, NodeState]) -> DispatchKey:
    return item[0]
