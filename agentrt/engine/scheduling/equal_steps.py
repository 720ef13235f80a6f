"""How many decode steps over the same sequences may follow each other without planning again."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.scheduler import ScheduledSequence, Scheduler
from agentrt.engine.sequence.sequence import Phase, Sequence

_UNPLANNED = (Phase.WAITING, Phase.COMPILING)


def equal_steps(
    scheduler: Scheduler,
    paging: KvAllocator,
    shares: list[ScheduledSequence],
    plain_steps: Callable[[Sequence], int],
    spare_pages: int,
) -> int:
    """Steps with these shares that each decode one token of every sequence.

    No sequence ends in one but the last, none is preempted, and none waits for admission, which is
    decided anew in each step. It holds if no request arrives, grows or is cancelled meanwhile.

    Args:
        scheduler: Scheduler of the first of them.
        paging: Allocator of the KV pages.
        shares: Sequences and tokens of the first of them.
        plain_steps: How many steps bring a sequence one token each, and nothing else.
        spare_pages: So many pages stay free, unless there is one step only.
    """
    if len(scheduler) > len(shares) and any(one.phase in _UNPLANNED for one in scheduler):
        return 1
    steps = 1 << 30
    for sequence, count in shares:
        if count != 1 or sequence.is_prefilling or sequence.deadline_at_s is not None:
            return 1
        steps = min(steps, plain_steps(sequence))
        if steps <= 1:
            return 1
    free = max(0, paging.pool.free_pages - spare_pages)
    while steps > 1 and sum(paging.missing_pages(one, steps) for one, _ in shares) > free:
        steps //= 2
    return max(1, steps)
