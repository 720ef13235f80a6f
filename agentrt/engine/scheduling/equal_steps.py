"""Number of decode steps over the same sequences that need no new schedule between them."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.scheduling.scheduler import ScheduledSequence, Scheduler
from agentrt.engine.sequence.sequence import Phase, Sequence


def equal_steps(
    scheduler: Scheduler,
    allocator: KvAllocator,
    scheduled: list[ScheduledSequence],
    plain_steps: Callable[[Sequence], int],
    spare_pages: int,
) -> int:
    """Steps over these sequences that each decode one token of every one.

    No sequence ends in one but the last, none is preempted, and none waits for admission, which is
    decided anew in each step. It holds if no request arrives, grows or is cancelled meanwhile.

    Args:
        scheduler: Scheduler of the first of them.
        allocator: Allocator of the KV pages.
        scheduled: Sequences and tokens of the first of them.
        plain_steps: Number of steps that give a sequence one token each, and no more.
        spare_pages: So many pages stay free, unless there is one step only.
    """
    others = len(scheduler) > len(scheduled)
    if others and any(one.phase is Phase.WAITING or one.compiling for one in scheduler):
        return 1
    if len(scheduler.running) > len(scheduled):  # a prompt that yields, which is decided anew, too
        return 1
    steps = 1 << 30
    for sequence, count in scheduled:
        if count != 1 or sequence.is_prefilling or sequence.deadline_at_s is not None:
            return 1
        steps = min(steps, plain_steps(sequence))
        if steps <= 1:
            return 1
    free = max(0, allocator.pool.free_pages - spare_pages)
    while steps > 1 and sum(allocator.missing_pages(one, steps) for one, _ in scheduled) > free:
        steps //= 2
    return max(1, steps)
