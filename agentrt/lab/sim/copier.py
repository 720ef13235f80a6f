"""Copies between an engine and its offload tier that take time and copy nothing.

The tier, its rates and its hints are those of production. The costs give the time of a copy, and
the engine waits for it, like on a CPU. A GPU copies while it computes, so for a GPU the result is
an upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import PageId
from agentrt.engine.kv.offload import CopyRates, OffloadCache, TimedCopier
from agentrt.kv_cache import OffloadTier
from agentrt.lab.sim.costs import SimCosts


class VirtualCopier:
    """Measures the virtual time of copies.

    Attributes:
        costs: Costs of the copies that follow.
        load_s: Seconds of the last load.
        copied_s: Seconds of all copies.
    """

    def __init__(self, costs: SimCosts, page_tokens: int, rates: CopyRates) -> None:
        self.costs = costs
        self.load_s = 0.0
        self.copied_s = 0.0
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
        """Seconds of the copies since the last call."""
        taken_s, self._untaken_s = self._untaken_s, 0.0
        self.copied_s += taken_s
        return taken_s

    def _copy(self, pages: int) -> float:
        took_s = pages * self._page_tokens * self.costs.copy_token_s
        self._untaken_s += took_s
        self._rates.note_copy(pages, took_s)
        return took_s


def page_bytes_of(costs: SimCosts, page_tokens: int) -> int:
    """Memory of one page.

    Raises:
        UsageError: The costs lack the memory of a token.
    """
    if not costs.kv_token_bytes:
        raise UsageError(
            "these costs lack the memory of a token's KV",
            hint="Add kv_token_bytes and copy_token_s to their file, or leave out --host-kv-tokens",
        )
    return max(1, round(page_tokens * costs.kv_token_bytes))


def open_virtual_offload(
    config: EngineConfig, costs: SimCosts
) -> tuple[OffloadCache[TimedCopier], VirtualCopier] | None:
    """The offload tier and its copier; None if the budget is 0.

    Raises:
        UsageError: The costs lack the memory of a token.
    """
    if not config.host_kv_bytes:
        return None
    size = page_bytes_of(costs, config.page_tokens)
    rates = CopyRates(size, config.page_tokens)
    copier = VirtualCopier(costs, config.page_tokens, rates)
    tier = OffloadTier(config.host_kv_bytes // size, config.page_tokens, copier)
    return OffloadCache(tier, copier, rates), copier
