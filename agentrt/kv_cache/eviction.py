"""Leaves of the radix tree that may go, and which of them goes next.

What losing a page costs is counted in pages computed again: the probability that somebody comes
back for it soon, times what bringing it back takes. Nobody comes back for what was dropped; what
slower memory has too is brought back cheaply; of the rest nothing but its age is known, so the
least recently used goes first; and where a program said that it will be back, that counts the more
the sooner it is, and once more for the forward that it then has to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from math import inf

from agentrt.kv_cache.eviction_cost import MOST_CANDIDATES, Candidate, guarded
from agentrt.kv_cache.node import EvictionPriority, RadixNode

HORIZON_S = 30.0
"""How long from now a return counts half."""
RELOAD_SHARE = 0.125
"""What bringing a page back from slower memory takes, of computing it."""
WAIT_PAGES = 4.0
"""What an additional forward is worth to whoever waits for it, in pages computed."""

Entry = tuple[float, int, RadixNode]
Cut = tuple[RadixNode, int]
_UNSAID = (EvictionPriority.DROP, EvictionPriority.DEMOTED, EvictionPriority.NORMAL)


class EvictionQueue:
    """A heap for each thing that can be said of a leaf; entries that went stale are passed over."""

    def __init__(self) -> None:
        self._heaps: dict[EvictionPriority, list[Entry]] = {
            retention: [] for retention in EvictionPriority
        }
        self._serial = 0
        self._begun: RadixNode | None = None

    def __len__(self) -> int:
        """Entries, stale ones too."""
        return sum(map(len, self._heaps.values()))

    def offer(self, node: RadixNode) -> None:
        """A node may go, or what is known of it has changed."""
        self._serial += 1
        heappush(self._heaps[node.retention], (_order(node), self._serial, node))

    def refill(self, nodes: Iterable[RadixNode]) -> None:
        """Begin anew with these."""
        for heap in self._heaps.values():
            heap.clear()
        for node in nodes:
            self._serial += 1
            self._heaps[node.retention].append((_order(node), self._serial, node))
        for heap in self._heaps.values():
            heapify(heap)

    def next_cuts(self, wanted_pages: int, now_s: float) -> list[Cut]:
        """What to give up next: leaves, and how many pages from the end of each.

        Whoever keeps a part of one offers it again. Fewer pages than wanted when what is behind a
        leaf has to go as well; none when there are no leaves.
        """
        first = self._head_unsaid(now_s)
        kept = self._head(EvictionPriority.KEEP)
        if kept is None:
            return self._all_of(first, wanted_pages)
        least = _cost(kept, now_s)
        own = inf if first is None else _cost(first, now_s)
        if own <= least:
            # Its pages cost less than any that is kept, and it has no fixed cost: no better choice.
            return self._all_of(first, wanted_pages)
        # Nor is there where nothing that would make one more program wait can cost less.
        dear = least * (1 + WAIT_PAGES / wanted_pages)
        begun = self._cut_already()
        if begun is not None and _cost(begun, now_s) <= min(own, dear):
            return [(begun, min(wanted_pages, len(begun.pages)))]
        if own <= dear and first is not None and len(first.pages) >= wanted_pages:
            return self._all_of(first, wanted_pages)
        return self._guarded(wanted_pages, now_s)

    def _cut_already(self) -> RadixNode | None:
        """A kept leaf whose end was given up before: whoever is back for it waits anyhow."""
        node = self._begun
        if node is None or not (node.is_free_leaf and node.is_cut):
            return None
        return node if node.retention is EvictionPriority.KEEP else None

    def _all_of(self, first: RadixNode | None, wanted_pages: int) -> list[Cut]:
        """As much of this one as is wanted."""
        if first is None:
            return []
        heappop(self._heaps[first.retention])
        return [(first, min(wanted_pages, len(first.pages)))]

    def _guarded(self, wanted_pages: int, now_s: float) -> list[Cut]:
        """Among those that somebody will be back for, and those that would go before them."""
        found: dict[int, RadixNode] = {}  # what was told of it twice stands there twice
        pages = 0
        while pages < 2 * wanted_pages and len(found) < MOST_CANDIDATES // 2:
            node = self._head_unsaid(now_s)
            if node is None:
                break
            heappop(self._heaps[node.retention])
            pages += len(node.pages)
            found[id(node)] = node
        while (
            len(found) < MOST_CANDIDATES and (node := self._head(EvictionPriority.KEEP)) is not None
        ):
            heappop(self._heaps[EvictionPriority.KEEP])
            found[id(node)] = node
        taken = list(found.values())
        candidates = [_candidate(node, now_s) for node in taken]
        cuts = [(taken[at], count) for at, count in guarded(candidates, wanted_pages)]
        chosen = {id(node) for node, _ in cuts}
        for node in taken:
            if id(node) not in chosen:
                self.offer(node)
        last = cuts[-1][0]
        self._begun = last if last.retention is EvictionPriority.KEEP else None
        return cuts

    def _head_unsaid(self, now_s: float) -> RadixNode | None:
        """The cheapest of those that nobody said to be back for."""
        heads = (self._head(retention) for retention in _UNSAID)
        return min(
            (node for node in heads if node is not None),
            key=lambda node: _cost(node, now_s),
            default=None,
        )

    def _head(self, retention: EvictionPriority) -> RadixNode | None:
        heap = self._heaps[retention]
        while heap:
            order, _, node = heap[0]
            if node.is_free_leaf and node.retention is retention and order == _order(node):
                return node
            heappop(heap)
        return None

    def __iter__(self) -> Iterator[RadixNode]:
        """Every leaf that may go, in no order; for those who look."""
        for retention, heap in self._heaps.items():
            for order, _, node in heap:
                if node.is_free_leaf and node.retention is retention and order == _order(node):
                    yield node


def _order(node: RadixNode) -> float:
    """Its place among those of which the same was said: the oldest, or the last to be back."""
    if node.retention is not EvictionPriority.KEEP:
        return node.used
    return 1.0 if node.back_by_s is None else -node.back_by_s


def _cost(node: RadixNode, now_s: float) -> float:
    """Of a page of it."""
    match node.retention:
        case EvictionPriority.DROP:
            return 0.0
        case EvictionPriority.KEEP:
            left_s = 0.0 if node.back_by_s is None else max(0.0, node.back_by_s - now_s)
            return 1.0 / (1.0 + left_s / HORIZON_S)
        case unsaid:
            age_s = max(0.0, now_s - node.used_at_s)
            cost = 0.5 / (1.0 + age_s / HORIZON_S)
            return cost * RELOAD_SHARE if unsaid is EvictionPriority.DEMOTED else cost


def _candidate(node: RadixNode, now_s: float) -> Candidate:
    cost = _cost(node, now_s)
    waited_for = node.retention is EvictionPriority.KEEP and not node.is_cut
    return Candidate(len(node.pages), cost, cost * WAIT_PAGES if waited_for else 0.0)
