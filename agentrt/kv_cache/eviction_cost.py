"""Eviction cost: which pages to evict so that the least is lost, by guarded cost density.

Each candidate can be cut from its end. A cut has a fixed cost, since the program that comes back
has to wait for another forward, and a cost a page. Taking the cheapest page first can be
arbitrarily bad: one candidate with many pages looks cheap and costs its whole fixed part for a
single page. So the order by density is tried again without candidates with too high a fixed cost;
the best of these trials costs at most twice the optimum, by the same argument as for the knapsack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_CANDIDATES = 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """Pages that can be evicted, from their end.

    Attributes:
        pages: Number of pages; at least one.
        page_cost: Cost of each evicted page.
        fixed_cost: Cost of evicting any.
    """

    pages: int
    page_cost: float
    fixed_cost: float = 0.0

    @property
    def density(self) -> float:
        """Cost a page if all pages go."""
        return self.page_cost + self.fixed_cost / self.pages

    def cost(self, pages: int) -> float:
        """Cost of evicting so many pages."""
        return self.fixed_cost + self.page_cost * pages if pages else 0.0


Cut = tuple[int, int]
"""Index of a candidate, and the number of its pages to evict."""


def cheapest_cuts(candidates: Sequence[Candidate], wanted_pages: int) -> list[Cut]:
    """Cuts that evict `wanted_pages` at no more than twice the least cost.

    If there are fewer pages, all of them go. Equal densities keep the given order.
    """
    order = sorted(range(len(candidates)), key=lambda at: candidates[at].density)
    best: list[Cut] = []
    best_cost = float("inf")
    while order:
        cuts, freed = _by_density(candidates, order, wanted_pages)
        if freed < wanted_pages:
            return best or cuts
        cost = sum(candidates[at].cost(pages) for at, pages in cuts)
        if cost < best_cost:
            best, best_cost = cuts, cost
        # Without the last one's fixed cost this is a lower bound of every choice from `order`.
        highest = candidates[cuts[-1][0]].fixed_cost
        if highest <= cost - highest:
            return best
        order = [at for at in order if candidates[at].fixed_cost < highest]
    return best


def _by_density(
    candidates: Sequence[Candidate], order: Sequence[int], wanted_pages: int
) -> tuple[list[Cut], int]:
    cuts: list[Cut] = []
    freed = 0
    for at in order:
        if freed >= wanted_pages:
            break
        pages = min(candidates[at].pages, wanted_pages - freed)
        cuts.append((at, pages))
        freed += pages
    return cuts, freed
