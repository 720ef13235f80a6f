"""The host's tier of a simulated engine: production's own, over pages that nobody fills.

What is kept, given up, promised and fetched is decided by the tree, the rates and the paging that
serve requests. Only the copies are not made: each takes as long as costs say, and keeps the engine
for so long, as it does on a CPU. A GPU loads beside computing, so for one that is the upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt.engine.kv.offload import CopyRates, OffloadCache
from agentrt.kv_cache import OffloadTier
from agentrt.lab.sim.costs import SimCosts


class VirtualCopier:
    """Copies that only take time.

    Attributes:
        costs: Of a copy; others hold for those that follow.
        load_s: How long the last load took.
    """

    def __init__(self, costs: SimCosts, page_tokens: int, rates: CopyRates) -> None:
        self.costs = costs
        self.load_s = 0.0
        self._page_tokens = page_tokens
        self._rates = rates
        self._untaken_s = 0.0

    def save(self, upper: Sequence[PageId], lower: Sequence[PageId]) -> None:
        """Copy pages down."""
        self._copy(len(upper))

    def load(self, lower: Sequence[PageId], upper: Sequence[PageId]) -> None:
        """Copy pages up."""
        self.load_s = self._copy(len(upper))

    def take_s(self) -> float:
        """Seconds of the copies since this was asked last."""
        taken_s, self._untaken_s = self._untaken_s, 0.0
        return taken_s

    def _copy(self, pages: int) -> float:
        took_s = pages * self._page_tokens * self.costs.copy_token_s
        self._untaken_s += took_s
        self._rates.note_copy(pages, took_s)
        return took_s


VirtualHost = OffloadCache[VirtualCopier]


def page_bytes_of(costs: SimCosts, page_tokens: int) -> int:
    """Memory of one page.

    Raises:
        UsageError: The costs do not tell.
    """
    if not costs.kv_token_bytes:
        raise UsageError(
            "these costs do not tell how much memory the KV of a token takes",
            hint="Add kv_token_bytes and copy_token_s to their file, or leave out --host-kv-tokens",
        )
    return max(1, round(page_tokens * costs.kv_token_bytes))


def virtual_host(config: EngineConfig, costs: SimCosts) -> VirtualHost | None:
    """The host's tier, or None where the budget is 0.

    Raises:
        UsageError: The costs do not tell how much memory a page takes.
    """
    if not config.host_kv_bytes:
        return None
    size = page_bytes_of(costs, config.page_tokens)
    rates = CopyRates(size, config.page_tokens)
    copier = VirtualCopier(costs, config.page_tokens, rates)
    return OffloadCache(
        OffloadTier(config.host_kv_bytes // size, config.page_tokens, copier), copier, rates
    )
