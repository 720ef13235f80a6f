"""What engines are told of prefixes that nobody computes on: pure decisions.

While tools run, a prefix waits for whoever goes on from it. For a short while it stays where it is;
for longer than bringing it back takes, slower memory has it and others get its room; and it is
fetched just before it is needed. Without slower memory it stays, weighed by how soon it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.base.record import record
from agentrt.protocol.backend import KvHint
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler.runs.run import NodeState

FIRST_GAP_S = 2.0
"""How long a prefix is kept for work of which nothing is known; three of four tools take less."""
LEAST_LONG_GAP_S = 0.1
LONG_RELOADS = 2.0
AHEAD_RELOADS = 1.5
_MARGIN_SHARE = 0.25
_MARGIN_S = 0.05
_SMOOTHING = 0.2


@record
class Gap:
    """When a prefix is needed again, in seconds from now.

    Attributes:
        p50_s: As likely before as after.
        p75_s: Three of four times by then.
    """

    p50_s: float
    p75_s: float


@record
class Advice:
    """What to tell an engine of a prefix.

    Attributes:
        hint: What becomes of it now.
        until_s: When a `keep` ends.
        fetch_at_s: When what was demoted has to be on its way back; None for the others.
    """

    hint: KvHint
    until_s: float | None = None
    fetch_at_s: float | None = None


class Reloads:
    """What bringing KV back from slower memory takes; a guess until an engine's ledger told.

    Attributes:
        token_s: For each token.
    """

    __slots__ = ("token_s",)

    def __init__(self, token_s: float = 5e-6) -> None:
        self.token_s = token_s

    def note(self, ledger: Ledger) -> None:
        """A request ended, some of whose prompt may have come back."""
        if ledger.cached_host_tokens and ledger.kv_reload_s > 0:
            seen_s = ledger.kv_reload_s / ledger.cached_host_tokens
            self.token_s += _SMOOTHING * (seen_s - self.token_s)


def gap_of(nodes: Iterable[NodeState], now_s: float) -> Gap | None:
    """Until all of these have ended; None when of one of them nothing is known.

    What has lasted longer than three of four will last half as long again.
    """
    p50_s = p75_s = 0.0
    for node in nodes:
        learned = node.place.of("tool_s" if node.kind == "tool" else "busy_s")
        if learned is None:
            return None
        lasted_s = 0.0 if node.started_at_s is None else max(0.0, now_s - node.started_at_s)
        rests = [learned.quantile(share) - lasted_s for share in (0.5, 0.75)]
        late_s = 0.5 * lasted_s if rests[1] <= 0 else 0.0
        p50_s = max(p50_s, rests[0], late_s)
        p75_s = max(p75_s, rests[1], late_s)
    return Gap(p50_s, p75_s)


def advise(gap: Gap | None, tokens: int, reloads: Reloads | None, now_s: float) -> Advice:
    """What to tell of a prefix that is needed again after a gap.

    Args:
        gap: When; None when nothing is known.
        tokens: How long the prefix is.
        reloads: Of the engine's slower memory; None where it has none.
        now_s: Now.
    """
    if gap is None:
        return Advice("keep", now_s + FIRST_GAP_S)
    if reloads is not None:
        reload_s = tokens * reloads.token_s
        if gap.p50_s > max(LEAST_LONG_GAP_S, LONG_RELOADS * reload_s):
            fetch_at_s = now_s + gap.p50_s - AHEAD_RELOADS * reload_s
            return Advice("demote", fetch_at_s=fetch_at_s)
    return Advice("keep", now_s + gap.p75_s * (1 + _MARGIN_SHARE) + _MARGIN_S)
