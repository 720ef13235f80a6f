"""What the next step computes. Pure decisions: no tensors, no clock, no pages change hands here.

A step is `{request: tokens}` under a budget. There is no prefill phase and no decode phase:
sequences that decode come first, then prompts, begun or not, in the scheduler's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agentrt.base.ids import RequestId
from agentrt.engine.sequence.sequence import Urgency
from agentrt.kv_cache.node import TOKEN_BYTES

Cause = Literal["pages", "slots", "budget", "prefix"]
"""Why a request that waits gets no place in a step: too little memory, all places taken, no tokens
left for it, or that another one is computing what it needs too."""

SLACK_TOKENS = 128
"""Most tokens of prompts that nobody waits for, in a step in which somebody waits for others."""


class TokenBudget:
    """Shares of one step's budget.

    Attributes:
        left_tokens: What is not given away yet.
        shares: Tokens by request, in the order of the batch.
        slack_tokens: What is left for prompts that nobody waits for, where somebody waits for
            other tokens of the step.
    """

    __slots__ = ("left_tokens", "shares", "slack_tokens")

    def __init__(self, step_tokens: int) -> None:
        self.left_tokens = step_tokens
        self.slack_tokens = SLACK_TOKENS
        self.shares: dict[RequestId, int] = {}

    def give(self, request_id: RequestId, wanted_tokens: int, most_tokens: int) -> int:
        """Up to `most_tokens` of what is wanted and left; returns how many it has now in all."""
        has = self.shares.get(request_id, 0)
        more = min(wanted_tokens - has, most_tokens - has, self.left_tokens)
        if more <= 0:
            return has
        self.shares[request_id] = has + more
        self.left_tokens -= more
        return has + more

    def take_back(self, request_id: RequestId) -> None:
        """The sequence does not take part after all."""
        self.left_tokens += self.shares.pop(request_id, 0)


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """What makes a running sequence the one to give up its pages.

    Attributes:
        request_id: Which.
        urgency: The larger, the sooner it gives way.
        output_tokens: Produced so far.
        prompt_tokens: Length of its prompt.
        serial: Order of arrival.
    """

    request_id: RequestId
    urgency: Urgency
    output_tokens: int
    prompt_tokens: int
    serial: int


def preemption_victim(running: Iterable[PreemptionCandidate]) -> RequestId | None:
    """The least urgent; among those the fewest output tokens, the longest prompt, the latest.

    By urgency, or what has just been let in for its urgency would make way for what is not urgent.
    Of those as urgent as each other, the one with the fewest outputs loses least, and what is
    nearest to its end goes on: it frees its pages soonest.
    """
    worst = max(
        running,
        key=lambda one: (one.urgency, -one.output_tokens, one.prompt_tokens, one.serial),
        default=None,
    )
    return None if worst is None else worst.request_id


def common_tokens(one: bytes, other: bytes) -> int:
    """Tokens that two keys share from the start."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most // TOKEN_BYTES
    low, high = 0, most
    while low + 1 < high:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low // TOKEN_BYTES


def prefix_owner(
    key: bytes, matched_tokens: int, under_way: Sequence[bytes], page_tokens: int
) -> int | None:
    """Which of the prompts under way computes what this one would compute too; None for none.

    Args:
        key: Of the waiting sequence's tokens.
        matched_tokens: What the tree has of them.
        under_way: Keys of the prompts that are being computed.
        page_tokens: Tokens of a page; less than one page is not worth waiting for.
    """
    usable = (len(key) // TOKEN_BYTES - 1) // page_tokens * page_tokens
    wanted = matched_tokens + page_tokens
    if usable < wanted:
        return None
    for at, other in enumerate(under_way):
        if common_tokens(key, other) >= wanted:
            return at
    return None
