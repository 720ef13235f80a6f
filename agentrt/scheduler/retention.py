"""Retention of idle prefixes: pure decisions about the hints that engines get.

While tools run, a prefix waits for the generation that continues it. For a short gap it stays on
the device. For a gap longer than a reload it is offloaded, so that others get its pages, and is
prefetched just before it is needed. Without KV offload it stays, weighted by how soon it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.base.record import record
from agentrt.protocol.backend import KvHint
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler.runs.run import NodeState

DEFAULT_GAP_S = 2.0
"""Time for which a prefix is kept if nothing is known; three of four tools take less."""
MIN_LONG_GAP_S = 0.1
LONG_RELOADS = 2.0
PREFETCH_RELOADS = 1.5
_MARGIN_SHARE = 0.25
_MARGIN_S = 0.05
_SMOOTHING = 0.2


@record
class Gap:
    """Time until a prefix is needed again, in seconds.

    Attributes:
        p50_s: Median.
        p75_s: Third quartile.
    """

    p50_s: float
    p75_s: float


@record
class RetentionAdvice:
    """Hint for an engine about a prefix.

    Attributes:
        hint: Kind of the hint.
        until_s: End of a `keep`.
        prefetch_at_s: Instant at which to reload after a `demote`; None for other hints.
    """

    hint: KvHint
    until_s: float | None = None
    prefetch_at_s: float | None = None


class ReloadCost:
    """Time of reloading offloaded KV; a guess until a ledger of the engine tells.

    Attributes:
        token_s: Seconds per token.
    """

    __slots__ = ("token_s",)

    def __init__(self, token_s: float = 5e-6) -> None:
        self.token_s = token_s

    def note_reload(self, ledger: Ledger) -> None:
        """Learn from an ended request; part of the prompt may have been reloaded."""
        if ledger.cached_host_tokens and ledger.kv_reload_s > 0:
            seen_s = ledger.kv_reload_s / ledger.cached_host_tokens
            self.token_s += _SMOOTHING * (seen_s - self.token_s)


def expected_gap(nodes: Iterable[NodeState], now_s: float) -> Gap | None:
    """Time until all of these nodes have ended; None if nothing is known about one of them.

    A node that has lasted longer than three of four will last half as long again.
    """
    p50_s = p75_s = 0.0
    for node in nodes:
        histogram = node.estimates.histogram_of("tool_s" if node.kind == "tool" else "busy_s")
        if histogram is None:
            return None
        lasted_s = 0.0 if node.started_at_s is None else max(0.0, now_s - node.started_at_s)
        left_s = [histogram.quantile(share) - lasted_s for share in (0.5, 0.75)]
        late_s = 0.5 * lasted_s if left_s[1] <= 0 else 0.0
        p50_s = max(p50_s, left_s[0], late_s)
        p75_s = max(p75_s, left_s[1], late_s)
    return Gap(p50_s, p75_s)


def advise_retention(
    gap: Gap | None, tokens: int, reload_cost: ReloadCost | None, now_s: float
) -> RetentionAdvice:
    """Advise on a prefix that is needed again after a gap.

    Args:
        gap: Expected gap; None if nothing is known.
        tokens: Length of the prefix.
        reload_cost: Cost of reloads; None without KV offload.
        now_s: Now.
    """
    if gap is None:
        return RetentionAdvice("keep", now_s + DEFAULT_GAP_S)
    if reload_cost is not None:
        reload_s = tokens * reload_cost.token_s
        if gap.p50_s > max(MIN_LONG_GAP_S, LONG_RELOADS * reload_s):
            fetch_at_s = now_s + gap.p50_s - PREFETCH_RELOADS * reload_s
            return RetentionAdvice("demote", prefetch_at_s=fetch_at_s)
    return RetentionAdvice("keep", now_s + gap.p75_s * (1 + _MARGIN_SHARE) + _MARGIN_S)
