"""The work of a step as it is scheduled."""

from __future__ import annotations

from collections.abc import Callable

from agentrt.engine.runner.executor import ScheduledBatch
from agentrt.engine.sequence.sequence import Sequence
from agentrt.lab.sim.costs import StepWork


def work_of(scheduled: ScheduledBatch, is_formed: Callable[[Sequence], bool]) -> StepWork:
    """The work of a scheduled step.

    Args:
        scheduled: The step, before its tokens count as computed.
        is_formed: Whether a grammar constrains the output of a sequence.
    """
    prefill_tokens = decode_tokens = kv_tokens = formed = 0
    pairs = 0.0
    for sequence, count in scheduled.sequences:
        done = sequence.computed_tokens
        kv_tokens += done + count
        draws = draws_after(sequence, count)
        decode_tokens += draws
        formed += draws and is_formed(sequence)
        if sequence.is_prefilling:
            prefill_tokens += count
            pairs += count * (done + count / 2)
        elif count > 1:  # forced tokens, or those of an output that lost its pages
            prefill_tokens += count - 1
            pairs += (count - 1) * (done + count / 2)
    return StepWork(prefill_tokens, decode_tokens, kv_tokens, pairs, formed, scheduled.waiting)


def draws_after(sequence: Sequence, count: int) -> bool:
    """Whether the sequence has an output token after `count` further tokens."""
    return sequence.complete and sequence.computed_tokens + count == len(sequence.tokens)
