"""Which pages to give up so that the least is lost: guarded cost density.

Each candidate can be cut from its end. Cutting costs something once, whoever comes back has to wait
for another forward, and something a page. Taking the cheapest a page first can be arbitrarily bad:
one candidate with many pages looks cheap and costs its whole fixed part for a single page. So the
order by density is tried again without candidates whose fixed part is too high; the best of these
trials costs at most twice the optimum, by the same argument as for the knapsack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_CANDIDATES = 256


@dataclass(frozen=True, slots=True)
class Candidate:
    """Pages that could be given up, from their end.

    Attributes:
        pages: How many; at least one.
        page_cost: Of each page given up.
        fixed_cost: Of giving up any.
    """

    pages: int
    page_cost: float
    fixed_cost: float = 0.0

    @property
    def density(self) -> float:
        """Cost a page when all of it goes."""
        return self.page_cost + self.fixed_cost / self.pages

    def cost(self, pages: int) -> float:
        """Of giving up some of it."""
        return self.fixed_cost + self.page_cost * pages if pages else 0.0


Cut = tuple[int, int]
"""Which candidate, and how many of its pages."""


def guarded(candidates: Sequence[Candidate], wanted_pages: int) -> list[Cut]:
    """What to cut so that `wanted_pages` go, at no more than twice the least cost.

    With fewer pages than wanted all of them go. Equal densities keep the order given.
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
        # But for the last one's fixed part this is a lower bound of every choice among `order`.
        dear = candidates[cuts[-1][0]].fixed_cost
        if dear <= cost - dear:
            return best
        order = [at for at in order if candidates[at].fixed_cost < dear]
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
