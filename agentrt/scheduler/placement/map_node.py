"""A node of the prefix map, and the order in which the prefixes of one worker are forgotten."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

_SLACK_ENTRIES = 64
"""Stale entries of a worker's heap that are kept without a look at their number."""


@dataclass(slots=True, eq=False)
class MapNode:
    """Some whole blocks of a prompt that follow the parent's.

    Attributes:
        key: Bytes of the blocks.
        parent: Node of the blocks before them; None at the root and of a node that was removed.
        end_bytes: Bytes from the beginning of the prompt to the end of the blocks.
        used: Workers believed to hold the blocks, each with the tick of its last use. The workers
            of a node hold its parent, too, and have used that no earlier.
        children: Nodes that continue it, by their first block.
    """

    key: bytes
    parent: MapNode | None
    end_bytes: int
    used: dict[str, int] = field(default_factory=dict)
    children: dict[bytes, MapNode] = field(default_factory=dict)


_Entry = tuple[int, int, int, MapNode]
"""Tick of the last use, negative end (the deepest first), a number that breaks ties, the node."""


class HeldPrefixes:
    """The nodes that one worker is believed to hold.

    Each has one entry in a heap, with the tick at which it was put there. An entry that comes up
    with an older tick than that of the node is put back, so that a use costs no heap operation.

    Attributes:
        limit_bytes: Bytes that the worker is believed to hold at most.
        stated_bytes: Bytes that it can hold by its own account, or the bound of what is unknown.
        held_bytes: Bytes that it is believed to hold.
        nodes: Number of its nodes.
        unsettled: Ticks of requests that it may not have computed yet.
    """

    __slots__ = (
        "_heap",
        "_serial",
        "held_bytes",
        "limit_bytes",
        "nodes",
        "stated_bytes",
        "unsettled",
    )

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = self.stated_bytes = limit_bytes
        self.held_bytes = 0
        self.nodes = 0
        self.unsettled: set[int] = set()
        self._heap: list[_Entry] = []
        self._serial = 0

    def add(self, worker: str, node: MapNode, tick: int) -> None:
        """Note that the worker holds a node from now on."""
        node.used[worker] = tick
        self.held_bytes += len(node.key)
        self.push(worker, node)

    def push(self, worker: str, node: MapNode) -> None:
        """Enter a node that the worker holds, such as the upper part of one that was split."""
        self.nodes += 1
        self._serial += 1
        heapq.heappush(self._heap, (node.used[worker], -node.end_bytes, self._serial, node))
        if len(self._heap) > 2 * self.nodes + _SLACK_ENTRIES:
            self._drop_stale(worker)

    def drop(self, worker: str, node: MapNode) -> None:
        """Note that the worker no longer holds a node."""
        del node.used[worker]
        self.held_bytes -= len(node.key)
        self.nodes -= 1

    def oldest(self, worker: str) -> MapNode | None:
        """The node with the oldest last use, of several the deepest: nothing held continues it."""
        heap = self._heap
        while heap:
            tick, _, serial, node = heap[0]
            used = node.used.get(worker)
            if used is None:
                heapq.heappop(heap)
            elif used != tick:
                heapq.heapreplace(heap, (used, -node.end_bytes, serial, node))
            else:
                return node
        return None

    def _drop_stale(self, worker: str) -> None:
        """Build the heap anew, with one entry for each node."""
        live = {
            id(node): (serial, node) for _, _, serial, node in self._heap if worker in node.used
        }
        self._heap = [
            (node.used[worker], -node.end_bytes, serial, node) for serial, node in live.values()
        ]
        heapq.heapify(self._heap)
