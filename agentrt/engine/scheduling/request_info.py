"""What the place of a request depends on: as it came, as it was told last, or as seen from here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from agentrt.protocol.backend import GenerateRequest, SchedulingInfo


def first_info(
    request: GenerateRequest, others: Iterable[SchedulingInfo], now_s: float
) -> SchedulingInfo:
    """Of a new request: what came with it, else what can be seen here.

    Args:
        request: The new one.
        others: Of all that are under way.
        now_s: When it came.
    """
    info = request.info
    if info is not None and info.run_started_at_s:
        return info
    same = (one.run_started_at_s for one in others if one.run_id == request.run_id)
    started_at_s = min(same, default=request.submitted_at_s)
    if info is not None:
        return replace(info, run_started_at_s=started_at_s)
    return SchedulingInfo(
        request.request_id,
        request.demanded,
        request.deadline_at_s,
        run_started_at_s=started_at_s,
        run_id=request.run_id,
        waiting=1,
        as_of_s=now_s,
    )


def later_info(known: SchedulingInfo, told: SchedulingInfo) -> SchedulingInfo:
    """What is known of a request once more was told: what is never unlearned stays."""
    if not told.run_started_at_s:
        told = replace(told, run_started_at_s=known.run_started_at_s)
    if told.true_rest_s is None and known.true_rest_s is not None:
        told = replace(told, true_rest_s=known.true_rest_s)
    return told
