"""KV budget of an engine: what runs commit of it, and reservations for runs that wait too long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentrt.base.record import record
from agentrt.scheduler.admission.kv_need import KvNeed
from agentrt.scheduler.runs.run import RunState


class KvBudget:
    """The KV budget of one engine.

    Attributes:
        kv_tokens: Tokens that the KV cache holds on the device.
        limit_tokens: Tokens that runs may commit, of the device and of CPU memory together.
    """

    __slots__ = ("kv_tokens", "limit_tokens")

    def __init__(self, kv_tokens: float, host_kv_tokens: int, share: float) -> None:
        self.kv_tokens = kv_tokens
        self.limit_tokens = share * (kv_tokens + min(host_kv_tokens, kv_tokens))


def fit_reason(
    needs: Mapping[str, KvNeed], free: Mapping[str, float], in_use: Mapping[str, bool]
) -> str:
    """Why a run can be admitted, or "": it fits in each engine, or has the engine to itself."""
    alone = in_waves = False
    for role, need in needs.items():
        in_waves |= need.entry_tokens < need.peak_tokens
        if need.entry_tokens > free[role]:
            if in_use[role]:
                return ""
            alone = True
    if alone:
        return "nothing else runs"
    return "it fits, its branches in waves" if in_waves else "its peak fits"


@record
class Reservation:
    """KV budget reserved for a run, and what it leaves to backfill.

    Attributes:
        begins_at_s: Latest instant at which the run is expected to begin.
        spare_tokens: Tokens by role that are free beside it then.
    """

    begins_at_s: float
    spare_tokens: dict[str, float]

    def backfill_reason(self, run: RunState, needs: Mapping[str, KvNeed], now_s: float) -> str:
        """Why another run may begin before the reserved one, or ""."""
        if run.path_p90_s > 0.0 and now_s + run.path_p90_s <= self.begins_at_s:
            return "it ends before the run with the reservation could begin"
        if all(need.entry_tokens <= self.spare_tokens[role] for role, need in needs.items()):
            return "it fits beside the run with the reservation"
        return ""


def reserve(
    needs: Mapping[str, KvNeed],
    free: Mapping[str, float],
    ends: Iterable[tuple[float, Mapping[str, float]]],
    now_s: float,
) -> Reservation:
    """Reserve the earliest instant at which a run is expected to fit.

    Args:
        needs: Needs of the run, by role.
        free: Free tokens by role now.
        ends: Expected ends of other runs, the earliest first, with the tokens by role they free.
        now_s: Now.
    """
    free = dict(free)
    begins_at_s = now_s
    for at_s, tokens in ends:
        if all(need.entry_tokens <= free[role] for role, need in needs.items()):
            break
        begins_at_s = max(now_s, at_s)
        for role in needs:
            free[role] += tokens[role]
    return Reservation(
        begins_at_s, {role: free[role] - need.entry_tokens for role, need in needs.items()}
    )
