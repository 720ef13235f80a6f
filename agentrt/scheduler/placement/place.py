"""The decision which worker of a fleet gets a request. Pure: nothing is read but the arguments.

Each worker has a score in seconds, and the smallest wins: the learned work that is ahead there, a
share of the work that its runs are yet to send, and the work that the request itself would make.
Prompt tokens that are not in the worker's KV cache count several times over. Computing them again
takes time from all that wait, and memory from other prefixes.

So a continuation follows its prefix until the work ahead exceeds what the prefix is worth, a hot
prefix is copied to another worker at that point, and prompts that nothing knows go where the least
work is, counted in seconds and not in requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from agentrt.base.record import record
from agentrt.scheduler.placement.worker_load import PlacementRequest, TokenCosts, WorkerLoad

PlacementReason = Literal["prefix", "spread", "overload", "wait", "full", "only"]
"""Reason of a placement.

`prefix`: the longest known prefix is there. `spread`: no worker has one, the least work is there.
`overload`: the worker with the longest prefix has too much to do. `wait`: the prefix is worth more
than the wait. `full`: no worker has room. `only`: no other worker may have it.
"""

RECOMPUTE_WEIGHT = 4.0
"""Multiple of its own time that computing a token again costs a busy fleet."""

RESIDENT_SHARE = 0.25
"""Share of the work that resident runs are yet to send that counts as ahead of a request."""


@record
class Placement:
    """The worker of a request.

    Attributes:
        worker: Name of the worker.
        waits: Whether to hold the request back until the worker has room. Another call may decide
            otherwise once anything has changed.
        reason: Reason.
        terms: Quantities of the decision by name, for traces.
    """

    worker: str
    waits: bool
    reason: PlacementReason
    terms: tuple[tuple[str, float], ...] = ()


def place(
    request: PlacementRequest,
    workers: Iterable[WorkerLoad],
    matched_tokens: Mapping[str, float],
    costs: TokenCosts,
    home: str = "",
    rest_s: float = 0.0,
) -> Placement | None:
    """The worker for a request; None if it may go to none.

    Args:
        request: The request.
        workers: The workers.
        matched_tokens: Tokens of the prompt that each worker is believed to hold; 0 if left out.
        costs: Costs of tokens.
        home: Worker of the last request of the run; "" if there is none.
        rest_s: Work counted as resident there that would move along with the request.

    Returns:
        The placement. A worker without room is chosen if waiting for it is expected to be better,
        but not once the request has waited for longer than its prefix is worth.
    """
    output_s = request.output_tokens * costs.decode_s
    best: WorkerLoad | None = None
    best_key: tuple[float, bool, float] = (0.0, False, 0.0)
    free: WorkerLoad | None = None
    free_key = best_key
    longest, eligible = 0.0, 0
    for worker in workers:
        name = worker.name
        if not worker.healthy or worker.draining or name in request.excluded:
            continue
        eligible += 1
        matched = matched_tokens.get(name, 0.0)
        longest = max(longest, matched)
        again_s = RECOMPUTE_WEIGHT * costs.prefill_s * (request.prompt_tokens - matched)
        resident_s = worker.resident_s - (rest_s if name == home else 0.0)
        ahead_s = worker.in_flight_s + RESIDENT_SHARE * resident_s
        score_s = (ahead_s + output_s + again_s) / worker.weight
        key = (score_s, name != home, worker.sent_s / worker.weight)
        if best is None or key < best_key:
            best, best_key = worker, key
        if worker.room >= 1 and (free is None or key < free_key):
            free, free_key = worker, key
    if best is None:
        return None
    worth_s = RECOMPUTE_WEIGHT * costs.prefill_s * matched_tokens.get(best.name, 0.0)
    if free is not None and free is not best and request.waited_s > worth_s / best.weight:
        best, best_key = free, free_key
    matched = matched_tokens.get(best.name, 0.0)
    reason: PlacementReason
    if best.room < 1:
        reason = "full" if free is None else "wait"
    elif eligible == 1:
        reason = "only"
    elif matched < longest:
        reason = "overload"
    else:
        reason = "prefix" if matched else "spread"
    terms = (
        ("matched_tokens", matched),
        ("longest_match_tokens", longest),
        ("ahead_s", best.in_flight_s),
        ("resident_s", best.resident_s),
        ("work_s", costs.work_s(request.prompt_tokens - matched, request.output_tokens)),
        ("score_s", best_key[0]),
    )
    return Placement(best.name, best.room < 1, reason, terms)
