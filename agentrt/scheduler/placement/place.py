"""The decision which worker of a fleet gets a request. Pure: nothing is read but the arguments.

Each worker has a score in seconds, and the smallest wins: the learned work that is ahead there, a
share of what it was sent of late if the run is new, and the work that the request would make.
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

NEW_RUN_WEIGHT = 4.0
"""Multiple of its own time that computing a token again costs, for the first request of a run."""

CONTINUATION_WEIGHT = 48.0
"""The same for a later request: its prefix is its run's own, so that a copy serves no other prompt,
and the next requests of the run would follow it."""

SIBLING_WEIGHT = 1.0
"""Multiple of its own time that work of the same run ahead of a request costs on top.

A fork of some requests stays together, and a fan of hundreds spreads although its prefix is dear.
"""

WAIT_WEIGHT = 1.0
"""Multiple of the time of computing a prefix again for which a request waits for a full worker
while another one has room. That room stands empty, and the wait has no known end: so it costs at
most what it may spare."""

RECENT_SHARE = 0.3
"""Share of the work sent of late that counts as ahead of a new run. The runs behind that work are
going to send more to the same worker."""


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
    sibling_s: Mapping[str, float] | None = None,
    home: str = "",
) -> Placement | None:
    """The worker for a request; None if it may go to none.

    Args:
        request: The request.
        workers: The workers.
        matched_tokens: Tokens of the prompt that each worker is believed to hold; 0 if left out.
        costs: Costs of tokens at workers of which nothing is learned.
        sibling_s: Work ahead at each worker that is of the same run; 0 if left out.
        home: Worker of the last request of the run; "" if there is none.

    Returns:
        The placement. A worker without room is chosen if waiting for it is expected to be better,
        but not once the request has waited for longer than its prefix is worth.
    """
    again_weight = CONTINUATION_WEIGHT if home else NEW_RUN_WEIGHT
    recent_share = 0.0 if home else RECENT_SHARE
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
        own = worker.costs or costs
        output_s = request.output_tokens * own.decode_s
        again_s = again_weight * own.prefill_s * (request.prompt_tokens - matched)
        ahead_s = worker.in_flight_s + recent_share * worker.recent_s
        if sibling_s:
            ahead_s += SIBLING_WEIGHT * sibling_s.get(name, 0.0)
        score_s = (ahead_s + output_s + again_s) / worker.weight
        key = (score_s, name != home, worker.recent_s / worker.weight)
        if best is None or key < best_key:
            best, best_key = worker, key
        if worker.room >= 1 and (free is None or key < free_key):
            free, free_key = worker, key
    if best is None:
        return None
    own = best.costs or costs
    worth_s = WAIT_WEIGHT * own.prefill_s * matched_tokens.get(best.name, 0.0)
    if free is not None and free is not best and request.waited_s > worth_s / best.weight:
        best, best_key = free, free_key
    matched = matched_tokens.get(best.name, 0.0)
    own = best.costs or costs
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
        ("recent_s", best.recent_s),
        ("work_s", own.work_s(request.prompt_tokens - matched, request.output_tokens)),
        ("score_s", best_key[0]),
    )
    return Placement(best.name, best.room < 1, reason, terms)
