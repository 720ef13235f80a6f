"""Preemption: which running sequence loses its pages for a more urgent one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentrt.engine.sequence.sequence import Sequence, Urgency


def preemption_victim(
    candidates: Iterable[Sequence], urgency: Callable[[Sequence], Urgency]
) -> Sequence | None:
    """The least urgent sequence; ties go to the shortest output, longest prompt, latest arrival.

    Urgency comes first, or a request just admitted for its urgency would be preempted for a less
    urgent one. Among equals the shortest output loses the least work, and those closest to their
    end go on and free their pages soonest.
    """
    return max(
        candidates,
        key=lambda one: (urgency(one), -one.output_tokens, one.prompt_tokens, one.serial),
        default=None,
    )
