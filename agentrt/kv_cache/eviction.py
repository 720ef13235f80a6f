"""Eviction policy: the leaves of the radix tree that can be evicted, and their order.

The cost of losing a page is counted in pages computed again: the probability that it is soon needed
again, times the cost of bringing it back. A dropped prefix is never needed again; a page that the
offload tier also holds is loaded back cheaply. For the rest only the age is known, so the least
recently used goes first (LRU). A prefix kept by a KV hint costs more the sooner its reuse is
expected, and once more for the additional forward that the program then waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from math import inf

from agentrt.kv_cache.eviction_cost import MAX_CANDIDATES, Candidate, cheapest_cuts
from agentrt.kv_cache.node import EvictionPriority, RadixNode

HORIZON_S = 30.0
"""Half-life: an expected reuse in so many seconds counts half."""
RELOAD_SHARE = 0.125
"""Cost of loading a page back from the offload tier, as a share of computing it."""
WAIT_PAGES = 4.0
"""Cost of making a program wait for an additional forward, in pages computed."""

Entry = tuple[float, int, RadixNode]
Cut = tuple[RadixNode, int]
_UNKEPT = (EvictionPriority.DROP, EvictionPriority.DEMOTED, EvictionPriority.NORMAL)


class EvictionQueue:
    """Leaves that can be evicted: one heap a priority; stale entries are skipped."""

    def __init__(self) -> None:
        self._heaps: dict[EvictionPriority, list[Entry]] = {
            priority: [] for priority in EvictionPriority
        }
        self._serial = 0
        self._partly_evicted: RadixNode | None = None

    def __len__(self) -> int:
        """Number of entries, stale ones included."""
        return sum(map(len, self._heaps.values()))

    def offer(self, node: RadixNode) -> None:
        """Add a leaf that can be evicted, or one with a changed priority or last use."""
        self._serial += 1
        heappush(self._heaps[node.priority], (_order(node), self._serial, node))

    def rebuild(self, nodes: Iterable[RadixNode]) -> None:
        """Replace all entries."""
        for heap in self._heaps.values():
            heap.clear()
        for node in nodes:
            self._serial += 1
            self._heaps[node.priority].append((_order(node), self._serial, node))
        for heap in self._heaps.values():
            heapify(heap)

    def next_cuts(self, wanted_pages: int, now_s: float) -> list[Cut]:
        """Next leaves to evict, each with the number of pages to cut from its end.

        A leaf that loses only a part must be offered again. Returns fewer pages than wanted if the
        parents of a leaf have to go as well, and none if there are no leaves.
        """
        first = self._head_unkept(now_s)
        kept = self._head(EvictionPriority.KEEP)
        if kept is None:
            return self._take_from(first, wanted_pages)
        least = _cost(kept, now_s)
        cost_of_first = inf if first is None else _cost(first, now_s)
        if cost_of_first <= least:
            # Its pages cost less than any kept page, without a fixed cost: no choice is better.
            return self._take_from(first, wanted_pages)
        # An unkept leaf is still the best choice if no kept leaf with its fixed cost is cheaper.
        limit = least * (1 + WAIT_PAGES / wanted_pages)
        cut = self._already_cut()
        if cut is not None and _cost(cut, now_s) <= min(cost_of_first, limit):
            return [(cut, min(wanted_pages, len(cut.pages)))]
        if cost_of_first <= limit and first is not None and len(first.pages) >= wanted_pages:
            return self._take_from(first, wanted_pages)
        return self._cheapest_cuts(wanted_pages, now_s)

    def _already_cut(self) -> RadixNode | None:
        """A kept leaf that was cut before: its program has to wait for a forward anyway."""
        node = self._partly_evicted
        if node is None or not (node.is_free_leaf and node.is_cut):
            return None
        return node if node.priority is EvictionPriority.KEEP else None

    def _take_from(self, first: RadixNode | None, wanted_pages: int) -> list[Cut]:
        """As much of this leaf as is wanted."""
        if first is None:
            return []
        heappop(self._heaps[first.priority])
        return [(first, min(wanted_pages, len(first.pages)))]

    def _cheapest_cuts(self, wanted_pages: int, now_s: float) -> list[Cut]:
        """Choose among kept leaves and the unkept ones that come before them."""
        found: dict[int, RadixNode] = {}  # a leaf that was offered twice has two entries
        pages = 0
        while pages < 2 * wanted_pages and len(found) < MAX_CANDIDATES // 2:
            node = self._head_unkept(now_s)
            if node is None:
                break
            heappop(self._heaps[node.priority])
            pages += len(node.pages)
            found[id(node)] = node
        while (
            len(found) < MAX_CANDIDATES and (node := self._head(EvictionPriority.KEEP)) is not None
        ):
            heappop(self._heaps[EvictionPriority.KEEP])
            found[id(node)] = node
        taken = list(found.values())
        candidates = [_candidate(node, now_s) for node in taken]
        cuts = [(taken[at], count) for at, count in cheapest_cuts(candidates, wanted_pages)]
        chosen = {id(node) for node, _ in cuts}
        for node in taken:
            if id(node) not in chosen:
                self.offer(node)
        last = cuts[-1][0]
        self._partly_evicted = last if last.priority is EvictionPriority.KEEP else None
        return cuts

    def _head_unkept(self, now_s: float) -> RadixNode | None:
        """The cheapest leaf without a `KEEP`."""
        heads = (self._head(priority) for priority in _UNKEPT)
        return min(
            (node for node in heads if node is not None),
            key=lambda node: _cost(node, now_s),
            default=None,
        )

    def _head(self, priority: EvictionPriority) -> RadixNode | None:
        heap = self._heaps[priority]
        while heap:
            order, _, node = heap[0]
            if node.is_free_leaf and node.priority is priority and order == _order(node):
                return node
            heappop(heap)
        return None

    def __iter__(self) -> Iterator[RadixNode]:
        """Leaves that can be evicted, in no order; for inspection."""
        for priority, heap in self._heaps.items():
            for order, _, node in heap:
                if node.is_free_leaf and node.priority is priority and order == _order(node):
                    yield node


def _order(node: RadixNode) -> float:
    """Order within a priority: least recently used first, or latest expected reuse first."""
    if node.priority is not EvictionPriority.KEEP:
        return node.used
    return 1.0 if node.reuse_by_s is None else -node.reuse_by_s


def _cost(node: RadixNode, now_s: float) -> float:
    """Cost of losing one page of the node, in pages computed."""
    match node.priority:
        case EvictionPriority.DROP:
            return 0.0
        case EvictionPriority.KEEP:
            left_s = 0.0 if node.reuse_by_s is None else max(0.0, node.reuse_by_s - now_s)
            return 1.0 / (1.0 + left_s / HORIZON_S)
        case unkept:
            age_s = max(0.0, now_s - node.used_at_s)
            cost = 0.5 / (1.0 + age_s / HORIZON_S)
            return cost * RELOAD_SHARE if unkept is EvictionPriority.DEMOTED else cost


def _candidate(node: RadixNode, now_s: float) -> Candidate:
    cost = _cost(node, now_s)
    waited_for = node.priority is EvictionPriority.KEEP and not node.is_cut
    return Candidate(len(node.pages), cost, cost * WAIT_PAGES if waited_for else 0.0)
